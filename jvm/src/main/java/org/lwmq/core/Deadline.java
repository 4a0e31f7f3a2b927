package org.lwmq.core;

import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.IntConsumer;

/**
 * How long a call may wait, and who may end it early.
 *
 * <p>Native calls wait in slices, so that {@link Thread#interrupt} and a caller's own reason to stop (a killed
 * Spark task) are noticed within 200 ms. Within 1.6 s where each call asks a peer anew: to open a reader, a writer or a
 * job, to describe a stream, to commit a job. Immutable but for the clock; not tied to a thread.
 */
public final class Deadline {
  /**
   * One native call of a wait. A thread for which nothing comes wakes 5 times in a second, 0.2 ms of work each: 0.1 % of a
   * processor; in slices of 1.6 s it would be 0.013 %.
   */
  static final int SLICE_MS = 200;

  /** What slices grow to where a slow peer needs the time to answer, or nobody is to interrupt. */
  static final int LONG_SLICE_MS = 1600;

  private static final long MS_MAX = TimeUnit.NANOSECONDS.toMillis(Long.MAX_VALUE / 2); // 146 years
  private static final long NANOS_PER_MS = 1_000_000;
  private static final BooleanSupplier NEVER = () -> false;

  /** Hears of a wait that lasts. */
  @FunctionalInterface
  public interface Watcher {
    /** {@code why}: what the wait, which has lasted {@code waitedMs} so far, waits for; it has the address. */
    void lasts(long waitedMs, String why);

    /** The text of a wait whose time is over, for which {@code text} says what it waited for and how long. */
    default String explain(String text) {
      return text;
    }
  }

  private static final Watcher NOBODY = (waitedMs, why) -> {};

  private final long endNanos;
  private final boolean forever;
  private final BooleanSupplier cancelled;
  private final long watchedAfterMs;
  private final Watcher watcher;

  private Deadline(
      long endNanos, boolean forever, BooleanSupplier cancelled, long watchedAfterMs, Watcher watcher) {
    this.endNanos = endNanos;
    this.forever = forever;
    this.cancelled = cancelled;
    this.watchedAfterMs = watchedAfterMs;
    this.watcher = watcher;
  }

  /** {@code timeoutMs} milliseconds from now; 0 and less: the call does not wait. */
  public static Deadline after(long timeoutMs) {
    long ms = Math.max(0, Math.min(timeoutMs, MS_MAX));
    return new Deadline(System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms), false, NEVER, MS_MAX, NOBODY);
  }

  /** The call waits without a limit. */
  public static Deadline never() {
    return new Deadline(0, true, NEVER, MS_MAX, NOBODY);
  }

  /** The same deadline, which also ends as soon as {@code reason} holds. */
  public Deadline cancelledBy(BooleanSupplier reason) {
    Objects.requireNonNull(reason, "reason is null");
    BooleanSupplier before = cancelled;
    BooleanSupplier either = before == NEVER ? reason : () -> before.getAsBoolean() || reason.getAsBoolean();
    return new Deadline(endNanos, forever, either, watchedAfterMs, watcher);
  }

  /**
   * The same deadline. {@code watcher} hears once of each wait that lasts longer than {@code afterMs}, on the thread that
   * waits, and up to 1.6 s later; and it has the last word in the text of one whose time is over.
   */
  public Deadline watchedBy(long afterMs, Watcher watcher) {
    Objects.requireNonNull(watcher, "watcher is null");
    return new Deadline(endNanos, forever, cancelled, afterMs, watcher);
  }

  /** One native call that waits at most {@code sliceMs}. */
  @FunctionalInterface
  interface Call<T> {
    T once(int sliceMs);
  }

  /**
   * Repeats {@code call} until it answers something else than TIMED_OUT or INTERRUPTED, or until the time is over.
   * TIMED_OUT then, which says how long was waited: the call knows of its slice alone. Where the call has no text of its
   * own, it says {@code what} was waited for, too.
   * INTERRUPTED when the thread was interrupted (the flag stays set) or the wait was cancelled.
   */
  <T> T await(String what, Call<T> call) {
    return await(what, SLICE_MS, call);
  }

  /** The same in slices that grow, for a call that begins anew each time. */
  <T> T awaitInLongSlices(String what, Call<T> call) {
    return await(what, LONG_SLICE_MS, call);
  }

  private <T> T await(String what, int longestMs, Call<T> call) {
    long begin = System.nanoTime();
    boolean isWatched = false;
    for (int slice = SLICE_MS; ; slice = Math.min(slice * 2, longestMs)) {
      checkCancelled(what);
      try {
        return call.once(slice(slice));
      } catch (LwmqException e) {
        switch (e.status()) {
          case EMPTY, FULL: // the answers of a call that may not wait
            throw timedOut(what, begin);
          case TIMED_OUT:
            if (isOver()) {
              throw e.hasText() ? timedOut(e, begin) : timedOut(what, begin);
            }
            if (!isWatched && since(begin) >= watchedAfterMs) {
              isWatched = true;
              watcher.lasts(since(begin), e.hasText() ? e.getMessage() : what);
            }
            break;
          case INTERRUPTED: // by a signal
            break;
          default:
            throw e;
        }
      }
    }
  }

  private LwmqException timedOut(String what, long begin) {
    return timedOut("the time was over " + what + ", after " + since(begin) + " ms");
  }

  private LwmqException timedOut(LwmqException answer, long begin) {
    return timedOut(answer.getMessage() + " (waited " + since(begin) + " ms)");
  }

  private LwmqException timedOut(String text) {
    return new LwmqException(Status.TIMED_OUT, watcher.explain(text));
  }

  private static long since(long begin) {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin);
  }

  /** The same for a call without an answer. */
  void awaitDone(String what, IntConsumer call) {
    await(
        what,
        slice -> {
          call.accept(slice);
          return null;
        });
  }

  /**
   * The part of at most {@code sliceMs} that is left, in milliseconds: rounded up, since a call that is given 0 does not
   * wait, and answers so.
   */
  int slice(int sliceMs) {
    if (forever) {
      return sliceMs;
    }
    long left = TimeUnit.NANOSECONDS.toMillis(endNanos - System.nanoTime() + NANOS_PER_MS - 1);
    return (int) Math.max(0, Math.min(left, sliceMs));
  }

  boolean isForever() {
    return forever;
  }

  /** Not to be asked of one that is for ever. */
  long leftNanos() {
    return endNanos - System.nanoTime();
  }

  boolean isOver() {
    return !forever && System.nanoTime() - endNanos >= 0;
  }

  void checkCancelled(String what) {
    if (Thread.currentThread().isInterrupted() || cancelled.getAsBoolean()) {
      throw new LwmqException(Status.INTERRUPTED, "interrupted while " + what);
    }
  }

  @Override
  public String toString() {
    return forever ? "Deadline never" : "Deadline in " + TimeUnit.NANOSECONDS.toMillis(leftNanos()) + " ms";
  }
}
