package org.lwmq.core;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.CompletionException;

/** The Java side of requests between Java and Python: {@code serve ADDRESS}, or {@code ask ADDRESS}. */
final class RequestsPeer {
  private RequestsPeer() {}

  public static void main(String[] arguments) {
    String address = arguments[1];
    if (arguments[0].equals("serve")) {
      try (Channel channel = Channel.open(address, Role.SERVER, Channel.Options.DEFAULT);
          Replies replies = new Replies(channel)) {
        System.out.println("there");
        replies.serve(RequestsPeer::answer);
      }
    }
    try (Channel channel = Channel.open(address, Role.CLIENT, Channel.Options.DEFAULT);
        Requests requests = new Requests(channel);
        Scanner lines = new Scanner(System.in)) {
      System.out.println(ask(requests));
      Reply outstanding = requests.submit(Frames.of("never"), Deadline.never());
      System.out.println("asked");
      lines.nextLine(); // the peer is gone by now
      System.out.println(said(outstanding::join));
      System.out.println(requests.statistics());
    }
  }

  private static Frames answer(Frames frames) throws IOException {
    if (frames.text().equals("fail")) {
      throw new IOException("no such carrier: Ä");
    }
    return Frames.of("re", frames.text());
  }

  private static String ask(Requests requests) {
    List<Reply> asked = new ArrayList<>();
    for (int n = 0; n < 2000; n++) {
      asked.add(requests.submit(Frames.of("" + n, "x"), Deadline.after(60_000)));
    }
    for (int n = 0; n < 2000; n++) {
      Frames frames = asked.get(n).join();
      if (frames.count() != 3 || !frames.text().equals("re" + n + "x")) {
        return "wrong: " + frames.text();
      }
    }
    return said(() -> requests.request(Frames.of("fail"), Deadline.after(60_000)));
  }

  private static String said(Runnable call) {
    try {
      call.run();
      return "nothing";
    } catch (HandlerException e) {
      return e.kind() + " " + e.getMessage();
    } catch (LwmqException e) {
      return e.classified();
    } catch (CompletionException e) {
      return ((LwmqException) e.getCause()).classified();
    }
  }
}
