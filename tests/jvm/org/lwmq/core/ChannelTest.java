package org.lwmq.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Messages and buffers between two ends in one process. */
class ChannelTest {
  private final Deadline soon = Deadline.after(60_000);

  @Test
  void messagesArriveWholeAndInOrder() {
    try (Channel server = Channel.open("loop://java-order", Role.SERVER, Channel.Options.DEFAULT);
        Channel client = Channel.open("loop://java-order", Role.CLIENT, Channel.Options.DEFAULT)) {
      SendQueue queue = client.sendQueue(Priority.NORMAL);
      client.awaitConnected(soon);
      for (int i = 0; i < 1000; i++) {
        queue.post("order " + i);
      }
      for (int i = 0; i < 1000; i++) {
        try (Message message = server.receive(soon)) {
          assertEquals("order " + i, new String(message.bytes(0), StandardCharsets.UTF_8));
        }
      }
      client.flush(soon);
    }
  }

  @Test
  void theLastFiguresAreThereBehindTheClose() {
    Listener listener = Listener.open("loop://java-last", Channel.Options.DEFAULT);
    Channel client = Channel.open("loop://java-last", Role.CLIENT, Channel.Options.DEFAULT);
    Channel server = listener.accept(soon);
    SendQueue queue = client.sendQueue(Priority.NORMAL);
    queue.post("read");
    server.receive(soon).close();
    queue.post("not read");
    LwmqException unread = assertThrows(LwmqException.class, () -> client.close(0));
    assertTrue(unread.toString().startsWith("org.lwmq.core.LwmqException TIMED_OUT: "), unread.toString());
    server.close();
    listener.close();
    assertEquals(2, client.statistics().messagesPosted());
    assertEquals(1, client.statistics().messagesLost());
    assertFalse(client.statistics().isConnected());
    assertEquals(new SendQueue.Statistics(2, 2, 0, 0, 0), queue.statistics());
    assertEquals(1, server.statistics().messagesReceived());
    assertEquals(new Listener.Statistics(1, 0, 0, ""), listener.statistics());
  }

  @Test
  void framesKeepTheirBorders() {
    try (Channel server = Channel.open("loop://java-frames", Role.SERVER, Channel.Options.DEFAULT);
        Channel client = Channel.open("loop://java-frames", Role.CLIENT, Channel.Options.DEFAULT)) {
      byte[] body = new byte[5000];
      body[4999] = 7;
      client.sendQueue(Priority.HIGHEST).post(Message.create().append(new byte[0]).append(body));
      try (Message message = server.receive(soon)) {
        assertEquals(2, message.frameCount());
        assertEquals(0, message.frame(0).remaining());
        assertArrayEquals(body, message.bytes(1));
        assertTrue(message.frame(1).isReadOnly());
      }
    }
  }

  @Test
  void aDirectBufferIsPostedFromWhereItLies() {
    try (Channel server = Channel.open("loop://java-direct", Role.SERVER, Channel.Options.DEFAULT);
        Channel client = Channel.open("loop://java-direct", Role.CLIENT, Channel.Options.DEFAULT)) {
      ByteBuffer frame = ByteBuffer.allocateDirect(64);
      frame.putLong(1).putLong(2).flip().position(8);
      client.sendQueue(Priority.NORMAL).post(frame);
      assertEquals(8, frame.remaining());
      try (Message message = server.receive(soon)) {
        assertEquals(2, message.frame(0).getLong());
      }
    }
  }

  @Test
  void aMessageThatIsTooBigStaysWithItsOwner() {
    try (Channel channel = Channel.open("loop://java-big", Role.SERVER, Channel.Options.DEFAULT);
        Message message = Message.create().append(new byte[1 << 20])) {
      SendQueue queue = channel.sendQueue(Priority.NORMAL);
      LwmqException refusal = assertThrows(LwmqException.class, () -> queue.post(message));
      assertEquals(Status.TOO_BIG, refusal.status());
      assertEquals(1 << 20, message.frame(0).remaining());
    }
  }

