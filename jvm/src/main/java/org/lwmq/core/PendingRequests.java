package org.lwmq.core;

import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * What is outstanding of one {@link Requests}, by number; each with its own time. Any thread; nobody is told anything with
 * the lock held.
 */
final class PendingRequests {
  static final int TEXT_BYTES_MAX = 1000; // of a failure's class and of its text

  private static final ScheduledThreadPoolExecutor TIMES = keeper();
  private static volatile Thread keeper; // written by TIMES where it makes its thread

  /**
   * @param timer null where there is no time-out; else of {@code ms}
   * @param ends of peers, when it was asked
   */
  private record Outstanding(Reply reply, ScheduledFuture<?> timer, long ms, long ends) {}

  final String address;
  final long asker = new SecureRandom().nextLong();

  private final int most;
  private final Map<Long, Outstanding> outstanding = new HashMap<>();
  private long asked;
  private long answered;
  private long failed;
  private long timedOut;
  private long lost;
  private long givenUp;
  private long late;
  private long foreign;
  private long malformed;

  PendingRequests(String address, int most) {
    this.address = address;
    this.most = most;
  }

  /** {@code ends}: of the channel's peers by now, which are not its own. */
  Reply enlist(Deadline deadline, long ends) {
    Reply reply;
    synchronized (this) {
      if (outstanding.size() >= most) {
        throw new LwmqException(
            Status.FULL,
            most + " requests are outstanding on " + address + ", as many as outstandingMax allows: give them a"
                + " deadline, or wait for replies");
      }
      long number = ++asked;
      reply = new Reply(number);
      long nanos = deadline.isForever() ? 0 : Math.max(0, deadline.leftNanos());
      ScheduledFuture<?> timer =
          deadline.isForever() ? null : TIMES.schedule(() -> expire(number), nanos, TimeUnit.NANOSECONDS);
      outstanding.put(number, new Outstanding(reply, timer, (nanos + 500_000) / 1_000_000, ends));
    }
    reply.whenComplete((frames, end) -> forget(reply.number())); // does nothing unless somebody else completed it
    return reply;
  }

  private void forget(long number) {
    synchronized (this) {
      if (take(number) != null) {
        givenUp++;
      }
    }
  }

  /** The time of request {@code number} is over; nothing where it is settled. */
  void expire(long number) {
    Outstanding found;
    synchronized (this) {
      found = outstanding.get(number);
      if (take(number) == null) {
        return;
      }
      timedOut++;
    }
    found
        .reply()
        .completeExceptionally(
            new LwmqException(
                Status.TIMED_OUT,
                "no reply to request " + number + " within " + found.ms() + " ms on " + address));
  }

  /** With the lock. Null where it is settled. */
  private Reply take(long number) {
    Outstanding found = outstanding.remove(number);
    if (found == null) {
      return null;
    }
    if (found.timer() != null) {
      found.timer().cancel(false);
    }
    return found.reply();
  }

  /** Gives a message that came to whom it answers, or to say why not: NO_MEMORY, TOO_BIG. */
  void settle(Message message) {
    RequestHead head = RequestHead.of(message);
    Reply reply;
    Frames frames = null;
    LwmqException failure = null;
    synchronized (this) {
      if (head == null || (head.kind() != RequestHead.REPLY && head.kind() != RequestHead.FAILURE)) {
        malformed++;
        return;
      }
      if (head.asker() != asker) {
        foreign++;
        return;
      }
      boolean isFailure = head.kind() == RequestHead.FAILURE;
      if (isFailure) {
        failure = failure(message);
      }
      if (head.number() <= 0 || head.number() > asked || (isFailure && failure == null)) {
        malformed++;
        return;
      }
      reply = take(head.number());
      if (reply == null) {
        late++;
        return;
      }
      if (isFailure) {
        failed++;
      } else {
        answered++;
      }
    }
    try {
      frames = failure == null ? Frames.from(message, 1) : null;
    } catch (LwmqException e) {
      failure = e;
    } catch (OutOfMemoryError e) {
      failure = new LwmqException(Status.NO_MEMORY, "no memory for the reply to request " + head.number() + " (" + address + ")");
    }
    if (failure != null) {
      reply.completeExceptionally(failure);
    } else {
      reply.complete(frames);
    }
  }

  /** Null where the frames are not those of a failure. */
  private HandlerException failure(Message message) {
    if (message.frameCount() != 3
        || message.frameBytes(1) > TEXT_BYTES_MAX
        || message.frameBytes(2) > TEXT_BYTES_MAX) {
      return null;
    }
    String kind = new String(message.bytes(1), StandardCharsets.UTF_8);
    String text = new String(message.bytes(2), StandardCharsets.UTF_8);
    String said = kind + (kind.isEmpty() || text.isEmpty() ? "" : ": ") + text;
    return new HandlerException(kind, "the peer's handler failed: " + said + " (" + address + ")");
  }

  /** Fails all that is outstanding. */
  void lose(LwmqException why) {
    lose(why, 0);
  }

  /** But what was asked behind end number {@code end} of a peer, where that is not 0: it may be told late. */
  void lose(LwmqException why, long end) {
    Map<Long, Outstanding> all;
    synchronized (this) {
      all = new HashMap<>(outstanding);
      all.values().removeIf(one -> end != 0 && one.ends() >= end);
      all.keySet().forEach(this::take);
      lost += all.size();
    }
    for (Outstanding one : all.values()) {
      one.reply().completeExceptionally(new LwmqException(why.status(), why.getMessage()));
    }
  }

  synchronized Requests.Statistics statistics() {
    return new Requests.Statistics(
        asked, outstanding.size(), answered, failed, timedOut, lost, givenUp, late, foreign, malformed);
  }

  /** Whether {@code status} ends the conversation with one peer: said once, the next one may come. */
  static boolean endsPeer(Status status) {
    return status == Status.CLOSED
        || status == Status.PEER_LOST
        || status == Status.STALLED
        || status == Status.CORRUPT;
  }

  /** Whether this is the thread that keeps the time of all. */
  static boolean isOwnThread() {
    return Thread.currentThread() == keeper;
  }

  private static ScheduledThreadPoolExecutor keeper() {
    ScheduledThreadPoolExecutor made =
        new ScheduledThreadPoolExecutor(
            1,
            run -> {
              Thread thread = new Thread(run, "lwmq-times");
              thread.setDaemon(true);
              keeper = thread;
              return thread;
            });
    made.setRemoveOnCancelPolicy(true); // thousands that were answered leave nothing behind
    return made;
  }
}
