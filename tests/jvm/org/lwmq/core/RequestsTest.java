package org.lwmq.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Which reply is whose, what ends a request, and that nothing else does. */
class RequestsTest {
  private static final Replies.Handler RE = frames -> Frames.of("re:" + frames.text());
  private static final int REQUEST = 1; // kinds of heads, see WIRE.md
  private static final int REPLY = 2;
  private static final int FAILURE = 3;
  private static final AtomicInteger NUMBER = new AtomicInteger();

  private final Deadline soon = Deadline.after(60_000);
  private final String address = "loop://java-requests-" + NUMBER.incrementAndGet();
  private final List<Thread> serving = new ArrayList<>();
  private Channel server;
  private Channel client;

  @BeforeEach
  void connect() {
    server = Channel.open(address, Role.SERVER, Channel.Options.DEFAULT.lingering(0));
    client = Channel.open(address, Role.CLIENT, Channel.Options.DEFAULT.lingering(0));
    client.awaitConnected(soon);
  }

  @AfterEach
  void closeAndJoin() throws InterruptedException {
    leave(client);
    leave(server);
    for (Thread thread : serving) {
      thread.join(60_000);
      assertFalse(thread.isAlive());
    }
  }

  /** Also where something is unread. */
  private static void leave(Channel channel) {
    try {
      channel.close();
    } catch (LwmqException e) {
      assertEquals(Status.TIMED_OUT, e.status());
    }
  }

  private Replies serve(Replies.Handler handler) {
    Replies replies = new Replies(server);
    Thread thread = new Thread(() -> replies.serve(handler));
    thread.start();
    serving.add(thread);
    return replies;
  }

  private static void until(BooleanSupplier condition) throws InterruptedException {
    long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
    while (!condition.getAsBoolean()) {
      assertTrue(System.nanoTime() < end);
      Thread.sleep(2);
    }
  }

  private static LwmqException failure(Reply reply) {
    ExecutionException wrapped =
        assertThrows(ExecutionException.class, () -> reply.get(60, TimeUnit.SECONDS));
    return (LwmqException) wrapped.getCause();
  }

  // rows: M21
  @Test
  void eachReplyComesToItsRequestOverAnyNumberOutstanding() throws Exception {
    Replies replies = serve(RE);
    try (Requests requests = new Requests(client)) {
      List<Reply> asked = new ArrayList<>();
      for (int n = 0; n < 3000; n++) {
        asked.add(requests.submit(Frames.of("" + n, "x".repeat(n % 50)), Deadline.after(60_000)));
      }
      for (int n = 0; n < 3000; n++) {
        assertEquals("re:" + n + "x".repeat(n % 50), asked.get(n).get(60, TimeUnit.SECONDS).text());
      }
      assertEquals("re:one", requests.request(Frames.of("one"), Deadline.never()).text());
      assertEquals("re:", requests.request(Frames.none(), soon).text());
      assertEquals(
          new Requests.Statistics(3002, 0, 3002, 0, 0, 0, 0, 0, 0, 0), requests.statistics());
    }
    until(() -> replies.statistics().answered() == 3002);
  }

  // rows: M21
  @Test
  void repliesComeInAnyOrderAndFromAnyThread() throws Exception {
    try (Requests requests = new Requests(client);
        Replies replies = new Replies(server)) {
      List<Reply> asked = new ArrayList<>();
      List<Request> came = new ArrayList<>();
      for (int n = 0; n < 900; n++) {
        asked.add(requests.submit(Frames.of("" + n), Deadline.never()));
      }
      for (int n = 0; n < 900; n++) {
        came.add(0, replies.receive(soon));
      }
      List<Thread> threads = new ArrayList<>();
      for (int share = 0; share < 3; share++) {
        List<Request> mine = came.subList(share * 300, share * 300 + 300);
        threads.add(new Thread(() -> mine.forEach(one -> one.reply(Frames.of("re" + one.frames().text())))));
      }
      threads.forEach(Thread::start);
      for (int n = 0; n < 900; n++) {
        assertEquals("re" + n, asked.get(n).get(60, TimeUnit.SECONDS).text());
      }
      for (Thread thread : threads) {
        thread.join();
      }
      LwmqException again = assertThrows(LwmqException.class, () -> came.get(0).reply(Frames.none()));
      assertEquals("request 900 was answered before", again.getMessage());
    }
  }