  private static List<String> drain(Channel channel, int count) {
    List<String> texts = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      try (Message message = channel.receive(Deadline.after(60_000))) {
        texts.add(new String(message.bytes(0), StandardCharsets.UTF_8));
      }
    }
    return texts;
  }

  private static Message text(String text) {
    return Message.create().append(text.getBytes(StandardCharsets.UTF_8));
  }

  // rows: S02 S03 L42
  @Test
  void eachKindOfSendQueueKeepsWhatItsRuleSays() {
    try (Channel client = Channel.open("loop://java-kinds", Role.CLIENT, Channel.Options.DEFAULT)) {
      SendQueue oldest = client.sendQueue(SendQueue.Kind.BOUNDED_DISCARD_OLDEST, Priority.TIME_CRITICAL, 2);
      SendQueue newest = client.sendQueue(SendQueue.Kind.BOUNDED_DISCARD_NEWEST, Priority.NORMAL, 2);
      SendQueue tagged = client.sendQueue(SendQueue.Kind.MULTI_UNBOUNDED_TAGGED, Priority.IDLE, 0);
      for (int i = 0; i < 4; i++) {
        oldest.post("o" + i);
        newest.post(text("n" + i), 0, Deadline.after(i));
        tagged.post(text("t" + i), 1 + i % 2);
      }
      assertEquals(new SendQueue.Statistics(4, 0, 2, 0, 2), oldest.statistics());
      assertEquals(new SendQueue.Statistics(4, 0, 2, 0, 2), newest.statistics());
      assertEquals(new SendQueue.Statistics(4, 0, 0, 2, 2), tagged.statistics());
      oldest.setPriority(Priority.LOWEST);
      client.setWeights(1, 1, 1, 1, 1);
      assertThrows(LwmqException.class, () -> client.setWeights(1, 2));
      assertThrows(LwmqException.class, () -> client.sendQueue(Priority.NORMAL).post(text("x"), 5));
      assertThrows(
          LwmqException.class, () -> client.sendQueue(SendQueue.Kind.MULTI_UNBOUNDED, Priority.NORMAL, 7));
      try (Channel server = Channel.open("loop://java-kinds", Role.SERVER, Channel.Options.DEFAULT)) {
        assertEquals(List.of("n0", "o2", "n1", "o3", "t2", "t3"), drain(server, 6));
      }
    }
  }

  @Test
  void manyMessagesOfSeveralFramesArePostedInOneCall() {
    Channel.Options small = new Channel.Options(4096, 0, 0, 0, false);
    try (Channel server = Channel.open("loop://java-several", Role.SERVER, small);
        Channel client = Channel.open("loop://java-several", Role.CLIENT, small)) {
      SendQueue queue = client.sendQueue(Priority.NORMAL);
      Message kept = text("kept");
      queue.postMessages(List.of(text("a").append(new byte[2]), kept.reference(), Message.create(), text("b")));
      for (int frames : new int[] {2, 1, 0, 1}) {
        try (Message message = server.receive(soon)) {
          assertEquals(frames, message.frameCount());
        }
      }
      Message big = Message.create().append(new byte[4097]);
      refused(Status.TOO_BIG, "message 1 of 2", () -> queue.postMessages(List.of(kept, big)));
      refused(Status.INVALID, "is there twice", () -> queue.postMessages(List.of(kept, kept)));
      assertEquals(4, queue.statistics().posted());
      assertEquals(1, kept.frameCount()); // still ours
      queue.postMessages(List.of(kept));
      refused(Status.CLOSED, "message is closed", () -> queue.postMessages(List.of(text("x"), kept))); // taken
      queue.postMessages(List.of());
      assertEquals(List.of("kept"), drain(server, 1));
      client.close(Channel.LINGER_MS);
      Message late = text("late");
      refused(Status.CLOSED, "closed", () -> queue.postMessages(List.of(late)));
      assertEquals(1, late.frameCount());
      late.close();
      big.close();
    }
  }

  // rows: L44
  @Test
  void manyMessagesArePostedInOneCall() {
    try (Channel server = Channel.open("loop://java-many", Role.SERVER, Channel.Options.DEFAULT);
        Channel client = Channel.open("loop://java-many", Role.CLIENT, Channel.Options.DEFAULT)) {
      List<byte[]> frames = new ArrayList<>();
      List<String> texts = new ArrayList<>();
      for (int i = 0; i < 1000; i++) {
        texts.add("m".repeat(i % 7) + i);
        frames.add(texts.get(i).getBytes(StandardCharsets.UTF_8));
      }
      SendQueue queue = client.sendQueue(SendQueue.Kind.MULTI_UNBOUNDED, Priority.NORMAL, 0);
      queue.postMany(frames);
      assertEquals(texts, drain(server, 1000));
      assertEquals(1000, queue.statistics().posted());
    }
  }

  private static List<String> closed(List<Message> messages) {
    List<String> texts = new ArrayList<>();
    for (Message message : messages) {
      try (message) {
        texts.add(new String(message.bytes(0), StandardCharsets.UTF_8));
      }
    }
    return texts;
  }

  @Test
  void manyMessagesAreReceivedInOneCall() {
    try (Channel server = Channel.open("loop://java-take", Role.SERVER, Channel.Options.DEFAULT);
        Channel client = Channel.open("loop://java-take", Role.CLIENT, Channel.Options.DEFAULT)) {
      SendQueue queue = client.sendQueue(Priority.NORMAL);
      List<String> sent = new ArrayList<>();
      for (int i = 0; i < 3000; i++) {
        sent.add("m" + i);
        queue.post(sent.get(i));
      }
      List<String> got = new ArrayList<>(closed(server.receiveMany(1, soon)));
      assertEquals(1, got.size());
      int calls = 0;
      while (got.size() < sent.size()) {
        List<String> came = closed(server.receiveMany(Integer.MAX_VALUE, soon));
        assertTrue(!came.isEmpty() && came.size() <= 1024, "came " + came.size());
        got.addAll(came);
        calls++;
      }
      assertEquals(sent, got);
      assertTrue(calls < 1000, calls + " calls");
      LwmqException late =
          assertThrows(LwmqException.class, () -> server.receiveMany(10, Deadline.after(20)));
      assertEquals(Status.TIMED_OUT, late.status());
      for (int wrong : new int[] {0, -1}) {
        LwmqException refusal =
            assertThrows(LwmqException.class, () -> server.receiveMany(wrong, Deadline.after(20)));
        assertEquals(Status.INVALID, refusal.status());
      }
    }
  }

  @Test
  void theBytesOfManyMessagesAreReceivedInOneCall() {
    for (String address : new String[] {"loop://java-bytes", "ipc://java-bytes"}) {
      try (Channel server = Channel.open(address, Role.SERVER, Channel.Options.DEFAULT);
          Channel client = Channel.open(address, Role.CLIENT, Channel.Options.DEFAULT)) {
        SendQueue queue = client.sendQueue(Priority.NORMAL);
        List<String> sent = new ArrayList<>();
        for (int i = 0; i < 3000; i++) {
          sent.add(("m" + i).repeat(i % 7 == 0 ? 2000 : i % 5));
          if (i % 11 == 0) {
            byte[] head = sent.get(i).getBytes(StandardCharsets.UTF_8);
            byte[] tail = ("-" + i).getBytes(StandardCharsets.UTF_8);
            queue.post(Message.create().append(head).append(new byte[0]).append(tail));
            sent.set(i, sent.get(i) + "-" + i);
          } else {
            queue.post(sent.get(i));
          }
        }
        List<String> got = new ArrayList<>();
        while (got.size() < sent.size()) {
          List<byte[]> came = server.receiveBytes(Integer.MAX_VALUE, soon);
          assertTrue(!came.isEmpty() && came.size() <= 1024, "came " + came.size());
          for (byte[] bytes : came) {
            got.add(new String(bytes, StandardCharsets.UTF_8));
          }
        }
        assertEquals(sent, got);
        LwmqException late =
            assertThrows(LwmqException.class, () -> server.receiveBytes(10, Deadline.after(20)));
        assertEquals(Status.TIMED_OUT, late.status());
        LwmqException refusal =
            assertThrows(LwmqException.class, () -> server.receiveBytes(0, Deadline.after(20)));
        assertEquals(Status.INVALID, refusal.status());
      }
    }
  }

  // rows: S02 K03
  @Test
  void eachKindOfReceiveQueueKeepsWhatItsRuleSays() {
    for (Channel.ReceiveKind kind : Channel.ReceiveKind.values()) {
      boolean isBounded = kind.name().startsWith("BOUNDED");
      boolean isMono = kind == Channel.ReceiveKind.MONO_UNBOUNDED;
      String address = "loop://java-receive-" + kind;
      Channel.Options options = Channel.Options.DEFAULT.receiving(kind, isBounded ? 3 : 0);
      assertEquals(kind, options.erasing().receiveQueue());
      try (Channel server = Channel.open(address, Role.SERVER, options);
          Channel client = Channel.open(address, Role.CLIENT, Channel.Options.DEFAULT)) {
        client.awaitConnected(soon);
        SendQueue queue = client.sendQueue(Priority.NORMAL);
        for (int i = 0; i < 10; i++) {
          queue.post("" + i);
        }
        if (isMono) {
          assertEquals(10, drain(server, 10).size());
          continue;
        }
        client.close(60_000); // until all of it has landed, and nobody receives
        List<String> kept =
            switch (kind) {
              case BOUNDED_DISCARD_OLDEST -> List.of("7", "8", "9");
              case BOUNDED_DISCARD_NEWEST -> List.of("0", "1", "2");
              default -> List.of("0", "1", "2", "3", "4", "5", "6", "7", "8", "9");
            };
        assertEquals(kept, drain(server, kept.size()));
        LwmqException end = assertThrows(LwmqException.class, () -> server.receive(soon));
        assertEquals(Status.CLOSED, end.status());
      }
    }
    Channel.Options none = Channel.Options.DEFAULT.receiving(Channel.ReceiveKind.BOUNDED_DISCARD_OLDEST, 0);
    assertThrows(LwmqException.class, () -> Channel.open("loop://java-receive", Role.SERVER, none));
  }

  // rows: S02 K16
  @Test
  void severalThreadsReceiveAndEachMessageGoesToOne() throws InterruptedException {
    Channel.Options many = Channel.Options.DEFAULT.receiving(Channel.ReceiveKind.MULTI_UNBOUNDED, 0);
    try (Channel server = Channel.open("loop://java-crowd", Role.SERVER, many);
        Channel client = Channel.open("loop://java-crowd", Role.CLIENT, Channel.Options.DEFAULT)) {
      List<List<String>> got = List.of(new ArrayList<>(), new ArrayList<>(), new ArrayList<>());
      List<Thread> threads = new ArrayList<>();
      for (List<String> mine : got) {
        Thread thread = new Thread(() -> mine.addAll(drain(server, 1000)));
        threads.add(thread);
        thread.start();
      }
      SendQueue queue = client.sendQueue(Priority.NORMAL);
      Set<String> sent = new HashSet<>();
      for (int i = 0; i < 3000; i++) {
        sent.add("c" + i);
        queue.post("c" + i);
      }
      for (Thread thread : threads) {
        thread.join(60_000);
      }
      Set<String> received = new HashSet<>();
      got.forEach(received::addAll);
      assertEquals(sent, received);
    }
  }

  // rows: L57 L51 Z09
  @Test
  void aChannelOfTwoTransportsReachesBothPeersAndHearsThem() {
    List<String> addresses = List.of("loop://java-several-a", "loop://java-several-b");
    try (Channel both = Channel.open(addresses, Role.SERVER, Channel.Options.DEFAULT);
        Channel one = Channel.open(addresses.get(0), Role.CLIENT, Channel.Options.DEFAULT);
        Channel other = Channel.open(addresses.get(1), Role.CLIENT, Channel.Options.DEFAULT)) {
      both.awaitConnected(soon);
      assertEquals(addresses.get(0), both.address());
      both.sendQueue(Priority.NORMAL).post("to all");
      assertEquals(List.of("to all"), drain(one, 1));
      assertEquals(List.of("to all"), drain(other, 1));
      one.sendQueue(Priority.NORMAL).post("one");
      other.sendQueue(Priority.NORMAL).post("other");
      assertEquals(Set.of("one", "other"), new HashSet<>(drain(both, 2)));
    }
    LwmqException none =
        assertThrows(LwmqException.class, () -> Channel.open(List.of(), Role.SERVER, Channel.Options.DEFAULT));
    assertEquals(Status.INVALID, none.status());
  }

  // rows: L51
  @Test
  void twoWaysToOnePeerBringEachMessageOnce() {
    List<String> ways = List.of("loop://java-redundant-a", "loop://java-redundant-b");
    Channel.Options options = Channel.Options.DEFAULT.redundant();
    try (Channel server = Channel.open(ways, Role.SERVER, options);
        Channel client = Channel.open(ways, Role.CLIENT, options)) {
      client.awaitConnected(soon);
      List<String> sent = new ArrayList<>();
      SendQueue queue = client.sendQueue(Priority.NORMAL);
      for (int i = 0; i < 50; i++) {
        sent.add("message " + i);
        queue.post(sent.get(i));
      }
      assertEquals(sent, drain(server, 50));
      LwmqException nothing = assertThrows(LwmqException.class, () -> server.receive(Deadline.after(50)));
      assertEquals(Status.TIMED_OUT, nothing.status());
    }
    LwmqException one =
        assertThrows(LwmqException.class, () -> Channel.open(ways.get(0), Role.SERVER, options));
    assertEquals(Status.INVALID, one.status());
  }

  @Test
  void rawBuffersTravelInTheOrderSent() {
    try (Channel server = Channel.open("loop://java-raw", Role.SERVER, Channel.Options.RAW);
        Channel client = Channel.open("loop://java-raw", Role.CLIENT, Channel.Options.RAW)) {
      client.awaitConnected(soon);
      for (int i = 0; i < 3; i++) {
        TransportBuffer buffer = client.buffer(soon);
        buffer.data().putInt(i);
        client.send(buffer, Integer.BYTES);
        assertThrows(LwmqException.class, () -> client.send(buffer, 4));
      }
      for (int i = 0; i < 3; i++) {
        TransportBuffer buffer = server.receiveBuffer(soon);
        assertEquals(Integer.BYTES, buffer.bytes());
        assertEquals(i, buffer.data().getInt());
        server.dispose(buffer);
      }
    }
  }

  // rows: S07
  @Test
  void timestampsTravelWithTheirFrames() {
    try (Channel server = Channel.open("loop://java-stamps", Role.SERVER, Channel.Options.DEFAULT);
        Channel client = Channel.open("loop://java-stamps", Role.CLIENT, Channel.Options.DEFAULT)) {
      Instant moment = Instant.parse("1969-07-20T20:17:40.1234567Z");
      Message message = Message.create();
      for (int i = 0; i < 3; i++) {
        message.append(new byte[] {(byte) i});
      }
      message.stamp(0, TimestampSource.PRECISE).stamp(1, moment);
      client.sendQueue(Priority.NORMAL).post(message);
      try (Message received = server.receive(soon)) {
        long age = Duration.between(received.timestamp(0).orElseThrow(), Instant.now()).toMillis();
        assertTrue(Math.abs(age) < 20_000, "stamped " + age + " ms ago");
        assertEquals(moment, received.timestamp(1).orElseThrow());
        assertTrue(received.timestamp(2).isEmpty());
        assertEquals(0, received.ticks(2));
        assertEquals(
            Status.INVALID, assertThrows(LwmqException.class, () -> received.ticks(3)).status());
      }
    }
  }

  @Test
  void aChannelThatErasesIsAChannelLikeOthers() {
    Channel.Options erasing = Channel.Options.DEFAULT.erasing();
    assertTrue(erasing.secureErase());
    try (Channel server = Channel.open("loop://java-erases", Role.SERVER, erasing);
        Channel client = Channel.open("loop://java-erases", Role.CLIENT, erasing)) {
      client.sendQueue(Priority.NORMAL).post("secret");
      try (Message message = server.receive(soon)) {
        assertEquals("secret", new String(message.bytes(0), StandardCharsets.UTF_8));
      }
    }
  }

  /** What the only buffer of a channel holds of a secret, when it comes back from a peer that has read it. */
  private static byte[] leftOf(byte[] secret, Channel.Options options) {
    String address = "loop://java-left-" + options.secureErase();
    Deadline soon = Deadline.after(60_000);
    try (Channel server = Channel.open(address, Role.SERVER, options);
        Channel client = Channel.open(address, Role.CLIENT, options)) {
      client.awaitConnected(soon);
      TransportBuffer buffer = client.buffer(soon);
      buffer.data().put(secret);
      client.send(buffer, secret.length);
      TransportBuffer received = server.receiveBuffer(soon);
      byte[] read = new byte[secret.length];
      received.data().get(read);
      assertArrayEquals(secret, read);
      server.dispose(received);
      byte[] left = new byte[secret.length];
      client.buffer(soon).data().get(left);
      return left;
    }
  }

  // rows: S10
  @Test
  void aBufferOfAChannelThatErasesIsZeroAfterItsRelease() {
    byte[] secret = "a secret of twenty-odd bytes".getBytes(StandardCharsets.UTF_8);
    Channel.Options keeping = new Channel.Options(4096, 1, 1, 0, true);
    assertArrayEquals(secret, leftOf(secret, keeping)); // it is the same memory
    assertArrayEquals(new byte[secret.length], leftOf(secret, keeping.erasing()));
  }

  // rows: S04 Z12
  @Test
  void closeWaitsForThePeerAndSaysWhatItDidNotRead() throws InterruptedException {
    int count = 20_000;
    List<Integer> read = new ArrayList<>();
    Channel server = Channel.open("loop://java-linger", Role.SERVER, Channel.Options.DEFAULT);
    Thread reader =
        new Thread(
            () -> {
              for (int i = 0; i < count; i++) {
                try (Message message = server.receive(soon)) {
                  read.add(message.frameCount());
                }
                if (i == 0) {
                  sleep(200);
                }
              }
            });
    reader.start();
    try (Channel client = Channel.open("loop://java-linger", Role.CLIENT, Channel.Options.DEFAULT)) {
      SendQueue queue = client.sendQueue(Priority.NORMAL);
      for (int i = 0; i < count; i++) {
        queue.post("message " + i);
      }
    }
    reader.join(60_000);
    assertEquals(count, read.size());
    server.close();

    try (Channel unread = Channel.open("loop://java-unread", Role.SERVER, Channel.Options.DEFAULT)) {
      Channel hasty =
          Channel.open("loop://java-unread", Role.CLIENT, Channel.Options.DEFAULT.lingering(50));
      hasty.awaitConnected(soon);
      hasty.sendQueue(Priority.NORMAL).post("nobody reads this");
      LwmqException end = assertThrows(LwmqException.class, hasty::close);
      assertEquals(Status.TIMED_OUT, end.status());
      assertTrue(end.getMessage().contains("closed after a linger of 50 ms"), end.getMessage());
      hasty.close(); // it is closed
      assertEquals(0, unread.statistics().messagesLost());
    }
  }

  private static void sleep(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  // rows: S02 K14
  @Test
  void statisticsSayWhatWasPostedShippedAndDiscarded() {
    Channel.Options few =
        Channel.Options.DEFAULT.receiving(Channel.ReceiveKind.BOUNDED_DISCARD_OLDEST, 3).atHome();
    try (Channel server = Channel.open("loop://java-figures", Role.SERVER, few);
        Channel client = Channel.open("loop://java-figures", Role.CLIENT, Channel.Options.DEFAULT.atHome())) {
      client.awaitConnected(soon);
      SendQueue queue = client.sendQueue(Priority.NORMAL);
      for (int i = 0; i < 10; i++) {
        queue.post("message " + i);
      }
      client.flush(soon);
      while (server.statistics().receiveDiscarded() < 7) {
        sleep(5);
      }
      Channel.Statistics here = server.statistics();
      assertEquals(10, here.messagesReceived());
      assertEquals(3, here.receiveQueued());
      assertTrue(here.isServer() && here.isConnected());
      assertEquals(10, client.statistics().messagesPosted());
      assertEquals(10, client.statistics().messagesShipped());
      assertEquals(0, client.statistics().messagesLost());
      assertEquals(3, server.receiveMany(10, soon).size());
    }
  }

  // rows: S06 Z02
  @Test
  void oneMessageGoesToSeveralChannels() {
    try (Channel one = Channel.open("loop://java-one", Role.SERVER, Channel.Options.DEFAULT);
        Channel two = Channel.open("loop://java-two", Role.SERVER, Channel.Options.DEFAULT);
        Channel toOne = Channel.open("loop://java-one", Role.CLIENT, Channel.Options.DEFAULT);
        Channel toTwo = Channel.open("loop://java-two", Role.CLIENT, Channel.Options.DEFAULT)) {
      ByteBuffer direct = ByteBuffer.allocateDirect(300).put(7, (byte) 42).position(7);
      Message message = Message.create().append(direct).append(ByteBuffer.wrap(new byte[] {1, 2}));
      assertEquals(7, direct.position());
      Message second = message.reference().append(new byte[] {3});
      toOne.sendQueue(Priority.NORMAL).post(message);
      toTwo.sendQueue(Priority.NORMAL).post(second);
      try (Message first = one.receive(soon);
          Message other = two.receive(soon)) {
        assertEquals(2, first.frameCount());
        assertEquals(3, other.frameCount());
        assertEquals(293, first.frame(0).remaining());
        assertEquals(42, other.frame(0).get(0));
        assertArrayEquals(new byte[] {1, 2}, other.bytes(1));
      }
    }
  }

  @Test
  void aDeadlineThatIsOverIsATimeOut() {
    try (Channel channel = Channel.open("loop://java-over", Role.SERVER, Channel.Options.DEFAULT)) {
      for (Runnable call :
          List.<Runnable>of(
              () -> channel.receive(Deadline.after(0)), () -> channel.receiveMany(1, Deadline.after(0)),
              () -> channel.receiveBytes(1, Deadline.after(-5)))) {
        LwmqException end = assertThrows(LwmqException.class, call::run);
        assertEquals(Status.TIMED_OUT, end.status());
        assertTrue(end.getMessage().contains("the time was over waiting for"), end.getMessage());
      }
    }
  }

  @Test
  void aTimeOutSaysWhatItWaitedForAndNothingOlder() {
    String address = "loop://java-late";
    try (Channel channel = Channel.open(address, Role.SERVER, Channel.Options.DEFAULT);
        Channel raw = Channel.open("loop://java-late-raw", Role.SERVER, Channel.Options.RAW);
        Selector selector = new Selector()) {
      selector.add(channel);
      SendQueue queue = channel.sendQueue(Priority.NORMAL);
      queue.post("stays");
      Deadline late = Deadline.after(30);
      refused(Status.ADDRESS, "nothing", () -> Limits.of("nothing://older"));
      timedOut("waiting for a message at " + address, () -> channel.receive(late));
      timedOut("waiting for messages at " + address, () -> channel.receiveMany(1, Deadline.after(30)));
      timedOut("waiting for messages at " + address, () -> channel.receiveBytes(1, Deadline.after(30)));
      timedOut("waiting for a peer at " + address, () -> channel.awaitConnected(Deadline.after(30)));
      timedOut("flushing " + address, () -> channel.flush(Deadline.after(30)));
      timedOut("waiting for a message on 1 channels", () -> selector.receive(Deadline.after(30)));
      timedOut("waiting for a buffer at loop://java-late-raw", () -> raw.receiveBuffer(Deadline.after(30)));
      LwmqException unsent = assertThrows(LwmqException.class, () -> channel.close(0));
      assertTrue(unsent.getMessage().contains("closed after a linger of 0 ms"), unsent.getMessage());
    }
  }

  private static void timedOut(String what, Executable call) {
    LwmqException end = assertThrows(LwmqException.class, call);
    assertEquals(Status.TIMED_OUT, end.status());
    assertTrue(
        end.getMessage().matches("the time was over " + what + ", after \\d+ ms"), end.getMessage());
  }

  private static void refused(Status status, String text, Executable call) {
    LwmqException refusal = assertThrows(LwmqException.class, call, text);
    assertEquals(status, refusal.status());
    assertTrue(refusal.getMessage().contains(text), refusal.getMessage());
  }

  @Test
  void aNumberBelowZeroIsRefusedByItsName() {
    refused(Status.INVALID, "bufferBytes -1", () -> new Channel.Options(-1, 0, 0, 0, false));
    refused(Status.INVALID, "buffersSend -2", () -> new Channel.Options(0, -2, 0, 0, false));
    refused(Status.INVALID, "buffersReceive -3", () -> new Channel.Options(0, 0, -3, 0, false));
    refused(Status.INVALID, "retryMs -1: at least 0", () -> new Channel.Options(0, 0, 0, -1, false));
    refused(Status.INVALID, "lingerMs -1", () -> Channel.Options.DEFAULT.lingering(-1));
    refused(
        Status.INVALID, "receiveCapacity -1",
        () -> Channel.Options.DEFAULT.receiving(Channel.ReceiveKind.BOUNDED_DISCARD_OLDEST, -1));
    try (Channel channel = Channel.open("filters+loop://java-negative", Role.SERVER, Channel.Options.DEFAULT);
        Message message = Message.create().append(new byte[1])) {
      refused(
          Status.INVALID, "capacity -1",
          () -> channel.sendQueue(SendQueue.Kind.BOUNDED_DISCARD_OLDEST, Priority.NORMAL, -1));
      refused(Status.INVALID, "weight -1", () -> channel.setWeights(1, 1, 1, 1, -1));
      refused(Status.INVALID, "limit -1", () -> channel.receiveMany(-1, soon));
      refused(Status.INVALID, "limit 0", () -> channel.receiveBytes(0, soon));
      refused(Status.INVALID, "place -2", () -> channel.addFilter("latency", -2));
      refused(Status.INVALID, "place -2", () -> channel.removeFilter(-2));
      refused(Status.INVALID, "place -1", () -> channel.latencyNs(-1, 0.5));
      refused(Status.INVALID, "frame -1", () -> message.frame(-1));
      refused(Status.INVALID, "frame -1", () -> message.bytes(-1));
      refused(Status.INVALID, "frame -1", () -> message.ticks(-1));
      refused(Status.INVALID, "frame -1", () -> message.stamp(-1, TimestampSource.PRECISE));
      refused(Status.INVALID, "frame -1", () -> message.stamp(-1, Instant.EPOCH));
      refused(Status.INVALID, "timestamp 1600", () -> message.stamp(0, Instant.parse("1600-01-01T00:00:00Z")));
      refused(Status.INVALID, "processor -1", () -> ServiceThreads.setAffinity(-1));
      refused(Status.INVALID, "bytesMax -1", () -> Memory.limitWindows(-1));
      refused(Status.INVALID, "lingerMs -5", () -> channel.close(-5));
      channel.sendQueue(Priority.NORMAL); // and it is open
    }
  }

  @Test
  void bytesBelowZeroLeaveABufferWithItsOwner() {
    try (Channel server = Channel.open("loop://java-raw-negative", Role.SERVER, Channel.Options.RAW);
        Channel client = Channel.open("loop://java-raw-negative", Role.CLIENT, Channel.Options.RAW)) {
      TransportBuffer buffer = client.buffer(soon);
      refused(Status.INVALID, "bytes -1", () -> client.send(buffer, -1));
      client.send(buffer, 1);
      TransportBuffer came = server.receiveBuffer(soon);
      assertEquals("TransportBuffer received of channel loop://java-raw-negative, 1 bytes", came.toString());
      server.dispose(came);
      assertEquals("TransportBuffer received of channel loop://java-raw-negative, given back", came.toString());
      assertTrue(buffer.toString().startsWith("TransportBuffer to send of"), buffer.toString());
    }
  }

  @Test
  void nothingIsNotAnEmptyFrame() {
    try (Channel channel = Channel.open("loop://java-null", Role.SERVER, Channel.Options.DEFAULT);
        Message message = Message.create()) {
      SendQueue queue = channel.sendQueue(Priority.NORMAL);
      for (Executable call :
          List.<Executable>of(
              () -> message.append((byte[]) null), () -> message.append((ByteBuffer) null),
              () -> queue.post((byte[]) null))) {
        NullPointerException refusal = assertThrows(NullPointerException.class, call);
        assertTrue(refusal.getMessage().contains("an empty frame is"), refusal.getMessage());
      }
      assertEquals(0, message.frameCount());
      assertEquals(0, queue.statistics().posted());
    }
  }

  @Test
  void anAddressWithANulCharacterIsRefusedInPlaceOfCut() {
    String cut = "loop://java-nul\0and-more";
    String text = "a NUL character, number 16 of 24, in 'loop://java-nul\\0and-more'";
    Channel.Options options = Channel.Options.DEFAULT;
    refused(Status.ADDRESS, text, () -> Channel.open(cut, Role.SERVER, options).close());
    refused(
        Status.ADDRESS, text, () -> Channel.open(List.of("loop://java-nul-2", cut), Role.SERVER, options).close());
    refused(Status.ADDRESS, text, () -> Limits.of(cut));
    refused(Status.ADDRESS, text, () -> Endpoint.open(cut).close());
    refused(Status.ADDRESS, text, () -> StreamState.look(cut, 0));
    try (Channel channel = Channel.open("filters+loop://java-nul", Role.SERVER, options);
        Router router = new Router()) {
      refused(Status.INVALID, "a NUL character", () -> channel.addFilter("latency\0", 0));
      SendQueue queue = channel.sendQueue(SendQueue.Kind.MULTI_UNBOUNDED, Priority.NORMAL, 0);
      refused(Status.INVALID, "a NUL character", () -> router.add("a\0b", queue));
    }
  }

  @Test
  void eachObjectSaysWhatItIs() {
    String address = "loop://java-names";
    Channel server = Channel.open(address, Role.SERVER, Channel.Options.DEFAULT);
    SendQueue queue = server.sendQueue(SendQueue.Kind.BOUNDED_DISCARD_OLDEST, Priority.HIGHEST, 5);
    assertEquals("Channel loop://java-names SERVER, open", server.toString());
    assertEquals("SendQueue BOUNDED_DISCARD_OLDEST HIGHEST of loop://java-names, at most 5", queue.toString());
    queue.setPriority(Priority.IDLE);
    assertTrue(queue.toString().contains(" IDLE "), queue.toString());
    Message message = Message.create().append(new byte[3]).append(new byte[0]).append(new byte[500]);
    assertEquals("Message of 3 frames, 503 bytes", message.toString());
    message.close();
    assertEquals("Message closed or posted", message.toString());
    Router router = new Router();
    router.add("a.*", queue);
    router.add("b", queue);
    assertEquals("Router of 2 routes to 1 queues", router.toString());
    Selector selector = new Selector();
    selector.add(server);
    assertEquals("Selector of 1 channels", selector.toString());
    server.close(0);
    assertEquals("Router of 0 routes to 0 queues", router.toString());
    router.close();
    assertEquals("Router closed", router.toString());
    selector.close();
    assertEquals("Selector closed", selector.toString());
    assertEquals("Channel loop://java-names SERVER, closed", server.toString());
    assertTrue(queue.toString().endsWith(", closed"), queue.toString());
    try (Channel raw = Channel.open(address, Role.SERVER, Channel.Options.RAW)) {
      assertEquals("Channel loop://java-names raw SERVER, open", raw.toString());
    }
    assertEquals("Deadline never", Deadline.never().toString());
    assertTrue(Deadline.after(1_500_000).toString().matches("Deadline in 1\\d{6} ms"));
  }

  @Test
  void eachOfTheWithersKeepsTheRest() {
    Channel.Options all =
        new Channel.Options(
            1, 2, 3, 4, true, true, Channel.ReceiveKind.BOUNDED_DISCARD_NEWEST, 5, true, true, 6);
    assertEquals(all, all.erasing());
    assertEquals(all, all.redundant());
    assertEquals(all, all.atHome());
    assertEquals(all, all.lingering(6));
    assertEquals(all, all.receiving(Channel.ReceiveKind.BOUNDED_DISCARD_NEWEST, 5));
    Channel.Options none = new Channel.Options(1, 2, 3, 4, true);
    assertEquals(
        all,
        none.erasing().redundant().atHome().lingering(6).receiving(Channel.ReceiveKind.BOUNDED_DISCARD_NEWEST, 5));
  }

  // rows: L11 S11
  @Test
  void anAddressSaysWhatItAllows() {
    Limits between = Limits.of("ipc://java-limits");
    assertTrue(between.canSend() && between.canReceive() && between.isReliable() && between.isOrdered());
    assertTrue(between.canShareWindow() && between.canErase());
    assertFalse(between.isInProcess() || between.isOneWay() || between.canMulticast());
    assertTrue(between.bufferBytesMax() > 1 << 30 && between.framesMax() == 65_535);
    assertTrue(Limits.of("loop://java-limits").isInProcess());
    assertEquals(
        Status.ADDRESS, assertThrows(LwmqException.class, () -> Limits.of("nothing://here")).status());
  }

  // rows: S02
  @Test
  void anOfferThatFindsNoRoomDiscardsNothing() {
    try (Channel client = Channel.open("loop://java-offer", Role.CLIENT, Channel.Options.DEFAULT)) {
      SendQueue queue = client.sendQueue(SendQueue.Kind.BOUNDED_DISCARD_OLDEST, Priority.NORMAL, 1);
      Message first = Message.create().append(new byte[] {1});
      Message second = Message.create().append(new byte[] {2});
      assertTrue(queue.offer(first, 0, Deadline.after(0)));
      assertFalse(queue.offer(second, 0, Deadline.after(0)));
      assertFalse(queue.offer(second, 0, Deadline.after(50)));
      assertFalse(queue.awaitRoom(Deadline.after(0)));
      assertFalse(queue.awaitRoom(Deadline.after(50)));
      assertEquals(0, queue.statistics().discarded());
      assertEquals(1, second.frameCount()); // still ours
      try (Channel server = Channel.open("loop://java-offer", Role.SERVER, Channel.Options.DEFAULT)) {
        assertTrue(queue.awaitRoom(soon));
        assertTrue(queue.offer(second, 0, soon));
        for (byte expected : new byte[] {1, 2}) {
          try (Message message = server.receive(soon)) {
            assertArrayEquals(new byte[] {expected}, message.bytes(0));
          }
        }
      }
    }
  }

  // rows: S09 C66
  @Test
  void theLibrarysThreadsAreTiedToProcessorsThatAreThere() {
    LwmqException end = assertThrows(LwmqException.class, () -> ServiceThreads.setAffinity(900));
    assertEquals(Status.INVALID, end.status());
    assertTrue(end.getMessage().contains("processor 900"), end.getMessage());
    assertEquals(
        Status.INVALID,
        assertThrows(LwmqException.class, () -> ServiceThreads.setAffinity(-1)).status());
    ServiceThreads.setAffinity();
  }

  /** The processors that a thread may run on, as the kernel writes them: {@code 0-2,5}. */
  private static String processorsOf(Path task) throws IOException {
    String key = "Cpus_allowed_list:";
    for (String line : Files.readAllLines(task.resolve("status"))) {
      if (line.startsWith(key)) {
        return line.substring(key.length()).strip();
      }
    }
    throw new IOException("no " + key + " of " + task);
  }

  /** Those of the threads of the library. */
  private static Set<String> processorsOfTheLibrary() throws IOException {
    Set<String> found = new HashSet<>();
    try (Stream<Path> tasks = Files.list(Path.of("/proc/self/task"))) {
      for (Path task : tasks.toList()) {
        try {
          String name = Files.readString(task.resolve("comm")).strip();
          if (Set.of("lwmq-channels", "lwmq-connect", "lwmq-ipc").contains(name)) {
            found.add(processorsOf(task));
          }
        } catch (NoSuchFileException e) {
          continue; // one of the JVM's has ended
        }
      }
    }
    return found;
  }

  // rows: S09 C66
  @Test
  void theLibrarysThreadsRunOnTheProcessorsThatTheyAreTold() throws IOException {
    String all = processorsOf(Path.of("/proc/self"));
    String[] each = all.split("[-,]");
    try (Channel server = Channel.open("loop://java-placed", Role.SERVER, Channel.Options.DEFAULT);
        Channel client = Channel.open("loop://java-placed", Role.CLIENT, Channel.Options.DEFAULT)) {
      for (String one : List.of(each[0], each[each.length - 1])) {
        ServiceThreads.setAffinity(Integer.parseInt(one));
        assertEquals(Set.of(one), processorsOfTheLibrary());
      }
      assertThrows(LwmqException.class, () -> ServiceThreads.setAffinity(Integer.parseInt(each[0]), 900));
      assertEquals(Set.of(each[each.length - 1]), processorsOfTheLibrary());
      client.sendQueue(Priority.NORMAL).post("still");
      assertEquals(List.of("still"), drain(server, 1));
    } finally {
      ServiceThreads.setAffinity();
    }
    assertEquals(Set.of(all), processorsOfTheLibrary());
  }

  // rows: L22
  @Test
  void aLargeBufferIsSeenPieceByPiece() {
    long bytes = (3L << 30) + 4096;
    Channel.Options large = new Channel.Options(bytes, 1, 1, 0, true);
    try (Channel server = Channel.open("loop://java-large", Role.SERVER, large);
        Channel client = Channel.open("loop://java-large", Role.CLIENT, large)) {
      TransportBuffer buffer = client.buffer(soon);
      assertEquals(bytes, buffer.bytes());
      assertEquals(Status.TOO_BIG, assertThrows(LwmqException.class, buffer::data).status());
      assertEquals(
          Status.INVALID,
          assertThrows(LwmqException.class, () -> buffer.data(bytes - 8, 9)).status());
      buffer.data(bytes - 8, 8).putLong(0, 77);
      client.send(buffer, bytes);
      TransportBuffer came = server.receiveBuffer(soon);
      assertEquals(77, came.data(bytes - 8, 8).getLong(0));
      server.dispose(came);
    }
  }

  @Test
  void aClosedChannelSaysSo() {
    Channel channel = Channel.open("loop://java-closed", Role.SERVER, Channel.Options.DEFAULT);
    SendQueue queue = channel.sendQueue(Priority.NORMAL);
    channel.close();
    channel.close();
    assertEquals(Status.CLOSED, assertThrows(LwmqException.class, () -> queue.post("late")).status());
  }

  @Test
  void anInterruptEndsAWait() {
    try (Channel channel = Channel.open("loop://java-interrupt", Role.SERVER, Channel.Options.DEFAULT)) {
      Thread.currentThread().interrupt();
      LwmqException end = assertThrows(LwmqException.class, () -> channel.receive(Deadline.never()));
      assertEquals(Status.INTERRUPTED, end.status());
      assertTrue(Thread.interrupted());
    }
  }

  @Test
  void aRawBufferStaysItsOwnersUntilItMayGo() {
    Channel.Options small = new Channel.Options(4096, 2, 0, 0, true).lingering(0);
    try (Channel server = Channel.open("loop://java-raw-owner", Role.SERVER, small);
        Channel client = Channel.open("loop://java-raw-owner", Role.CLIENT, small);
        Channel other = Channel.open("loop://java-raw-other", Role.SERVER, small)) {
      client.awaitConnected(soon);
      TransportBuffer buffer = client.buffer(soon);
      buffer.data().putLong(0, 5);
      refused(Status.TOO_BIG, "4097 bytes of a buffer of 4096", () -> client.send(buffer, 4097));
      refused(Status.INVALID, "a buffer of channel loop://java-raw-owner, not of", () -> other.send(buffer, 8));
      refused(Status.INVALID, "one that was obtained is sent", () -> client.dispose(buffer));
      client.send(buffer, 8);
      refused(Status.INVALID, "this buffer went back already", () -> client.send(buffer, 8));
      TransportBuffer came = server.receiveBuffer(soon);
      assertEquals(5, came.data().getLong());
      refused(Status.INVALID, "not of channel loop://java-raw-other", () -> other.dispose(came));
      server.dispose(came);
    }
  }

  @Test
  void aReceivedRawBufferOutlivesTheCloseOfItsChannel() throws IOException {
    Channel.Options small = new Channel.Options(1 << 20, 2, 0, 0, true).lingering(0);
    long before = mappedFiles();
    for (int round = 0; round < 30; round++) {
      String address = "ipc://java-raw-outlives-" + round;
      Channel server = Channel.open(address, Role.SERVER, small);
      Channel client = Channel.open(address, Role.CLIENT, small);
      client.awaitConnected(soon);
      TransportBuffer sent = client.buffer(soon);
      sent.data().putLong(0, round);
      client.send(sent, 8);
      TransportBuffer came = server.receiveBuffer(soon);
      assertThrows(LwmqException.class, () -> client.close()); // it is not read yet
      server.close();
      assertEquals(round, came.data().getLong());
      server.dispose(came);
      refused(Status.INVALID, "went back already", () -> came.data());
    }
    assertTrue(mappedFiles() < before + 20, "mappings stay");
  }

  @Test
  void aRawBufferToSendOutlivesTheCloseOfItsChannel() throws IOException {
    Channel.Options small = new Channel.Options(1 << 20, 2, 0, 0, true).lingering(0);
    long before = mappedFiles();
    for (int round = 0; round < 30; round++) {
      String address = "ipc://java-raw-unsent-" + round;
      Channel server = Channel.open(address, Role.SERVER, small);
      Channel client = Channel.open(address, Role.CLIENT, small);
      client.awaitConnected(soon);
      TransportBuffer buffer = client.buffer(soon);
      ByteBuffer view = buffer.data();
      client.close();
      server.close();
      view.putLong((1 << 20) - 8, round);
      assertEquals(round, buffer.data().getLong((1 << 20) - 8));
      if (round % 2 == 0) {
        client.abandon(buffer);
      } else { // takes it
        refused(Status.CLOSED, "closed", () -> client.send(buffer, 8));
      }
      refused(Status.INVALID, "went back already", () -> client.abandon(buffer));
    }
    assertTrue(mappedFiles() < before + 20, "mappings stay");
  }

  @Test
  void aRawBufferForAPeerThatHasJustClosedIsTakenOnce() {
    Channel.Options small = new Channel.Options(4096, 2, 0, 0, true).lingering(0);
    for (int round = 0; round < 20; round++) {
      String address = "ipc://java-raw-closed-" + round;
      Channel server = Channel.open(address, Role.SERVER, small);
      Channel client = Channel.open(address, Role.CLIENT, small);
      client.awaitConnected(soon);
      TransportBuffer buffer = client.buffer(soon);
      server.close();
      refused(Status.PEER_LOST, "the peer that this buffer was for has gone", () -> client.send(buffer, 8));
      refused(Status.INVALID, "went back already", () -> client.abandon(buffer));
      client.close();
    }
  }

  @Test
  void aViewOfARawBufferEndsWithIt() {
    Channel.Options small = new Channel.Options(4096, 2, 0, 0, true).lingering(0);
    Channel server = Channel.open("ipc://java-raw-view", Role.SERVER, small);
    Channel client = Channel.open("ipc://java-raw-view", Role.CLIENT, small);
    client.awaitConnected(soon);
    TransportBuffer sent = client.buffer(soon);
    List<ByteBuffer> written = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      written.add(sent.data(8 * i, 8).putLong(0, i));
    }
    client.send(sent, 800);
    TransportBuffer came = server.receiveBuffer(soon);
    ByteBuffer read = came.data();
    for (ByteBuffer view : written) {
      assertThrows(IndexOutOfBoundsException.class, () -> view.putLong(0, -1));
    }
    for (int i = 0; i < 100; i++) {
      assertEquals(i, read.getLong());
    }
    server.dispose(came);
    server.close();
    client.close();
    assertThrows(IndexOutOfBoundsException.class, () -> read.get(0));
    assertThrows(IndexOutOfBoundsException.class, () -> written.get(0).put(0, (byte) 1));
  }

  private static long mappedFiles() throws IOException {
    try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
      return lines.filter(line -> line.contains("memfd:") || line.contains("/dev/shm")).count();
    }
  }

  @Test
  void aForgottenRawBufferGoesBack() throws InterruptedException {
    Channel.Options small = new Channel.Options(4096, 2, 0, 0, true).lingering(0);
    try (Channel server = Channel.open("loop://java-raw-forgotten", Role.SERVER, small);
        Channel client = Channel.open("loop://java-raw-forgotten", Role.CLIENT, small)) {
      client.awaitConnected(soon);
      for (int i = 0; i < 6; i++) { // there are two
        client.send(obtained(client), 8);
        ByteBuffer seen = server.receiveBuffer(soon).data();
        System.gc();
        assertEquals(i, seen.getLong(0)); // it keeps the buffer
        obtained(client);
      }
      client.abandon(obtained(client)); // one of the two, so that all of the others came back
    }
  }

  private int obtainedCount;

  /** Null is never returned: it waits for a collection where all are lent. */
  private TransportBuffer obtained(Channel channel) throws InterruptedException {
    while (true) {
      try {
        TransportBuffer buffer = channel.buffer(Deadline.after(20));
        buffer.data().putLong(0, obtainedCount++ / 2);
        return buffer;
      } catch (LwmqException e) {
        assertEquals(Status.TIMED_OUT, e.status());
        assertFalse(soon.isOver());
        System.gc();
        Thread.sleep(5);
      }
    }
  }

  @Test
  void whoWatchesHearsOfEachPeerThatComesAndGoes() {
    Channel.Options options = Channel.Options.DEFAULT.lingering(0);
    try (Channel server = Channel.open("loop://java-peers", Role.SERVER, options)) {
      refused(Status.TIMED_OUT, "waiting for a peer", () -> server.awaitPeer(null, Deadline.after(10)));
      Channel.Peer peer = null;
      for (int number = 1; number <= 2; number++) {
        try (Channel client = Channel.open("loop://java-peers", Role.CLIENT, options)) {
          peer = server.awaitPeer(peer, soon);
          assertEquals(server.peer(), peer);
          assertEquals(number, peer.number());
          assertTrue(peer.isConnected() && client.awaitPeer(null, soon).isConnected());
        }
        Channel.Peer gone = server.awaitPeer(peer, soon);
        assertEquals(new Channel.Peer(false, number, peer.pid(), peer.uid(), peer.instance()), gone);
        peer = gone;
      }
      refused(Status.INVALID, "there is no transport 1", () -> server.awaitPeer(null, 1, soon));
    }
  }

  @Test
  void whatIsNoTextOrNoAddressIsRefused() {
    refused(
        Status.ADDRESS,
        "half a surrogate pair",
        () -> Channel.open("ipc://x\uD800retry=3ms", Role.AUTO, Channel.Options.DEFAULT));
    String half = "half a surrogate pair, number 4 of the characters: it is none";
    refused(Status.INVALID, half, () -> readerNamed("a\uD83D\uDE00\uDE00b"));
    refused(Status.INVALID, "a NUL character, number 2 of 3", () -> readerNamed("a\0b"));
    String tooLong = "the name of a reader has 256 bytes; 1 to 255 are possible";
    refused(Status.INVALID, tooLong, () -> readerNamed("x".repeat(256)));
    refused(Status.INVALID, "the name of a reader has 0 bytes", () -> readerNamed(""));
    refused(Status.INVALID, "has 300 bytes", () -> StreamState.settle("loop://x", "x".repeat(300), true, 0));
    assertThrows(NullPointerException.class, () -> Channel.open("loop://x", null, Channel.Options.DEFAULT));
    assertThrows(NullPointerException.class, () -> Listener.open(null, Channel.Options.DEFAULT));
    assertThrows(NullPointerException.class, () -> Limits.of(null));
    refused(Status.INVALID, "on the heap", () -> Memory.address(ByteBuffer.allocate(8)));
    try (Channel channel = Channel.open("loop://java-texts", Role.SERVER, Channel.Options.DEFAULT.lingering(0));
        Message message = text("x")) {
      SendQueue queue = channel.sendQueue(Priority.NORMAL);
      refused(Status.INVALID, "half a surrogate pair", () -> queue.post("a\uD800b"));
      refused(Status.INVALID, "has room at once", () -> queue.offer(message, 0, Deadline.never()));
      refused(Status.INVALID, "has room at once", () -> queue.awaitRoom(Deadline.never()));
      refused(Status.INVALID, "a raw channel has buffers", () -> raw(c -> c.onMessage(m -> {})));
      for (Instant moment : List.of(Instant.MAX, Instant.MIN, Instant.parse("1600-12-31T23:59:59Z"))) {
        refused(Status.INVALID, "later than 1601", () -> message.stamp(0, moment));
      }
    }
  }

  private static void readerNamed(String name) {
    ReaderOptions options =
        new ReaderOptions(Role.SERVER, false, false, 0, 0, name, null, false, null, 0, null, 0);
    Reader.open("loop://java-reader-names", options, Deadline.never()).close();
  }

  private static void raw(Consumer<Channel> call) {
    try (Channel channel = Channel.open("loop://java-raw-call", Role.SERVER, Channel.Options.RAW)) {
      call.accept(channel);
    }
  }

  @Test
  void aPostWithoutAWaitGoesToEachOfSeveralTransports() {
    List<String> addresses = List.of("loop://java-each-1", "loop://java-each-2");
    try (Channel hub = Channel.open(addresses, Role.SERVER, Channel.Options.DEFAULT.lingering(0))) {
      SendQueue queue = hub.sendQueue(SendQueue.Kind.BOUNDED_DISCARD_OLDEST, Priority.NORMAL, 2);
      Message message = text("x");
      refused(Status.UNSUPPORTED, "several transports", () -> queue.offer(message, 0, Deadline.after(10)));
      queue.post(message, 0, Deadline.after(0));
      assertEquals(1, queue.statistics().posted());
      for (String address : addresses) {
        try (Channel peer = Channel.open(address, Role.CLIENT, Channel.Options.DEFAULT)) {
          assertEquals(List.of("x"), drain(peer, 1));
        }
      }
    }
  }
}
