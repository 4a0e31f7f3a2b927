package org.lwmq.core;

import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.IntConsumer;

/**
 * How long a call may wait, and who may end it early.
 *
 * <p>Native calls wait in slices, so that {@link Thread#interrupt} and a caller's own reason to stop (a killed
 * Spark task) are noticed within about {@link #SLICE_MS}. Immutable but for the clock; not tied to a thread.
 */
public final class Deadline {
  /** The first slice of a wait. Slices of opening calls grow, so that a slow peer gets the time to answer. */
  static final int SLICE_MS = 200;

  private static final int SLICE_MAX_MS = 1600;
  private static final long NANOS_PER_MS = 1_000_000;
  private static final BooleanSupplier NEVER = () -> false;

  private final long endNanos;
  private final boolean forever;
  private final BooleanSupplier cancelled;

  private Deadline(long endNanos, boolean forever, BooleanSupplier cancelled) {
    this.endNanos = endNanos;
    this.forever = forever;
    this.cancelled = cancelled;
  }

  public static Deadline after(long timeoutMs) {
    return new Deadline(System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs), false, NEVER);
  }

  public static Deadline never() {
    return new Deadline(0, true, NEVER);
  }

  /** The same deadline, which also ends as soon as {@code reason} holds. */
  public Deadline cancelledBy(BooleanSupplier reason) {
    return new Deadline(endNanos, forever, reason);
  }

  /** One native call that waits at most {@code sliceMs}. */
  @FunctionalInterface
  interface Call<T> {
    T once(int sliceMs);
  }

  /**
   * Repeats {@code call} until it answers something else than TIMED_OUT or INTERRUPTED, or until the time is over;
   * then its last exception is thrown. INTERRUPTED when the thread was interrupted (the flag stays set) or the
   * wait was cancelled.
   */
  <T> T await(String what, Call<T> call) {
    for (int slice = SLICE_MS; ; slice = Math.min(slice * 2, SLICE_MAX_MS)) {
      checkCancelled(what);
      try {
        return call.once(slice(slice));
      } catch (LwmqException e) {
        if (e.status() == Status.EMPTY || e.status() == Status.FULL) { // the answers of a call that may not wait
          throw new LwmqException(Status.TIMED_OUT, "the time was over " + what);
        }
        boolean again = e.status() == Status.TIMED_OUT || e.status() == Status.INTERRUPTED;
        if (!again || (isOver() && e.status() == Status.TIMED_OUT)) {
          throw e;
        }
      }
    }
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
}
