package org.lwmq.core;

import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.Supplier;

/**
 * A channel in the hands of requests or replies: any number of threads are in it at once, for one short call each. Whoever
 * ends that waits until they are out, so that no channel is closed around somebody.
 */
final class InUse {
  private final ReadWriteLock lock = new ReentrantReadWriteLock();
  private volatile LwmqException end; // written under the write lock

  /** What {@code call} returns; after the end what ended it. {@code call} runs no code of an application. */
  <T> T enter(Supplier<T> call) {
    lock.readLock().lock();
    try {
      if (end != null) {
        throw new LwmqException(end.status(), end.getMessage());
      }
      return call.get();
    } finally {
      lock.readLock().unlock();
    }
  }

  /** False where it had ended before. */
  boolean end(LwmqException why) {
    lock.writeLock().lock();
    try {
      if (end != null) {
        return false;
      }
      end = why;
      return true;
    } finally {
      lock.writeLock().unlock();
    }
  }

  boolean isEnded() {
    return end != null;
  }
}
