package org.lwmq.core;

import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;

/**
 * The use of a channel by requests, replies or a listener: any number of threads are inside at once, for one short call
 * each. The thread that ends the use waits until they have left, so that no channel is closed during a call.
 */
final class InUse {
  private final Callers callers = new Callers();
  private final AtomicReference<LwmqException> end = new AtomicReference<>();

  /**
   * Returns what {@code call} returns; after the end throws why it ended. {@code call} must not run application code.
   */
  <T> T enter(Supplier<T> call) {
    int stripe = callers.enter();
    try {
      LwmqException why = end.get();
      if (why != null) {
        throw new LwmqException(why.status(), why.getMessage());
      }
      return call.get();
    } finally {
      callers.leave(stripe);
    }
  }

  /** Ends the use and waits until all threads have left. False: it had ended before. The caller must not be inside. */
  boolean end(LwmqException why) {
    boolean isFirst = end.compareAndSet(null, why);
    callers.awaitNone();
    return isFirst;
  }

  boolean isEnded() {
    return end.get() != null;
  }
}