  @Test
  void manyThreadsAskAtOnce() throws InterruptedException {
    serve(RE);
    for (SendQueue.Kind kind : List.of(SendQueue.Kind.MULTI_UNBOUNDED, SendQueue.Kind.MONO_UNBOUNDED)) {
      askByManyThreads(client.sendQueue(kind, Priority.NORMAL, 0));
    }
  }

  private void askByManyThreads(SendQueue queue) throws InterruptedException {
    try (Requests requests = new Requests(client, queue, Requests.OUTSTANDING_MAX)) {
      AtomicInteger right = new AtomicInteger();
      List<Thread> threads = new ArrayList<>();
      for (int who = 0; who < 4; who++) {
        String name = who + " ";
        threads.add(
            new Thread(
                () -> {
                  for (int n = 0; n < 200; n++) {
                    String said = requests.request(Frames.of(name + n), soon).text();
                    right.addAndGet(said.equals("re:" + name + n) ? 1 : 0);
                  }
                }));
      }
      threads.forEach(Thread::start);
      for (Thread thread : threads) {
        thread.join();
      }
      assertEquals(800, right.get());
    }
  }

  @Test
  void eachRequestHasATimeOutOfItsOwnAndALateReplyIsCounted() throws Exception {
    try (Requests requests = new Requests(client);
        Replies replies = new Replies(server)) {
      Reply forEver = requests.submit(Frames.of("for ever"), Deadline.never());
      Reply isLong = requests.submit(Frames.of("long"), Deadline.after(60_000));
      long started = System.nanoTime();
      List<Reply> brief = new ArrayList<>();
      for (int n = 0; n < 100; n++) {
        brief.add(requests.submit(Frames.of("short"), Deadline.after(300 - 2 * n)));
      }
      for (Reply reply : brief) {
        LwmqException end = failure(reply);
        assertEquals(Status.TIMED_OUT, end.status());
        assertTrue(end.getMessage().matches("no reply to request \\d+ within \\d+ ms \\(" + address + "\\)"));
      }
      assertTrue(System.nanoTime() - started >= 299_000_000);
      assertFalse(isLong.isDone() || forEver.isDone());
      for (int n = 0; n < 102; n++) {
        replies.receive(soon).reply(Frames.of("late"));
      }
      assertEquals("late", forEver.get(60, TimeUnit.SECONDS).text());
      assertEquals("late", isLong.get(60, TimeUnit.SECONDS).text());
      until(() -> requests.statistics().late() == 100);
      assertEquals(new Requests.Statistics(102, 0, 2, 0, 100, 0, 0, 100, 0, 0), requests.statistics());
    }
  }

  @Test
  void aRequestThatIsGivenUpIsForgotten() throws Exception {
    try (Requests requests = new Requests(client);
        Replies replies = new Replies(server)) {
      Reply cancelled = requests.submit(Frames.of("x"), Deadline.never());
      assertTrue(cancelled.cancel(false));
      assertThrows(CancellationException.class, cancelled::get);
      CompletableFuture<Frames> bounded =
          requests.submit(Frames.of("slow"), Deadline.never()).orTimeout(20, TimeUnit.MILLISECONDS);
      assertThrows(ExecutionException.class, bounded::get);
      Deadline stopped = Deadline.never().cancelledBy(() -> requests.statistics().outstanding() > 0);
      LwmqException end =
          assertThrows(LwmqException.class, () -> requests.request(Frames.of("stopped"), stopped));
      assertEquals(Status.INTERRUPTED, end.status());
      assertEquals(3, requests.statistics().givenUp());
      assertEquals(0, requests.statistics().outstanding());
      for (int n = 0; n < 3; n++) {
        replies.receive(soon).reply(Frames.of("late"));
      }
      until(() -> requests.statistics().late() == 3);
    }
  }

