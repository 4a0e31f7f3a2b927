package org.lwmq.core;

import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;

/**
 * A channel in the hands of requests or replies: any number of threads are in it at once, for one short call each. Whoever
 * ends that waits until they are out, so that no channel is closed around somebody; nobody else does.
 */
final class InUse {
  private final Callers callers = new Callers();
  private final AtomicReference<LwmqException> end = new AtomicReference<>();

  /** What {@code call} returns; after the end what ended it. {@code call} runs no code of an application. */
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

  /** For a thread that is not in itself. False where it had ended before. */
  boolean end(LwmqException why) {
    boolean isFirst = end.compareAndSet(null, why);
    callers.awaitNone();
    return isFirst;
  }

  boolean isEnded() {
    return end.get() != null;
  }
}
