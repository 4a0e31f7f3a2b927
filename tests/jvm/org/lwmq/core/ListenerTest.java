package org.lwmq.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** One address, many clients. */
@Timeout(600)
class ListenerTest {
  private static Deadline soon() {
    return Deadline.after(60_000);
  }

  private static String text(Message message) {
    try (message) {
      return new String(message.bytes(0), StandardCharsets.UTF_8);
    }
  }

  private static Status statusOf(Runnable call) {
    return assertThrows(LwmqException.class, call::run).status();
  }

  /** Asks {@code count} questions, one after the other, and returns the answers. */
  private static List<String> ask(String address, String name, int count) {
    List<String> answers = new ArrayList<>();
    try (Channel client = Channel.open(address, Role.CLIENT, Channel.Options.DEFAULT)) {
      SendQueue queue = client.sendQueue(Priority.NORMAL);
      for (int i = 0; i < count; i++) {
        queue.post(name + " " + i);
        answers.add(text(client.receive(soon())));
      }
    }
    return answers;
  }

  private static <T> List<T> inParallel(List<Callable<T>> calls, Callable<?> meanwhile) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(calls.size());
    try {
      List<Future<T>> futures = new ArrayList<>();
      for (Callable<T> call : calls) {
        futures.add(pool.submit(call));
      }
      meanwhile.call();
      List<T> results = new ArrayList<>();
      for (Future<T> future : futures) {
        results.add(future.get(60, TimeUnit.SECONDS));
      }
      return results;
    } finally {
      pool.shutdownNow();
    }
  }

  private static void assertAllAnswered(List<List<String>> answers, int count) {
    for (int n = 0; n < answers.size(); n++) {
      for (int i = 0; i < count; i++) {
        assertEquals("yes, client " + n + " " + i, answers.get(n).get(i));
      }
    }
  }

  private static List<Callable<List<String>>> clients(String address, int count) {
    List<Callable<List<String>>> clients = new ArrayList<>();
    for (int n = 0; n < count; n++) {
      String name = "client " + n;
      clients.add(() -> ask(address, name, 10));
    }
    return clients;
  }

  @Test
  void eachClientHasAChannelOfItsOwn() throws Exception {
    for (String scheme : List.of("loop", "ipc")) {
      String address = scheme + "://java-listener-each-" + ProcessHandle.current().pid();
      List<Thread> threads = new ArrayList<>();
      try (Listener listener = Listener.open(address, Channel.Options.DEFAULT)) {
        assertNull(listener.tryAccept());
        assertEquals(Status.TIMED_OUT, statusOf(() -> listener.accept(Deadline.after(5))));
        List<List<String>> answers =
            inParallel(
                clients(address, 4),
                () -> {
                  for (int n = 0; n < 4; n++) {
                    Channel channel = listener.accept(soon());
                    threads.add(new Thread(() -> serve(channel)));
                    threads.get(n).start();
                  }
                  return null;
                });
        assertAllAnswered(answers, 10);
        assertEquals(4, listener.statistics().accepted());
        assertEquals(address, listener.address());
      }
      for (Thread thread : threads) {
        thread.join(60_000);
        assertFalse(thread.isAlive());
      }
    }
  }

  private static void serve(Channel channel) {
    try (channel) {
      SendQueue queue = channel.sendQueue(Priority.NORMAL);
      while (true) {
        queue.post("yes, " + text(channel.receive(Deadline.never())));
      }
    } catch (LwmqException e) {
      assertEquals(Status.CLOSED, e.status());
    }
  }

  @Test
  void oneThreadTakesTheBuffersOfRawClients() throws Exception {
    String address = "ipc://java-listener-raw-" + ProcessHandle.current().pid();
    Map<Channel, Integer> sums = new HashMap<>();
    try (Listener listener = Listener.open(address, Channel.Options.RAW);
        Selector selector = new Selector();
        Channel one = Channel.open(address, Role.CLIENT, Channel.Options.RAW);
        Channel two = Channel.open(address, Role.CLIENT, Channel.Options.RAW)) {
      assertEquals(Status.TIMED_OUT, statusOf(() -> selector.select(Deadline.after(20))));
      selector.add(listener);
      for (int i = 1; i <= 10; i++) {
        for (Channel client : List.of(one, two)) {
          TransportBuffer buffer = client.buffer(soon());
          buffer.data().put((byte) i);
          client.send(buffer, 1);
        }
      }
      for (int came = 0; came < 20; ) {
        Channel channel = selector.select(soon());
        try {
          TransportBuffer buffer = channel.receiveBuffer(Deadline.after(0));
          sums.merge(channel, (int) buffer.data().get(0), Integer::sum);
          channel.dispose(buffer);
          came++;
        } catch (LwmqException nothing) {
          assertTrue(nothing.status() == Status.TIMED_OUT || nothing.status() == Status.EMPTY);
        }
      }
      assertEquals(List.of(55, 55), List.copyOf(sums.values()));
      sums.keySet().forEach(channel -> channel.close(0));
    }
  }

  @Test
  void oneThreadServesAListenerAndItsClients() throws Exception {
    String address = "ipc://java-listener-one-" + ProcessHandle.current().pid();
    Map<Channel, SendQueue> queues = new HashMap<>();
    Set<Channel> gone = new HashSet<>();
    try (Listener listener = Listener.open(address, Channel.Options.DEFAULT);
        Selector selector = new Selector()) {
      selector.add(listener);
      assertEquals(Status.INVALID, statusOf(() -> selector.add(listener)));
      List<List<String>> answers =
          inParallel(
              clients(address, 4),
              () -> {
                while (gone.size() < 4) {
                  try {
                    Selector.Received received = selector.receive(soon());
                    queues
                        .computeIfAbsent(received.channel(), channel -> channel.sendQueue(Priority.NORMAL))
                        .post("yes, " + text(received.message()));
                  } catch (LwmqException e) {
                    assertEquals(Status.CLOSED, e.status(), e.getMessage());
                    assertTrue(gone.add(e.channel()));
                  }
                }
                return null;
              });
      assertAllAnswered(answers, 10);
      assertEquals(queues.keySet(), gone);
      assertEquals(0, selector.size());
      assertEquals(Status.TIMED_OUT, statusOf(() -> selector.receive(Deadline.after(20))));
      selector.remove(listener);
      assertEquals(Status.INVALID, statusOf(() -> selector.remove(listener)));
      Listener other = Listener.open(address + "-other", Channel.Options.DEFAULT);
      selector.add(other);
      other.close();
      assertEquals(Status.TIMED_OUT, statusOf(() -> selector.receive(Deadline.after(20))));
      gone.forEach(Channel::close);
    }
  }

  @Test
  void aChannelIsForOneClientAlone() {
    for (String scheme : List.of("loop", "ipc")) {
      String address = scheme + "://java-listener-alone-" + ProcessHandle.current().pid();
      try (Listener listener = Listener.open(address, Channel.Options.DEFAULT.lingering(0))) {
        Channel client = Channel.open(address, Role.CLIENT, Channel.Options.DEFAULT);
        try (Channel channel = listener.accept(soon())) {
          Channel.Peer peer = channel.peer();
          assertEquals(ProcessHandle.current().pid(), peer.pid());
          assertEquals(Identity.here().instance(), peer.instance());
          assertTrue(peer.isConnected());
          assertEquals(Status.INVALID, statusOf(() -> channel.peer(1)));
          SendQueue queue = channel.sendQueue(Priority.NORMAL);
          client.sendQueue(Priority.NORMAL).post("left behind");
          assertEquals("left behind", text(channel.receive(soon())));
          client.close(0);
          assertEquals(Status.CLOSED, statusOf(() -> channel.receive(soon())));
          LwmqException after = assertThrows(LwmqException.class, () -> channel.receive(Deadline.never()));
          assertTrue(after.getMessage().contains("its client has gone"), after.getMessage());
          assertEquals(Status.CLOSED, statusOf(() -> queue.post("to nobody")));
          assertFalse(channel.peer().isConnected());
        }
      }
    }
  }

  @Test
  void isClosedByAnotherThread() throws Exception {
    Listener listener = Listener.open("loop://java-listener-closed", Channel.Options.DEFAULT);
    List<Callable<Status>> waiting = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      waiting.add(() -> statusOf(() -> listener.accept(Deadline.never())));
    }
    List<Status> ends =
        inParallel(
            waiting,
            () -> {
              Thread.sleep(50);
              listener.close();
              listener.close();
              return null;
            });
    assertEquals(List.of(Status.CLOSED, Status.CLOSED, Status.CLOSED), ends);
    assertEquals(new Listener.Statistics(0, 0, 0, ""), listener.statistics());
    assertEquals(Status.CLOSED, statusOf(listener::tryAccept));
    assertEquals("Listener loop://java-listener-closed, closed", listener.toString());
  }

  @Test
  void requestsOfManyClientsAreAnswered() throws Exception {
    String address = "ipc://java-listener-replies-" + ProcessHandle.current().pid();
    try (Listener listener = Listener.open(address, Channel.Options.DEFAULT.lingering(0))) {
      List<Callable<String>> clients = new ArrayList<>();
      for (int n = 0; n < 3; n++) {
        String question = "question " + n;
        clients.add(
            () -> {
              try (Channel client = Channel.open(address, Role.CLIENT, Channel.Options.DEFAULT.lingering(0));
                  Requests requests = new Requests(client)) {
                return requests.request(Frames.of(question), soon()).text();
              }
            });
      }
      List<Thread> servers = new ArrayList<>();
      List<String> answers =
          inParallel(
              clients,
              () -> {
                for (int n = 0; n < 3; n++) {
                  Channel channel = listener.accept(soon());
                  servers.add(
                      new Thread(
                          () -> {
                            try (channel; Replies replies = new Replies(channel)) {
                              replies.serve(frames -> frames); // ends with its client
                            }
                          }));
                  servers.get(n).start();
                }
                return null;
              });
      assertEquals(List.of("question 0", "question 1", "question 2"), answers);
      for (Thread server : servers) {
        server.join(60_000);
        assertFalse(server.isAlive());
      }
    }
  }

  @Test
  void oneThreadAnswersTheRequestsOfManyClients() throws Exception {
    String address = "ipc://java-listener-requests-" + ProcessHandle.current().pid();
    Map<Channel, Replies> replies = new HashMap<>();
    try (Listener listener = Listener.open(address, Channel.Options.DEFAULT.lingering(0));
        Selector selector = new Selector()) {
      selector.add(listener, channel -> replies.put(channel, new Replies(channel)));
      List<Callable<String>> clients = new ArrayList<>();
      for (int n = 0; n < 3; n++) {
        String question = "question " + n;
        clients.add(
            () -> {
              try (Channel client = Channel.open(address, Role.CLIENT, Channel.Options.DEFAULT.lingering(0));
                  Requests requests = new Requests(client)) {
                return requests.request(Frames.of(question), soon()).text();
              }
            });
      }
      List<String> answers =
          inParallel(
              clients,
              () -> {
                for (int gone = 0; gone < 3; ) {
                  try {
                    Selector.Received received = selector.receive(soon());
                    try (Message message = received.message()) {
                      Request request = replies.get(received.channel()).requestOf(message);
                      request.reply(request.frames());
                    }
                  } catch (LwmqException e) {
                    assertEquals(Status.CLOSED, e.status(), e.getMessage());
                    replies.get(e.channel()).close();
                    e.channel().close();
                    gone++;
                  }
                }
                return null;
              });
      assertEquals(List.of("question 0", "question 1", "question 2"), answers);
    }
  }

  @Test
  void aCallBackEndsWithItsClient() throws Exception {
    String address = "loop://java-listener-call-back";
    BlockingQueue<String> came = new LinkedBlockingQueue<>();
    try (Listener listener = Listener.open(address, Channel.Options.DEFAULT)) {
      Channel client = Channel.open(address, Role.CLIENT, Channel.Options.DEFAULT);
      Channel channel = listener.accept(soon());
      channel.onMessage(message -> came.add(new String(message.bytes(0), StandardCharsets.UTF_8)));
      client.sendQueue(Priority.NORMAL).post("one");
      client.close();
      assertEquals("one", came.poll(60, TimeUnit.SECONDS));
      channel.close();
    }
  }

  @Test
  void saysWhyItCannotBeOpened() {
    assertEquals(Status.ADDRESS, statusOf(() -> Listener.open("nowhere://x", Channel.Options.DEFAULT)));
    assertEquals(
        Status.INVALID, statusOf(() -> Listener.open("loop://x", Channel.Options.DEFAULT.redundant())));
    try (Listener listener = Listener.open("loop://java-listener-twice", Channel.Options.DEFAULT)) {
      assertEquals(
          Status.ADDRESS, statusOf(() -> Listener.open("loop://java-listener-twice", Channel.Options.DEFAULT)));
      assertTrue(listener.descriptor() >= 0);
      assertEquals("", listener.statistics().refusal());
      assertNotNull(listener.toString());
    }
    assertSame(null, new LwmqException(Status.CLOSED, "by itself").channel());
  }
}