  @Test
  void anExceptionOfTheHandlerIsThrownWhereWasAsked() throws InterruptedException {
    Replies replies =
        serve(
            frames ->
                switch (frames.text()) {
                  case "throw" -> throw new IOException("no such carrier: ÄÖ" + "ß".repeat(3000));
                  case "null" -> null;
                  case "big" -> Frames.of(new byte[1 << 20]);
                  default -> Frames.of("fine");
                });
    try (Requests requests = new Requests(client)) {
      HandlerException thrown = handlerFailure(requests, "throw");
      assertEquals("IOException", thrown.kind());
      assertEquals(Status.HANDLER, thrown.status());
      assertTrue(
          thrown.getMessage().startsWith("the peer's handler failed: IOException: no such carrier: ÄÖß"));
      assertTrue(thrown.getMessage().length() < 600 && !thrown.getMessage().contains("\uFFFD"));
      assertEquals("NullPointerException", handlerFailure(requests, "null").kind());
      assertTrue(handlerFailure(requests, "big").getMessage().contains("does not fit"));
      assertEquals("fine", requests.request(Frames.of("ok"), soon).text());
      assertEquals(3, requests.statistics().failed());
      until(() -> replies.statistics().equals(new Replies.Statistics(4, 1, 3, 0)));
    }
  }

  @Test
  void aFailureHasTheKindThatWasSaidWhateverItsText() {
    try (Requests requests = new Requests(client);
        Replies replies = new Replies(server)) {
      Reply noKind = requests.submit(Frames.of("x"), soon);
      replies.receive(soon).fail("disk: full\0 of \uD800");
      HandlerException thrown = (HandlerException) failure(noKind);
      assertEquals("", thrown.kind());
      assertEquals("the peer's handler failed: disk: full\uFFFD of ? (" + address + ")", thrown.getMessage());
      Reply longest = requests.submit(Frames.of("x"), soon);
      replies.receive(soon).fail(new IllegalStateException("\u00DF".repeat(3000)));
      thrown = (HandlerException) failure(longest);
      assertEquals("IllegalStateException", thrown.kind());
      assertTrue(thrown.getMessage().contains("IllegalStateException: " + "\u00DF".repeat(500) + " ("));
    }
  }

  private HandlerException handlerFailure(Requests requests, String said) {
    return assertThrows(HandlerException.class, () -> requests.request(Frames.of(said), soon));
  }

  // rows: L56
  @Test
  void aSilentPeerNeverBlocksWhoAsksAndAllIsAnsweredWhenItGoesOn() throws Exception {
    try (Requests requests = new Requests(client)) {
      List<Reply> asked = new ArrayList<>();
      byte[] body = new byte[100];
      for (int n = 0; n < 20_000; n++) { // far more than the buffers hold
        asked.add(requests.submit(Frames.of(body), Deadline.never()));
      }
      LwmqException end =
          assertThrows(
              LwmqException.class, () -> requests.request(Frames.of("not now"), Deadline.after(100)));
      assertEquals(Status.TIMED_OUT, end.status());
      assertEquals(20_000, requests.statistics().outstanding());
      serve(frames -> frames);
      for (Reply reply : asked) {
        assertEquals(100, reply.get(60, TimeUnit.SECONDS).bytes().length);
      }
      until(() -> requests.statistics().late() == 1);
    }
  }

  @Test
  void closeFailsWhatIsOutstandingAndLeavesTheChannel() {
    Requests requests = new Requests(client);
    List<Reply> asked = new ArrayList<>();
    for (int n = 0; n < 1000; n++) {
      asked.add(requests.submit(Frames.of("x"), Deadline.after(600_000)));
    }
    requests.close();
    requests.close();
    for (Reply reply : asked) {
      LwmqException end = failure(reply);
      assertEquals(Status.CLOSED, end.status());
      assertEquals("the requests on " + address + " are closed", end.getMessage());
    }
    assertEquals(1000, requests.statistics().lost());
    assertEquals(
        Status.CLOSED,
        assertThrows(LwmqException.class, () -> requests.submit(Frames.of("x"), soon)).status());
    server.sendQueue(Priority.NORMAL).post("still");
    try (Message message = client.receive(soon)) {
      assertEquals("still", new String(message.bytes(0), StandardCharsets.UTF_8));
    }
  }

