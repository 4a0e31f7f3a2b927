package org.lwmq.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What is for one thread at a time refuses a second one in words, and any thread may close it. */
class OneThreadTest {
  private static final byte[] SCHEMA = {1, 2, 3};
  private static final int ROUNDS = 15;
  private static final long LIMIT_S = 60;

  private final Deadline soon = Deadline.after(TimeUnit.SECONDS.toMillis(LIMIT_S));
  private final ExecutorService others = Executors.newCachedThreadPool(OneThreadTest::daemon);

  @AfterEach
  void end() {
    others.shutdownNow();
  }

  private static Thread daemon(Runnable run) {
    Thread thread = new Thread(run);
    thread.setDaemon(true);
    return thread;
  }

  private static Reader reader(String address, Deadline deadline) {
    return Reader.open(
        address, new ReaderOptions(Role.CLIENT, false, false, 0, 0, "r", null, false, null, 0, null, 0), deadline);
  }

  /** Repeats {@code call} on another thread until it throws, with whose status the future completes. */
  private Future<Status> untilRefused(CountDownLatch running, Runnable call) {
    return others.submit(
        () -> {
          running.countDown();
          while (true) {
            try {
              call.run();
            } catch (LwmqException e) {
              return e.status();
            }
          }
        });
  }

  private static Status ended(Future<Status> call) throws Exception {
    return call.get(LIMIT_S, TimeUnit.SECONDS);
  }

  @Test
  void aReaderIsClosedBesideAThreadThatWaits() throws Exception {
    String address = "loop://one-thread-reader";
    try (Endpoint endpoint = Endpoint.open(address);
        Writer writer = Writer.open(address, SCHEMA, WriterOptions.client(), soon)) {
      for (int round = 0; round < ROUNDS; round++) {
        Reader reader = reader(address, soon);
        CountDownLatch running = new CountDownLatch(1);
        Future<Status> end = untilRefused(running, () -> reader.next(Deadline.never()));
        running.await();
        TimeUnit.MILLISECONDS.sleep(round % 10); // before, in, and behind the native call: whichever, it ends so
        reader.close();
        assertEquals(Status.CLOSED, ended(end));
      }
      assertEquals(SCHEMA.length, writer.schema().length);
      assertTrue(endpoint.address().endsWith("reader"));
    }
  }

  @Test
  void aWriterIsClosedBesideAThreadThatWaitsForRoom() throws Exception {
    String address = "loop://one-thread-writer";
    WriterOptions small = WriterOptions.client().withMemory(65536, 131072, 0);
    try (Endpoint endpoint = Endpoint.open(address)) {
      assertEquals(address, endpoint.address());
      for (int round = 0; round < ROUNDS; round++) {
        Writer writer = Writer.open(address, SCHEMA, small, soon);
        CountDownLatch running = new CountDownLatch(1);
        Future<Status> end = untilRefused(running, () -> writer.allocate(65536, Deadline.never()));
        running.await();
        TimeUnit.MILLISECONDS.sleep(round % 10);
        writer.close();
        assertEquals(Status.CLOSED, ended(end));
      }
    }
  }

  @Test
  void aJobIsClosedBesideAThreadThatCommits() throws Exception {
    String address = "loop://one-thread-job";
    try (Endpoint endpoint = Endpoint.open(address)) {
      assertEquals(address, endpoint.address());
      for (int round = 0; round < ROUNDS; round++) {
        Job job = Job.open(address, SCHEMA, WriterOptions.client().withJob("job" + round, 0), soon);
        CountDownLatch running = new CountDownLatch(1);
        Future<Status> end = untilRefused(running, () -> job.commit(0, List.of(), soon));
        running.await();
        TimeUnit.MILLISECONDS.sleep(round % 3);
        job.close();
        assertEquals(Status.CLOSED, ended(end));
      }
    }
  }

  /** What two threads get that do the same at once, each {@code times} times. */
  private Set<Status> both(int times, Runnable call) throws Exception {
    CyclicBarrier together = new CyclicBarrier(2);
    Callable<Set<Status>> one =
        () -> {
          Set<Status> seen = EnumSet.noneOf(Status.class);
          together.await();
          for (int i = 0; i < times; i++) {
            try {
              call.run();
              seen.add(Status.OK);
            } catch (LwmqException e) {
              seen.add(e.status());
              assertTrue(e.getMessage().contains("in use by another thread: one at a time"), e.getMessage());
            }
          }
          return seen;
        };
    Future<Set<Status>> other = others.submit(one);
    Set<Status> seen = one.call();
    seen.addAll(other.get(LIMIT_S, TimeUnit.SECONDS));
    return seen;
  }

