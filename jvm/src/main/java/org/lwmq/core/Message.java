package org.lwmq.core;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.LongConsumer;

/** What is sent whole or not at all: frames of bytes. One thread at a time (INVALID for a second one); any thread closes. */
public final class Message implements AutoCloseable {
  private static final long TICKS_1970 = 116_444_736_000_000_000L;
  private static final long TICKS_PER_SECOND = 10_000_000;
  private static final long SECONDS_MAX = 884_541_254_400L; // of the year 30000, which ticks can say

  private final Handle handle;

  Message(long message) {
    this.handle = new Handle(this, message, "message", m -> Jni.messageDestroy(m));
  }

  /** Of what a call that does not wait has received: null where that is 0. */
  static Message ofPointer(long message) {
    return message == 0 ? null : new Message(message);
  }

  /** An empty message. */
  public static Message create() {
    return new Message(Jni.messageCreate(0));
  }

  /** Appends a copy of {@code frame}. Returns this message. NullPointerException, TOO_BIG: more frames than one has. */
  public Message append(byte[] frame) {
    Objects.requireNonNull(frame, "append(null): an empty frame is new byte[0]");
    handle.run(m -> Jni.messageAppend(m, frame));
    return this;
  }

  /** Appends a copy of what remains in {@code frame}; its position stays. Returns this message. */
  public Message append(ByteBuffer frame) {
    Objects.requireNonNull(frame, "append(null): an empty frame is an empty buffer");
    if (!frame.isDirect()) {
      return append(Memory.copy(frame));
    }
    ByteBuffer part = frame.slice(); // once: its position and its limit belong to whoever has it
    handle.run(m -> Jni.messageAppendDirect(m, part));
    return this;
  }

  /** The same without {@code released}. */
  public Message appendExternal(ByteBuffer frame) {
    return appendExternal(frame, () -> {});
  }

  /**
   * Appends what remains in the direct buffer {@code frame} where it lies, without a copy: nobody may write into it, or free
   * it, until {@code released} has run. That is once, on a daemon thread of ours that all frames share, when the last message
   * that shows it is gone: closed, or shipped to a peer in another process, or closed there by one in this; and the last view
   * of {@link #frame}. Until then the buffer is kept from the garbage collector. Where this throws, {@code released} does not
   * run. Returns this message. INVALID: a buffer on the heap, which moves. TOO_BIG: more frames than one has.
   */
  public Message appendExternal(ByteBuffer frame, Runnable released) {
    Objects.requireNonNull(released, "released is null: leave it out");
    if (!frame.isDirect()) {
      throw new LwmqException(
          Status.INVALID, "appendExternal(): the buffer is on the heap, which moves: take a direct one, or append()");
    }
    ExternalFrame.serveAll();
    ByteBuffer part = frame.slice();
    ExternalFrame external = new ExternalFrame(part, released);
    handle.run(m -> Jni.messageAppendExternal(m, part, external));
    return this;
  }

  /**
   * A second message of the same frames, which are not copied, so that several channels get it; the caller closes it, or
   * posts it. What is appended to one shows there alone.
   */
  public Message reference() {
    return new Message(handle.call(Jni::messageReference));
  }

  /** Gives frame {@code index} the present time; NONE takes its timestamp away. Returns this message. INVALID: no such frame. */
  public Message stamp(int index, TimestampSource source) {
    Arguments.notNegative("frame", index);
    handle.run(m -> Jni.messageSetTimestamp(m, index, source.ordinal(), 0));
    return this;
  }

  /**
   * Gives frame {@code index} the timestamp {@code moment}, to 100 ns below. Returns this message. INVALID: no such frame,
   * or a moment before 1601 or behind 30000.
   */
  public Message stamp(int index, Instant moment) {
    Arguments.notNegative("frame", index);
    long seconds = moment.getEpochSecond();
    long ticks = TICKS_1970 + seconds * TICKS_PER_SECOND + moment.getNano() / 100;
    if (Math.abs(seconds) > SECONDS_MAX || ticks <= 0) { // 0 is none
      throw new LwmqException(
          Status.INVALID, "timestamp " + moment + ": later than 1601-01-01T00:00:00Z is possible, to the year 30000");
    }
    handle.run(m -> Jni.messageSetTimestamp(m, index, TimestampSource.EXPLICIT, ticks));
    return this;
  }

