package org.lwmq.core;

import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;

/**
 * Counts the threads inside of something that another thread may end, and lets that thread wait until they have left.
 * The count is striped, so that many threads do not write the same cache line.
 */
final class Callers {
  private static final int STRIPES = 8;
  private static final int STRIDE = 16; // longs: two cache lines
  private static final long LOOK_NANOS = 50_000;

  private final AtomicLongArray inside = new AtomicLongArray(STRIPES * STRIDE);

  /** Enters. The result is for {@link #leave}. The caller must check for the end after this call, not before. */
  int enter() {
    int stripe = (int) (Thread.currentThread().getId() % STRIPES) * STRIDE;
    inside.getAndIncrement(stripe);
    return stripe;
  }

  void leave(int stripe) {
    inside.getAndDecrement(stripe);
  }

  /**
   * Waits until all threads have left that had entered before they could see the end. The caller must not be inside.
   */
  void awaitNone() {
    boolean wasInterrupted = false;
    for (int stripe = 0; stripe < inside.length(); stripe += STRIDE) {
      while (inside.get(stripe) > 0) {
        wasInterrupted |= Thread.interrupted(); // an interrupt would end every pause
        LockSupport.parkNanos(LOOK_NANOS);
      }
    }
    if (wasInterrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
