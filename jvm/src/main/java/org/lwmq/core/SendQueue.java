package org.lwmq.core;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.IntConsumer;
import java.util.function.LongConsumer;

/**
 * A queue of a channel to which messages are posted, by any number of threads. The messages of each thread stay in
 * order. At a mono queue the threads take turns. Lives as long as its channel.
 */
public final class SendQueue {
  /**
   * The kinds of {@code lwmq.h}, in its order. A bounded queue has a capacity; a tagged one holds one message per tag.
   */
  public enum Kind {
    MONO_UNBOUNDED,
    MULTI_UNBOUNDED,
    MULTI_UNBOUNDED_TAGGED,
    BOUNDED_DISCARD_OLDEST,
    BOUNDED_DISCARD_NEWEST,
    BOUNDED_DISCARD_OLDEST_TAGGED,
    BOUNDED_DISCARD_NEWEST_TAGGED
  }

  /** Counters since the queue was made. {@code posted} is the sum of the others while no thread posts or ships. */
  public record Statistics(long posted, long collected, long discarded, long replaced, long queued) {}

  private final Channel channel;
  private final Handle life; // the channel's
  private final long queue;
  private final Kind kind;
  private final long capacity;
  private final ReentrantLock turn; // of the threads that post to a mono queue; else null
  private volatile Priority priority; // the last one that was set
  private volatile Statistics last; // null until the channel is closed

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

  /** Runs {@code call}, which posts; at a mono queue one such call at a time. */
  void post(LongConsumer call) {
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

  /** INVALID: it is a queue of another channel. */
  void checkIsOf(Channel other) {
    if (channel != other) {
      throw new LwmqException(
          Status.INVALID,
          "a send queue of " + channel.address() + ", not of the channel on " + other.address());
    }
  }

  /** INVALID: the queue is mono. */
  void checkHasManyPosters() {
    if (kind == Kind.MONO_UNBOUNDED) {
      throw new LwmqException(
          Status.INVALID,
          "a send queue of " + channel.address() + " of kind MONO_UNBOUNDED has one poster: take another kind for a"
              + " router");
    }
  }

  /** Posts a message of one frame, which is copied. Never waits. TOO_BIG: it does not fit a buffer. CLOSED. */
  public void post(byte[] frame) {
    Objects.requireNonNull(frame, "post(null): an empty frame is new byte[0]");
    post(q -> Jni.sendQueuePostBytes(q, frame));
  }

  /** Posts a copy of the remaining bytes of {@code frame}, whose position stays. */
  public void post(ByteBuffer frame) {
    if (frame.isDirect()) {
      post(q -> Jni.sendQueuePostDirect(q, frame, frame.position(), frame.remaining()));
    } else {
      post(Memory.copy(frame));
    }
  }

  /** Posts a text as UTF-8. INVALID: it contains half a surrogate pair. */
  public void post(String text) {
    post(Jni.encode(text, Status.INVALID));
  }

  /** Posts and takes {@code message}. After a failure (TOO_BIG, CLOSED) it is still the caller's. */
  public void post(Message message) {
    post(message, 0);
  }

  /**
   * The same for a tagged queue: an unsent message with the same tag is removed, and this one goes to the end. Tags are
   * unsigned and are not sent; 0 is no tag.
   */
  public void post(Message message, long tag) {
    message.giveTo(m -> post(q -> Jni.sendQueuePostMessage(q, tag, m)));
  }

  /**
   * The same for a bounded queue, but waits for room until {@code room}. False: there was none, and nothing was
   * discarded. Then, and after a failure, the message is still the caller's. INTERRUPTED. INVALID: the queue is
   * unbounded, and the deadline is not over. UNSUPPORTED: the channel has several transports.
   */
  public boolean offer(Message message, long tag, Deadline room) {
    return hadRoom(() -> message.giveTo(m -> await(room, slice -> post(q -> Jni.sendQueuePostWait(q, tag, slice, m)))), room);
  }

  /**
   * Waits until a bounded queue has room. Another thread may fill it first. False: there was none in time. INTERRUPTED.
   * INVALID, UNSUPPORTED: as {@link #offer}.
   */
  public boolean awaitRoom(Deadline room) {
    return hadRoom(() -> await(room, slice -> lendTo(q -> Jni.sendQueueWaitRoom(q, slice))), room);
  }

  private void await(Deadline room, IntConsumer once) {
    room.awaitDone("waiting for room in a send queue of " + channel.address(), once);
  }

  /** Whether {@code call}, which waits for room, found room in time. */
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

  /** As {@link #offer}, but if there is no room in time, the queue discards a message by its rule. */
  public void post(Message message, long tag, Deadline room) {
    if (room.isOver() || !offer(message, tag, room)) {
      post(message, tag);
    }
  }

  /**
   * Posts messages of one frame each, which are copied, in their order. Cheaper than one by one. TOO_BIG: none was
   * posted. CLOSED, NO_MEMORY: the first ones may have been posted; {@link #statistics} counts them.
   */
  public void postMany(List<byte[]> frames) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    frames.forEach(bytes::writeBytes);
    int[] lengths = frames.stream().mapToInt(frame -> frame.length).toArray();
    post(q -> Jni.sendQueuePostMany(q, bytes.toByteArray(), lengths));
  }

  /**
   * Posts and takes {@code messages} in their order. Cheaper than one by one. TOO_BIG, INVALID (a message is there
   * twice): none was posted. CLOSED, NO_MEMORY: the first ones may have been posted and taken.
   */
  public void postMessages(List<Message> messages) {
    Message.giveAll(messages, all -> post(q -> Jni.sendQueuePostMessages(q, all)));
  }

  /** Moves the queue with all its messages to {@code priority}. Waits while a thread ships. CLOSED. */
  public void setPriority(Priority priority) {
    life.run(c -> Jni.sendQueueSetPriority(queue, priority.ordinal() + 1));
    this.priority = priority;
  }

  /** The counters; after the close of the channel the last ones. Never waits. */
  public Statistics statistics() {
    return Channel.lastOr(() -> last, this::query);
  }

  private Statistics query() {
    long[] figures = life.call(c -> Jni.sendQueueQuery(queue));
    return new Statistics(figures[0], figures[1], figures[2], figures[3], figures[4]);
  }

  /** Keeps the last counters, before the closed channel is freed. */
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