  @Test
  void anObserverIsForOneThread() throws Exception {
    try (Observer observer = new Observer();
        Channel channel = Channel.open("loop://one-thread-observed", Role.SERVER, Channel.Options.DEFAULT)) {
      channel.sendQueue(Priority.NORMAL);
      assertEquals(EnumSet.of(Status.OK, Status.INVALID), both(200, observer::look));
      assertTrue(observer.look().stream().anyMatch(process -> process.pid() == ProcessHandle.current().pid()));
    }
  }

  @Test
  void aReaderIsForOneThread() throws Exception {
    String address = "loop://one-thread-next";
    try (Endpoint endpoint = Endpoint.open(address);
        Reader reader = reader(address, soon)) {
      assertEquals(address, endpoint.address());
      Set<Status> seen =
          both(
              3,
              () -> {
                try {
                  reader.next(Deadline.after(50));
                } catch (LwmqException e) {
                  if (e.status() != Status.TIMED_OUT) {
                    throw e;
                  }
                }
              });
      assertEquals(EnumSet.of(Status.OK, Status.INVALID), seen);
    }
  }

  /** Posts each message by two threads at once: one of them does. */
  @Test
  void aMessageThatTwoThreadsPostIsPostedOnce() throws Exception {
    int messages = 5000;
    try (Channel channel = Channel.open("loop://one-thread-post", Role.SERVER, Channel.Options.DEFAULT.lingering(0))) {
      SendQueue queue = channel.sendQueue(SendQueue.Kind.MULTI_UNBOUNDED, Priority.NORMAL, 0);
      List<Message> all = new ArrayList<>();
      for (int i = 0; i < messages; i++) {
        all.add(Message.create().append(new byte[40]));
      }
      CyclicBarrier together = new CyclicBarrier(2);
      Callable<Integer> post =
          () -> {
            int posted = 0;
            for (Message message : all) {
              together.await();
              try {
                queue.post(message);
                posted++;
              } catch (LwmqException e) {
                assertTrue(e.status() == Status.CLOSED || e.status() == Status.INVALID, e.getMessage());
              }
            }
            return posted;
          };
      Future<Integer> other = others.submit(post);
      int posted = post.call() + other.get(LIMIT_S, TimeUnit.SECONDS);
      assertEquals(messages, posted);
      assertEquals(messages, queue.statistics().posted());
      closeQuietly(channel);
    }
  }

  @Test
  void aMessageIsClosedBesideAThreadThatPostsIt() throws Exception {
    try (Channel channel = Channel.open("loop://one-thread-closed", Role.SERVER, Channel.Options.DEFAULT.lingering(0))) {
      SendQueue queue = channel.sendQueue(SendQueue.Kind.BOUNDED_DISCARD_OLDEST, Priority.NORMAL, 100);
      closedBeside(queue::post);
      closedBeside(message -> queue.postMessages(List.of(message)));
      closedBeside(message -> queue.offer(message, 0, Deadline.after(0)));
      closeQuietly(channel);
    }
    try (Router router = new Router()) {
      closedBeside(router::post);
    }
  }

  private interface Use {
    void of(Message message);
  }

  private void closedBeside(Use use) throws Exception {
    CyclicBarrier together = new CyclicBarrier(2);
    Message[] now = new Message[1];
    int rounds = 5000;
    Future<?> closing =
        others.submit(
            () -> {
              for (int i = 0; i < rounds; i++) {
                together.await();
                now[0].close();
                together.await();
              }
              return null;
            });
    for (int i = 0; i < rounds; i++) {
      now[0] = Message.create().append(new byte[500]);
      together.await();
      try {
        use.of(now[0]);
      } catch (LwmqException e) {
        assertEquals(Status.CLOSED, e.status(), e.getMessage());
      }
      together.await();
      assertEquals("Message closed or posted", now[0].toString());
    }
    closing.get(LIMIT_S, TimeUnit.SECONDS);
  }

