package org.lwmq.core;

import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * How many threads are in something that another one may end: it is given back when they are out. Counted in stripes, so that
 * many threads do not write the same cache line.
 */
final class Callers {
  private static final int STRIPES = 8;
  private static final int STRIDE = 16; // longs: two cache lines
  private static final long LOOK_NANOS = 50_000;

  private final AtomicLongArray inside = new AtomicLongArray(STRIPES * STRIDE);

  /** Goes in; what is returned is for {@link #leave}. Whoever ends it has to be looked for behind this. */
  int enter() {
    int stripe = (int) (Thread.currentThread().getId() % STRIPES) * STRIDE;
    inside.getAndIncrement(stripe);
    return stripe;
  }

  void leave(int stripe) {
    inside.getAndDecrement(stripe);
  }

  /** Waits until all are out who went in before the end could be seen. For a thread that is not in itself. */
  void awaitNone() {
    for (int stripe = 0; stripe < inside.length(); stripe += STRIDE) {
      int looked = stripe;
      awaitNot(() -> inside.get(looked) > 0);
    }
  }

  /** Waits until {@code isInside} does not hold. */
  static void awaitNot(BooleanSupplier isInside) {
    boolean wasInterrupted = false;
    while (isInside.getAsBoolean()) {
      wasInterrupted |= Thread.interrupted(); // it would end every pause
      LockSupport.parkNanos(LOOK_NANOS);
    }
    if (wasInterrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