  @Test
  void closingTheChannelAtEitherEndFailsWhatIsOutstanding() {
    try (Requests requests = new Requests(client)) {
      Reply reply = requests.submit(Frames.of("x"), Deadline.never());
      leave(server);
      LwmqException end = failure(reply);
      assertEquals(Status.CLOSED, end.status());
      assertTrue(end.getMessage().contains("has closed"), end.getMessage());
      reply = requests.submit(Frames.of("y"), Deadline.never());
      leave(client);
      end = failure(reply);
      assertEquals(Status.CLOSED, end.status());
      assertTrue(end.getMessage().contains("is closed"), end.getMessage());
      assertEquals(
          Status.CLOSED,
          assertThrows(LwmqException.class, () -> requests.submit(Frames.of("z"), soon)).status());
    }
  }

  @Test
  void whoeverServesEndsWhenAnotherThreadCloses() throws InterruptedException {
    Replies replies = serve(RE);
    try (Requests requests = new Requests(client)) {
      assertEquals("re:1", requests.request(Frames.of("1"), soon).text());
      replies.close();
      replies.close();
      serving.get(0).join(60_000);
      assertFalse(serving.get(0).isAlive());
      serve(RE);
      assertEquals("re:2", requests.request(Frames.of("2"), soon).text());
      leave(server);
      serving.get(1).join(60_000);
      assertFalse(serving.get(1).isAlive());
    }
  }

  @Test
  void serveEndsWithItsPeerWhenAskedToAndWithAnInterrupt() throws InterruptedException {
    Replies replies = new Replies(server);
    Thread once = new Thread(() -> replies.serve(RE, false));
    once.start();
    try (Requests requests = new Requests(client)) {
      assertEquals("re:x", requests.request(Frames.of("x"), soon).text());
    }
    client.close(60_000);
    once.join(60_000);
    assertFalse(once.isAlive());
    AtomicReference<Status> end = new AtomicReference<>();
    Thread interrupted =
        new Thread(() -> end.set(assertThrows(LwmqException.class, () -> replies.serve(RE)).status()));
    interrupted.start();
    interrupted.interrupt();
    interrupted.join(60_000);
    assertEquals(Status.INTERRUPTED, end.get());
  }

  @Test
  void whatAHostilePeerSendsHarmsNobody() throws Exception {
    try (Requests requests = new Requests(client)) {
      Reply reply = requests.submit(Frames.of("x"), Deadline.never());
      long asker;
      try (Message message = server.receive(soon)) {
        ByteBuffer head = message.frame(0).order(ByteOrder.LITTLE_ENDIAN);
        assertEquals(0x7172776c, head.getInt());
        assertEquals(0x0101, head.getInt());
        asker = head.getLong();
        assertEquals(1, head.getLong());
      }
      byte[] text = "text".getBytes(StandardCharsets.UTF_8);
      byte[] failure = head(asker, FAILURE, 1);
      List<byte[][]> wrong =
          List.of(
              new byte[][] {},
              new byte[][] {{}},
              new byte[][] {Arrays.copyOf(head(asker, 2, 1), 25)},
              new byte[][] {changed(head(asker, 2, 1), 0)},
              new byte[][] {changed(head(asker, 2, 1), 4)},
              new byte[][] {head(asker, 0, 1)},
              new byte[][] {head(asker, 1, 1)},
              new byte[][] {head(asker, 4, 1)},
              new byte[][] {changed(head(asker, 2, 1), 7)},
              new byte[][] {head(asker, 2, 0)},
              new byte[][] {head(asker, 2, 2)},
              new byte[][] {head(asker, 2, -1)},
              new byte[][] {failure},
              new byte[][] {failure, text},
              new byte[][] {failure, text, text, text},
              new byte[][] {failure, text, new byte[1001]});
      SendQueue queue = server.sendQueue(Priority.NORMAL);
      wrong.forEach(frames -> post(queue, frames));
      post(queue, head(asker ^ 1, REPLY, 1), text);
      until(() -> requests.statistics().foreign() == 1);
      assertEquals(wrong.size(), requests.statistics().malformed());
      assertFalse(reply.isDone());
      post(queue, head(asker, REPLY, 1), text);
      assertEquals("text", reply.get(60, TimeUnit.SECONDS).text());
      post(queue, head(asker, REPLY, 1), text);
      until(() -> requests.statistics().late() == 1);
    }
  }

