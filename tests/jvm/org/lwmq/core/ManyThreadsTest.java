package org.lwmq.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** Threads beside threads that close, and call-backs that do what they should not. */
class ManyThreadsTest {
  private final Deadline soon = Deadline.after(60_000);
  private static final Channel.Options AT_ONCE = Channel.Options.DEFAULT.lingering(0);

  private static Channel server(String address) {
    return Channel.open(address, Role.SERVER, AT_ONCE);
  }

  private static Channel client(String address) {
    return Channel.open(address, Role.CLIENT, AT_ONCE);
  }

  /** Ends with 0 messages dropped, or says how many. */
  private static void close(Channel channel) {
    try {
      channel.close();
    } catch (LwmqException e) {
      assertEquals(Status.TIMED_OUT, e.status());
    }
  }

  /** Repeats {@code call} on a thread until it gets CLOSED, with which the future completes. */
  private static CompletableFuture<Status> untilClosed(CountDownLatch running, Runnable call) {
    CompletableFuture<Status> end = new CompletableFuture<>();
    Thread thread =
        new Thread(
            () -> {
              try {
                while (true) {
                  call.run();
                  running.countDown();
                }
              } catch (LwmqException e) {
                end.complete(e.status());
              } catch (Throwable e) {
                end.completeExceptionally(e);
              }
            });
    thread.setDaemon(true);
    thread.start();
    return end;
  }

  /** A thread does, until the selector is closed, from before this returns on. */
  private CompletableFuture<Status> receiving(Selector selector) throws InterruptedException {
    CountDownLatch running = new CountDownLatch(1);
    CompletableFuture<Status> end =
        untilClosed(
            running,
            () -> {
              running.countDown();
              selector.receive(soon).message().close();
            });
    running.await();
    return end;
  }

  @Test
  void aChannelIsClosedBesideThreadsThatUseIt() throws Exception {
    for (String scheme : List.of("loop", "ipc")) {
      for (int round = 0; round < 15; round++) {
        String address = scheme + "://java-close-beside-" + round;
        Channel server = server(address);
        Channel client = client(address);
        SendQueue mono = client.sendQueue(Priority.NORMAL);
        SendQueue multi = client.sendQueue(SendQueue.Kind.BOUNDED_DISCARD_OLDEST, Priority.LOWEST, 10);
        CountDownLatch running = new CountDownLatch(4);
        List<CompletableFuture<Status>> ends =
            List.of(
                untilClosed(running, () -> mono.post("x")),
                untilClosed(running, () -> multi.post("y")),
                untilClosed(
                    running,
                    () -> {
                      client.statistics(); // also behind the close
                      multi.statistics();
                      client.peer();
                    }),
                untilClosed(running, () -> client.receive(Deadline.never()).close()));
        running.await();
        Thread other = new Thread(() -> close(client));
        other.start();
        close(client);
        other.join();
        for (CompletableFuture<Status> end : ends) {
          assertEquals(Status.CLOSED, end.get(60, TimeUnit.SECONDS));
        }
        close(server);
      }
    }
  }

  @Test
  void aSelectorAndARouterAreClosedBesideThreadsThatUseThem() throws Exception {
    try (Channel server = server("loop://java-close-selector")) {
      Channel client = client("loop://java-close-selector");
      Selector selector = new Selector();
      selector.add(server);
      CompletableFuture<Status> receives = receiving(selector);
      selector.close();
      assertEquals(Status.CLOSED, receives.get(60, TimeUnit.SECONDS));
      SendQueue queue = client.sendQueue(SendQueue.Kind.MULTI_UNBOUNDED, Priority.NORMAL, 0);
      for (int round = 0; round < 200; round++) {
        Router router = new Router();
        router.add("#", queue);
        CountDownLatch posting = new CountDownLatch(1);
        CompletableFuture<Status> posts =
            untilClosed(
                posting,
                () -> {
                  try (Message message = Message.create().append(new byte[1])) {
                    router.post(message);
                  }
                });
        posting.await();
        router.close();
        assertEquals(Status.CLOSED, posts.get(60, TimeUnit.SECONDS));
      }
      close(client);
    }
  }

  @Test
  void aSecondThreadMayNotReceiveByASelector() throws Exception {
    try (Channel server = server("loop://java-selector-alone")) {
      Selector selector = new Selector();
      selector.add(server);
      CompletableFuture<Status> receives = receiving(selector);
      Status refused = Status.TIMED_OUT; // while the first one is between two calls
      for (int round = 0; refused == Status.TIMED_OUT && round < 1000; round++) {
        refused = assertThrows(LwmqException.class, () -> selector.receive(Deadline.after(1))).status();
        if (receives.isDone()) { // refused in our place
          refused = receives.get();
        }
      }
      assertEquals(Status.INVALID, refused);
      selector.close();
      receives.get(60, TimeUnit.SECONDS);
    }
  }