  /** Ticks of frame {@code index}: 100 ns since 1601-01-01 UTC; 0 where it has no timestamp. */
  public long ticks(int index) {
    Arguments.notNegative("frame", index);
    return handle.call(m -> Jni.messageTimestamp(m, index));
  }

  /** The timestamp of frame {@code index}, if it has one. */
  public Optional<Instant> timestamp(int index) {
    long ticks = ticks(index);
    if (ticks == 0) {
      return Optional.empty();
    }
    long since1970 = ticks - TICKS_1970;
    return Optional.of(
        Instant.ofEpochSecond(
            Math.floorDiv(since1970, TICKS_PER_SECOND), Math.floorMod(since1970, TICKS_PER_SECOND) * 100));
  }

  public int frameCount() {
    return handle.call(Jni::messageFrameCount);
  }

  /**
   * Frame {@code index} where it lies, read-only. Keeps what it shows, as a {@link #reference} would, until the garbage
   * collector has found that nobody holds it, or what was made of it: a peer's buffers, too, so that others have to be copied
   * as they come. Of small frames, and of those that are looked at once, {@link #bytes} are cheaper. INVALID: no such frame.
   * TOO_BIG: 2 GiB and more.
   */
  public ByteBuffer frame(int index) {
    Arguments.notNegative("frame", index);
    return handle.call(m -> FrameViews.of(m, index));
  }

  /** Of frame {@code index}. INVALID: no such frame. */
  public long frameBytes(int index) {
    Arguments.notNegative("frame", index);
    return handle.call(m -> Jni.messageFrameBytes(m, index));
  }

  /** A copy of frame {@code index}; errors as of {@link #frame}. */
  public byte[] bytes(int index) {
    Arguments.notNegative("frame", index);
    return handle.call(m -> Memory.copy(Jni.messageFrame(m, index)));
  }

  /** Lends the native message to {@code taker}; it is not ours any more when that returns. */
  void giveTo(LongConsumer taker) {
    lendTo(
        m -> {
          taker.accept(m);
          taken();
        });
  }

  /**
   * Lends the native messages to {@code taker}; those that are 0 when it returns or throws are not ours any more. INVALID: one
   * is there twice.
   */
  static void giveAll(List<Message> messages, Consumer<long[]> taker) {
    Message[] lent = messages.toArray(Message[]::new); // alive, and the same, until all is over
    checkDistinct(lent);
    long[] all = new long[lent.length];
    int count = 0;
    try {
      for (; count < lent.length; count++) {
        all[count] = lent[count].handle.lend();
      }
      taker.accept(all);
    } finally {
      for (int i = 0; i < count; i++) {
        if (all[i] == 0) {
          lent[i].taken();
        }
        lent[i].handle.giveBack();
      }
      Reference.reachabilityFence(lent);
    }
  }

  private static void checkDistinct(Message[] messages) {
    Set<Message> seen = Collections.newSetFromMap(new IdentityHashMap<>());
    for (int i = 0; i < messages.length; i++) {
      if (!seen.add(messages[i])) {
        throw new LwmqException(
            Status.INVALID, "message " + i + " of " + messages.length + " is there twice: post a reference() of it");
      }
    }
  }

  /** Lends the native message to {@code user}; nobody else has it until that returns. */
  void lendTo(LongConsumer user) {
    handle.run(user);
  }

  /** The native message is not ours any more. For who was lent it. */
  void taken() {
    handle.take();
  }

  @Override
  public void close() {
    handle.close();
  }

  /** Frames and their bytes; as every call, for one thread at a time. */
  @Override
  public String toString() {
    if (!handle.isOpen()) {
      return "Message closed or posted";
    }
    return handle.call(
        m -> {
          int frames = Jni.messageFrameCount(m);
          return "Message of " + frames + " frames, " + Jni.messageBytes(m) + " bytes";
        });
  }
}