  @Test
  void aServerDropsWhatIsNoRequestAndStays() {
    Replies replies = serve(RE);
    SendQueue queue = client.sendQueue(Priority.NORMAL);
    post(queue);
    post(queue, "GET /".getBytes(StandardCharsets.UTF_8));
    post(queue, head(7, REPLY, 1));
    post(queue, changed(head(7, REQUEST, 1), 4));
    client.flush(soon);
    try (Requests requests = new Requests(client)) {
      assertEquals("re:x", requests.request(Frames.of("x"), soon).text());
    }
    assertEquals(4, replies.statistics().malformed());
    assertEquals(1, replies.statistics().received());
  }

  private static byte[] head(long asker, int kind, long number) {
    return ByteBuffer.allocate(24)
        .order(ByteOrder.LITTLE_ENDIAN)
        .putInt(0x7172776c)
        .putInt(1 | kind << 8)
        .putLong(asker)
        .putLong(number)
        .array();
  }

  private static byte[] changed(byte[] bytes, int place) {
    bytes[place] ^= 0x20;
    return bytes;
  }

  private static void post(SendQueue queue, byte[]... frames) {
    Message message = Message.create();
    Arrays.asList(frames).forEach(message::append);
    queue.post(message);
  }

  @Test
  void whatDependsOnAReplyMayAskButNotWaitForAnother() throws Exception {
    CountDownLatch asked = new CountDownLatch(1); // what is added to a settled reply runs where it is added
    serve(
        frames -> {
          asked.await();
          return frames;
        });
    try (Requests requests = new Requests(client)) {
      CompletableFuture<String> refusal = new CompletableFuture<>();
      CompletableFuture<Frames> third =
          requests
              .submit(Frames.of("first"), soon)
              .thenCompose(
                  frames -> {
                    Reply second = requests.submit(Frames.of("second"), soon);
                    refusal.complete(assertThrows(LwmqException.class, second::join).getMessage());
                    return requests.submit(Frames.of("third"), soon);
                  });
      asked.countDown();
      assertEquals("third", third.get(60, TimeUnit.SECONDS).text());
      assertTrue(refusal.get().contains("a reply is awaited in a callback"), refusal.get());
    }
  }

  @Test
  void whatDependsOnATimeOutMayNotWaitEither() throws Exception {
    Thread here = Thread.currentThread();
    try (Requests requests = new Requests(client)) {
      String said = "";
      while (said.isEmpty()) { // until the time is over later than it is asked for
        CompletableFuture<String> refusal = new CompletableFuture<>();
        requests
            .submit(Frames.of("nobody serves"), Deadline.after(20))
            .exceptionally(
                end -> {
                  Reply next = requests.submit(Frames.of("nor now"), soon);
                  boolean isHere = Thread.currentThread() == here;
                  refusal.complete(isHere ? "" : assertThrows(LwmqException.class, next::get).getMessage());
                  return null;
                });
        said = refusal.get(60, TimeUnit.SECONDS);
      }
      assertTrue(said.contains("is awaited in a callback"), said);
    }
  }

  // rows: M21
  @Test
  void theEndOfAServerThatIsToldLateFailsNothingOfItsSuccessor() throws Exception {
    CountDownLatch busy = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    try (Requests requests = new Requests(client);
        Channel other = Channel.open(address + "-other", Role.SERVER, Channel.Options.DEFAULT);
        Channel poster = Channel.open(address + "-other", Role.CLIENT, Channel.Options.DEFAULT)) {
      other.onMessage(
          message -> {
            busy.countDown();
            awaitQuietly(goOn); // the thread of all call-backs, and of all replies
          });
      poster.sendQueue(Priority.NORMAL).post("be busy");
      busy.await();
      Reply ofTheFirst = requests.submit(Frames.of("unheard"), Deadline.never());
      server.close();
      server = Channel.open(address, Role.SERVER, Channel.Options.DEFAULT.lingering(0));
      serve(RE);
      until(() -> client.peer().number() == 2 && client.peer().isConnected());
      Reply ofTheSecond = requests.submit(Frames.of("heard"), Deadline.never());
      goOn.countDown();
      assertEquals("re:heard", ofTheSecond.get(60, TimeUnit.SECONDS).text());
      assertEquals(Status.CLOSED, failure(ofTheFirst).status());
      assertEquals(1, requests.statistics().lost());
    }
  }

