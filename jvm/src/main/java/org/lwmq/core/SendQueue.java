package org.lwmq.core;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.IntConsumer;
import java.util.function.LongConsumer;

/**
 * Where messages of a channel are posted, by any number of threads, each in its own order; where the kind is mono they take
 * turns. Lives as long as its channel.
 */
public final class SendQueue {
  /** As in {@code lwmq.h}, in its order. Bounded: at most so many unsent. Tagged: at most one unsent per tag. */
  public enum Kind {
    MONO_UNBOUNDED,
    MULTI_UNBOUNDED,
    MULTI_UNBOUNDED_TAGGED,
    BOUNDED_DISCARD_OLDEST,
    BOUNDED_DISCARD_NEWEST,
    BOUNDED_DISCARD_OLDEST_TAGGED,
    BOUNDED_DISCARD_NEWEST_TAGGED
  }

  /** Since the queue was made; {@code posted} is the sum of the others while nobody posts or ships. */
  public record Statistics(long posted, long collected, long discarded, long replaced, long queued) {}

  private final Channel channel;
  private final Handle life; // the channel's
  private final long queue;
  private final Kind kind;
  private final long capacity;
  private final ReentrantLock turn; // of a mono queue, which has one poster at a time; else null
  private volatile Priority priority; // as it was set last
  private volatile Statistics last; // behind the close of the channel

  SendQueue(Channel channel, Handle life, long queue, Kind kind, Priority priority, long capacity) {
    this.channel = channel;
    this.life = life;
    this.queue = queue;
    this.kind = kind;
    this.turn = kind == Kind.MONO_UNBOUNDED ? new ReentrantLock() : null;
    this.priority = priority;
    this.capacity = capacity;
  }

  /** Lends the native queue to {@code user}. CLOSED once the channel is. */
  void lendTo(LongConsumer user) {
    life.run(c -> user.accept(queue));
  }

  /** One that posts. */
  private void post(LongConsumer call) {
    if (turn == null) {
      lendTo(call);
      return;
    }
    turn.lock();
    try {
      lendTo(call);
    } finally {
      turn.unlock();
    }
  }

  boolean isOpen() {
    return channel.isOpen();
  }

  /** INVALID: it is not. */
  void checkIsOf(Channel other) {
    if (channel != other) {
      throw new LwmqException(
          Status.INVALID,
          "a send queue of " + channel.address() + ", not of the channel on " + other.address());
    }
  }

  /** INVALID: it has one. */
  void checkHasManyPosters() {
    if (kind == Kind.MONO_UNBOUNDED) {
      throw new LwmqException(
          Status.INVALID,
          "a send queue of " + channel.address() + " of kind MONO_UNBOUNDED has one poster: take another kind for a"
              + " router");
    }
  }

  /** Posts a message of one frame, copied. TOO_BIG: it fits no buffer. CLOSED. Never waits, as no post does. */
  public void post(byte[] frame) {
    Objects.requireNonNull(frame, "post(null): an empty frame is new byte[0]");
    post(q -> Jni.sendQueuePostBytes(q, frame));
  }

  /** Posts what remains in {@code frame}, copied; its position stays. */
  public void post(ByteBuffer frame) {
    if (frame.isDirect()) {
      ByteBuffer part = frame.slice(); // once: its position and its limit belong to whoever has it
      post(q -> Jni.sendQueuePostDirect(q, part));
    } else {
      post(Memory.copy(frame));
    }
  }

  /** Posts a text as UTF-8. INVALID: half a surrogate pair in it. */
  public void post(String text) {
    post(Jni.encode(text, Status.INVALID));
  }

  /** Takes {@code message}; when it is refused (TOO_BIG, CLOSED), it is still the caller's. */
  public void post(Message message) {
    post(message, 0);
  }