  @Test
  void aCallBackMayNotFollowAnotherInAChannelThatCloses() throws Exception {
    for (String scheme : List.of("loop", "ipc")) {
      Channel server = server(scheme + "://java-next-call-back");
      Channel client = client(scheme + "://java-next-call-back");
      CompletableFuture<Status> follows = new CompletableFuture<>();
      CountDownLatch called = new CountDownLatch(1);
      AtomicInteger late = new AtomicInteger();
      server.onMessage(
          message -> {
            called.countDown();
            while (!server.isClosing()) {
              Thread.onSpinWait();
            }
            try {
              server.onMessage(next -> late.incrementAndGet(), end -> late.incrementAndGet());
              follows.complete(null);
            } catch (LwmqException e) {
              follows.complete(e.status());
            }
          });
      SendQueue queue = client.sendQueue(Priority.NORMAL);
      queue.post("first");
      queue.post("second");
      called.await();
      close(server);
      assertEquals(Status.CLOSED, follows.get(60, TimeUnit.SECONDS));
      assertEquals(0, late.get());
      close(client);
    }
  }

  @Test
  void figuresCanBeReadBesideAClose() throws Exception {
    for (int round = 0; round < 300; round++) {
      Channel channel = server("loop://java-figures-beside");
      SendQueue queue = channel.sendQueue(Priority.NORMAL);
      CountDownLatch running = new CountDownLatch(1);
      CompletableFuture<Void> reads =
          CompletableFuture.runAsync(
              () -> {
                while (channel.isOpen()) {
                  running.countDown();
                  channel.statistics();
                  queue.statistics();
                }
                channel.statistics();
                queue.statistics();
              });
      running.await();
      channel.close();
      reads.get(60, TimeUnit.SECONDS);
    }
  }

  @Test
  void twoThreadsTakeTurnsAtAMonoQueue() throws Exception {
    try (Channel server = server("loop://java-mono-turns");
        Channel client = client("loop://java-mono-turns")) {
      SendQueue queue = client.sendQueue(Priority.NORMAL);
      List<Thread> threads = new ArrayList<>();
      for (int i = 0; i < 3; i++) {
        threads.add(
            new Thread(
                () -> {
                  for (int n = 0; n < 20_000; n++) {
                    queue.post(new byte[8]);
                  }
                }));
      }
      threads.forEach(Thread::start);
      for (int n = 0; n < 60_000; ) {
        n += server.receiveBytes(1000, soon).size();
      }
      for (Thread thread : threads) {
        thread.join();
      }
      assertEquals(60_000, queue.statistics().posted());
    }
  }

  @Test
  void nothingThatACallBackThrowsEndsTheCallsOfOthers() throws Exception {
    try (Channel server = server("loop://java-throws");
        Channel client = client("loop://java-throws")) {
      List<Throwable> thrown =
          List.of(new AssertionError("meant to be told"), new StackOverflowError("meant to be told"));
      CountDownLatch called = new CountDownLatch(4);
      server.onMessage(
          message -> {
            called.countDown();
            if (called.getCount() >= 2) {
              ManyThreadsTest.<RuntimeException>sneak(thrown.get((int) called.getCount() - 2));
            }
          });
      SendQueue queue = client.sendQueue(Priority.NORMAL);
      for (int i = 0; i < 4; i++) {
        queue.post("x");
      }
      assertTrue(called.await(60, TimeUnit.SECONDS));
    }
  }

  @SuppressWarnings("unchecked")
  private static <T extends Throwable> void sneak(Throwable thrown) throws T {
    throw (T) thrown;
  }

  @Test
  void aCallBackEndsItsOwnCallsAtTheFirstMessageAndClosesItsChannel() throws Exception {
    for (int round = 0; round < 50; round++) {
      String address = "loop://java-own-end-" + round;
      AtomicInteger calls = new AtomicInteger();
      CountDownLatch closed = new CountDownLatch(1);
      Channel client = client(address);
      Channel server = server(address);
      client.sendQueue(Priority.NORMAL).postMany(List.of(new byte[1], new byte[1], new byte[1]));
      client.flush(soon);
      server.onMessage(
          message -> {
            calls.incrementAndGet();
            server.onMessage(null);
            close(server);
            closed.countDown();
          });
      assertTrue(closed.await(60, TimeUnit.SECONDS));
      assertEquals(1, calls.get());
      close(client);
    }
  }

  @Test
  void whatComesToRequestsIsNobodyElses() {
    try (Channel server = server("loop://java-lent");
        Channel client = client("loop://java-lent");
        Selector selector = new Selector()) {
      Requests requests = new Requests(client);
      List<Runnable> receivers =
          List.of(
              () -> client.receive(soon),
              () -> client.receiveMany(1, soon),
              () -> client.receiveBytes(1, soon),
              client::tryReceive,
              () -> new Replies(client).receive(soon),
              () -> selector.add(client));
      for (Runnable receiver : receivers) {
        LwmqException refusal = assertThrows(LwmqException.class, receiver::run);
        assertEquals(Status.INVALID, refusal.status());
        assertTrue(refusal.getMessage().startsWith("a Requests has what comes over"), refusal.getMessage());
      }
      requests.close();
      server.sendQueue(Priority.NORMAL).post("ours");
      try (Message message = client.receive(soon)) {
        assertEquals("ours", new String(message.bytes(0), StandardCharsets.UTF_8));
      }
    }
  }