  private static void awaitQuietly(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  // rows: M21
  @Test
  void whatKeepsThePeerAwayIsToldToWhoComesLater() throws Exception {
    String mixed = "ipc://java-requests-mixed-" + ProcessHandle.current().pid();
    try (Channel raw = Channel.open(mixed, Role.SERVER, new Channel.Options(0, 0, 0, 0, true));
        Channel asking = Channel.open(mixed, Role.CLIENT, Channel.Options.DEFAULT.lingering(0))) {
      LwmqException told = assertThrows(LwmqException.class, () -> asking.receive(soon));
      for (int i = 0; i < 2; i++) {
        try (Requests requests = new Requests(asking)) {
          LwmqException thrown =
              assertThrows(
                  LwmqException.class,
                  () -> requests.submit(Frames.of("anybody?"), Deadline.never()).get(60, TimeUnit.SECONDS));
          assertEquals(told.status(), thrown.status());
        }
      }
      assertTrue(raw.isOpen());
    }
  }

  @Test
  void aRequestIsNotPostedWhereItsReplyMayNotBeAwaited() throws Exception {
    AtomicInteger served = new AtomicInteger();
    CountDownLatch asked = new CountDownLatch(1); // what is added to a settled reply runs where it is added
    serve(
        frames -> {
          asked.await();
          served.incrementAndGet();
          return frames;
        });
    try (Requests requests = new Requests(client)) {
      CompletableFuture<Status> refusal =
          requests
              .submit(Frames.of("first"), soon)
              .thenApply(
                  frames ->
                      assertThrows(LwmqException.class, () -> requests.request(Frames.of("second"), soon))
                          .status());
      asked.countDown();
      assertEquals(Status.INVALID, refusal.get(60, TimeUnit.SECONDS));
      assertEquals("last", requests.request(Frames.of("last"), soon).text());
      assertEquals(2, served.get());
    }
  }

  @Test
  void eachObjectSaysHowFarItIs() {
    try (Replies replies = new Replies(server);
        Requests requests = new Requests(client)) {
      Reply reply = requests.submit(Frames.of("x"), soon);
      assertEquals("Reply to request 1, to come", reply.toString());
      assertEquals("Requests on " + address + ", 1 outstanding", requests.toString());
      Request request = replies.receive(soon);
      assertEquals("Request 1, to be answered", request.toString());
      request.reply(Frames.none());
      assertEquals("Request 1, answered", request.toString());
      assertEquals("Replies on " + address + ", 1 received", replies.toString());
      reply.join();
      assertEquals("Reply to request 1, here", reply.toString());
      Reply second = requests.submit(Frames.of("y"), soon);
      second.cancel(false);
      assertEquals("Reply to request 2, given up", second.toString());
    }
  }

  @Test
  void tooManyAndWhatCannotBePostedAreRefused() {
    SendQueue queue = client.sendQueue(SendQueue.Kind.MULTI_UNBOUNDED, Priority.HIGHEST, 0);
    assertEquals(Status.INVALID, refused(() -> new Requests(client, queue, 0)));
    assertEquals(Status.INVALID, refused(() -> new Requests(server, queue, 1)));
    assertEquals(Status.INVALID, refused(() -> new Replies(server, queue)));
    try (Requests requests = new Requests(client, queue, 3)) {
      assertEquals(Status.TOO_BIG, refused(() -> requests.submit(Frames.of(new byte[1 << 20]), soon)));
      for (int n = 0; n < 3; n++) {
        requests.submit(Frames.of("x"), Deadline.never());
      }
      assertEquals(Status.FULL, refused(() -> requests.submit(Frames.of("x"), soon)));
      assertEquals(1, requests.statistics().givenUp());
      assertEquals(3, requests.statistics().outstanding());
      assertEquals(Status.INVALID, refused(() -> new Requests(client)));
      assertEquals(Status.INVALID, refused(() -> client.onMessage(message -> {})));
      client.onMessage(null); // there is none: the replies still go to the requests
      serve(RE);
    }
    client.onMessage(message -> {});
    assertEquals(Status.INVALID, refused(() -> new Requests(client)));
  }

  private static Status refused(Runnable call) {
    return assertThrows(LwmqException.class, call::run).status();
  }
}