  /**
   * As that, of a tagged queue: an unsent message of the same tag is removed, this one goes to the end. Tags are
   * unsigned and do not travel; 0 is none.
   */
  public void post(Message message, long tag) {
    message.giveTo(m -> post(q -> Jni.sendQueuePostMessage(q, tag, m)));
  }

  /**
   * As that, of a bounded queue: waits for room. False: there is none by then; nothing was discarded, and the message is
   * still the caller's, as it is where this throws. INTERRUPTED. INVALID: the queue is unbounded, and {@code room} is not
   * over. UNSUPPORTED: the channel has several transports.
   */
  public boolean offer(Message message, long tag, Deadline room) {
    return hadRoom(
        () -> await(room, slice -> message.giveTo(m -> post(q -> Jni.sendQueuePostWait(q, tag, slice, m)))), room);
  }

  /**
   * Waits until a bounded queue has room; another thread may post first. False: there is none by then. INTERRUPTED.
   * INVALID, UNSUPPORTED: as {@link #offer}.
   */
  public boolean awaitRoom(Deadline room) {
    return hadRoom(() -> await(room, slice -> lendTo(q -> Jni.sendQueueWaitRoom(q, slice))), room);
  }

  private void await(Deadline room, IntConsumer once) {
    room.awaitDone("waiting for room in a send queue of " + channel.address(), once);
  }

  /** Whether there was room for {@code call}, which waits for it. */
  private boolean hadRoom(Runnable call, Deadline room) {
    if (capacity == 0 && !room.isOver()) {
      throw new LwmqException(
          Status.INVALID, "an unbounded send queue of " + channel.address() + " has room at once: post() does not wait");
    }
    try {
      call.run();
      return true;
    } catch (LwmqException e) {
      if (e.status() == Status.TIMED_OUT || e.status() == Status.FULL) {
        return false;
      }
      throw e;
    }
  }

  /** As {@link #offer}, but when there is no room by then the rule of the queue discards. */
  public void post(Message message, long tag, Deadline room) {
    if (room.isOver() || !offer(message, tag, room)) {
      post(message, tag);
    }
  }

  /**
   * Posts messages of one frame each, copied, in their order; cheaper than one by one. TOO_BIG: none. CLOSED, NO_MEMORY: the
   * first of them may have been; {@link #statistics} count them.
   */
  public void postMany(List<byte[]> frames) {
    byte[][] all = frames.toArray(byte[][]::new); // the same until all is over
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    int[] lengths = new int[all.length];
    for (int i = 0; i < all.length; i++) {
      bytes.writeBytes(all[i]);
      lengths[i] = all[i].length;
    }
    post(q -> Jni.sendQueuePostMany(q, bytes.toByteArray(), lengths));
  }

  /**
   * Posts {@code messages} in their order; cheaper than one by one. Takes those that it posts, which are all of them; none
   * where this throws TOO_BIG or INVALID (one is there twice); CLOSED, NO_MEMORY: perhaps the first of them.
   */
  public void postMessages(List<Message> messages) {
    Message.giveAll(messages, all -> post(q -> Jni.sendQueuePostMessages(q, all)));
  }

  /** Moves the queue with all its messages. Waits for whoever ships just now. CLOSED. */
  public void setPriority(Priority priority) {
    life.run(c -> Jni.sendQueueSetPriority(queue, priority.ordinal() + 1));
    this.priority = priority;
  }

  /** Behind the close of the channel the last ones. Never waits. */
  public Statistics statistics() {
    return Channel.lastOr(() -> last, this::query);
  }

  private Statistics query() {
    long[] figures = life.call(c -> Jni.sendQueueQuery(queue));
    return new Statistics(figures[0], figures[1], figures[2], figures[3], figures[4]);
  }

  /** Before the closed channel is given back. */
  void keepLast() {
    last = query();
  }

  @Override
  public String toString() {
    String bound = capacity > 0 ? ", at most " + capacity : "";
    String end = isOpen() ? "" : ", closed";
    return "SendQueue " + kind + " " + priority + " of " + channel.address() + bound + end;
  }
}