  @Test
  void aMessageThatIsOfferedForLongIsClosedMeanwhile() throws Exception {
    try (Channel channel = Channel.open("loop://one-thread-offer", Role.SERVER, Channel.Options.DEFAULT.lingering(0))) {
      SendQueue queue = channel.sendQueue(SendQueue.Kind.BOUNDED_DISCARD_NEWEST, Priority.NORMAL, 1);
      queue.post(new byte[1]);
      Message message = Message.create().append(new byte[1]);
      CountDownLatch running = new CountDownLatch(1);
      Future<Status> end = untilRefused(running, () -> queue.offer(message, 0, Deadline.never()));
      running.await();
      message.close();
      assertEquals(Status.CLOSED, ended(end));
      closeQuietly(channel);
    }
  }

  @Test
  void twoThreadsThatReceiveByOneSelectorLoseNoClient() throws Exception {
    String address = "loop://one-thread-selector";
    int clients = 100;
    Channel.Options atOnce = Channel.Options.DEFAULT.lingering(0);
    CompletableFuture<Integer> heard = new CompletableFuture<>();
    CountDownLatch left = new CountDownLatch(clients);
    Selector selector = new Selector();
    try (Listener listener = Listener.open(address, atOnce)) {
      selector.add(listener);
      for (int i = 0; i < 2; i++) {
        others.submit(() -> receive(selector, left, heard));
      }
      List<Channel> all = new ArrayList<>();
      for (int i = 0; i < clients; i++) {
        Channel client = Channel.open(address, Role.CLIENT, atOnce);
        client.sendQueue(Priority.NORMAL).post("x");
        all.add(client);
      }
      assertTrue(left.await(LIMIT_S, TimeUnit.SECONDS), left.getCount() + " of " + clients + " were lost");
      heard.complete(clients);
      selector.close();
      all.forEach(OneThreadTest::closeQuietly);
    }
  }

  /** By whichever of several threads has the turn. */
  private static void receive(Selector selector, CountDownLatch left, CompletableFuture<Integer> end) {
    while (!end.isDone()) {
      try {
        Selector.Received received = selector.receive(Deadline.after(1));
        received.message().close();
        left.countDown();
      } catch (LwmqException e) {
        if (e.status() == Status.CLOSED) {
          return;
        }
        assertTrue(e.status() == Status.INVALID || e.status() == Status.TIMED_OUT, e.getMessage());
      }
    }
  }

  @Test
  void noSecondThreadReceivesWhileTheFirstGreetsAClient() throws Exception {
    String address = "loop://one-thread-greets";
    CountDownLatch greeting = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    try (Listener listener = Listener.open(address, Channel.Options.DEFAULT);
        Selector selector = new Selector();
        Channel client = Channel.open(address, Role.CLIENT, Channel.Options.DEFAULT)) {
      selector.add(
          listener,
          channel -> {
            greeting.countDown();
            awaitQuietly(goOn);
          });
      client.sendQueue(Priority.NORMAL).post("x");
      Future<Selector.Received> first = others.submit(() -> selector.receive(soon));
      greeting.await();
      List<Runnable> receivers = List.of(() -> selector.receive(Deadline.after(0)), () -> selector.select(soon));
      for (Runnable receiver : receivers) {
        LwmqException refusal = assertThrows(LwmqException.class, receiver::run);
        assertEquals(Status.INVALID, refusal.status(), refusal.getMessage());
      }
      goOn.countDown();
      Selector.Received received = first.get(LIMIT_S, TimeUnit.SECONDS);
      assertEquals(1, received.message().frameBytes(0));
      received.message().close();
      received.channel().close();
    }
  }

  private static void awaitQuietly(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void whoReceivesInACallOfItsSelectorMay() {
    String address = "loop://one-thread-within";
    List<String> heard = new ArrayList<>();
    try (Listener listener = Listener.open(address, Channel.Options.DEFAULT);
        Selector selector = new Selector();
        Channel client = Channel.open(address, Role.CLIENT, Channel.Options.DEFAULT)) {
      selector.add(
          listener,
          channel -> {
            try (Message first = selector.receive(soon).message()) {
              heard.add(new String(first.bytes(0), StandardCharsets.UTF_8));
            }
          });
      SendQueue queue = client.sendQueue(Priority.NORMAL);
      queue.post("first");
      queue.post("second");
      Selector.Received second = selector.receive(soon);
      heard.add(new String(second.message().bytes(0), StandardCharsets.UTF_8));
      second.message().close();
      second.channel().close();
      assertEquals(List.of("first", "second"), heard);
    }
  }

  private static void closeQuietly(Channel channel) {
    try {
      channel.close();
    } catch (LwmqException e) {
      assertEquals(Status.TIMED_OUT, e.status(), e.getMessage());
    }
  }
}