  @Test
  void requestsGoOnWhenWhatKeptThePeerAwayIsMended() throws Exception {
    String address = "ipc://java-mended";
    Channel.Options tight = new Channel.Options(0, 0, 1, 0, false).lingering(0);
    Channel wrong = Channel.open(address, Role.SERVER, tight);
    try (Channel client = client(address);
        Requests requests = new Requests(client)) {
      LwmqException kept = assertThrows(LwmqException.class, () -> requests.request(Frames.of("first"), soon));
      assertEquals(Status.INVALID, kept.status(), kept.getMessage());
      LwmqException again = assertThrows(LwmqException.class, () -> requests.request(Frames.of("again"), soon));
      assertEquals(Status.INVALID, again.status(), again.getMessage());
      wrong.close();
      try (Channel server = server(address)) {
        Replies replies = new Replies(server);
        Thread serving = new Thread(() -> replies.serve(frames -> frames));
        serving.start();
        Frames answer = null;
        while (answer == null) { // the client has to try again before
          try {
            answer = requests.request(Frames.of("second"), soon);
          } catch (LwmqException e) {
            assertEquals(Status.INVALID, e.status(), e.getMessage());
            assertFalse(soon.isOver());
          }
        }
        assertEquals("second", answer.text());
        replies.close();
        serving.join();
      }
    }
  }

  @Test
  void aClientIsGreetedByItsOwnListenersCall() {
    try (Listener first = Listener.open("loop://java-greets-a", AT_ONCE);
        Listener second = Listener.open("loop://java-greets-b", AT_ONCE);
        Channel client = client("loop://java-greets-a");
        Selector selector = new Selector()) {
      AtomicReference<String> greeted = new AtomicReference<>("");
      client.awaitConnected(soon);
      selector.add(
          first,
          channel -> {
            greeted.set(greeted.get() + "a");
            throw new IllegalStateException("once");
          });
      selector.add(second, channel -> greeted.set(greeted.get() + "b"));
      assertThrows(IllegalStateException.class, () -> selector.receive(soon));
      client.sendQueue(Priority.NORMAL).post("x");
      Selector.Received received = selector.receive(soon);
      received.message().close();
      close(received.channel());
      assertEquals("a", greeted.get());
    }
  }

  @Test
  void requestsAreRefusedWhereASelectorReceives() {
    try (Channel client = client("loop://java-selected");
        Selector selector = new Selector()) {
      selector.add(client);
      LwmqException refusal = assertThrows(LwmqException.class, () -> new Requests(client));
      assertEquals(Status.INVALID, refusal.status());
      assertTrue(refusal.getMessage().contains("goes to a selector: remove it there"), refusal.getMessage());
      selector.remove(client);
      new Requests(client).close();
    }
  }

  @Test
  void whoEndsTheCallsWaitsForTheOneThatRuns() throws Exception {
    try (Channel server = server("loop://java-waits-for-call");
        Channel client = client("loop://java-waits-for-call")) {
      CountDownLatch running = new CountDownLatch(1);
      CountDownLatch goOn = new CountDownLatch(1);
      AtomicInteger done = new AtomicInteger();
      server.onMessage(
          message -> {
            server.onMessage(null); // its own calls: it goes on
            running.countDown();
            try {
              goOn.await();
            } catch (InterruptedException e) {
              throw new IllegalStateException(e);
            }
            done.incrementAndGet();
          });
      client.sendQueue(Priority.NORMAL).post("x");
      running.await();
      Thread ending = new Thread(() -> server.onMessage(null));
      ending.start();
      ending.join(50);
      assertTrue(ending.isAlive());
      goOn.countDown();
      ending.join(60_000);
      assertEquals(1, done.get());
    }
  }

  @Test
  void aSelectorThatIsClosedBesideNewClientsLeavesNone() throws Exception {
    for (int round = 0; round < 100; round++) {
      String address = "loop://java-close-greeting-" + round;
      try (Listener listener = Listener.open(address, AT_ONCE);
          Channel client = client(address)) {
        Selector selector = new Selector();
        List<Channel> greeted = new ArrayList<>();
        selector.add(listener, greeted::add);
        CompletableFuture<Status> receives = receiving(selector);
        client.awaitConnected(soon);
        selector.close();
        assertEquals(Status.CLOSED, receives.get(60, TimeUnit.SECONDS));
        greeted.forEach(ManyThreadsTest::close);
        assertTrue(listener.statistics().accepted() <= 1);
        if (listener.statistics().accepted() == 1) { // by the selector, which has closed it, or by us
          assertThrows(LwmqException.class, () -> client.receive(soon));
        }
      }
    }
  }
}
