package org.lwmq.spark.write;

import java.util.Iterator;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * The rows of a task that are to be seen while they are made. Where the task waits for its next row, those that it has
 * stored are published within {@value #MS} ms, although they do not fill a batch. Executor.
 *
 * <p>The task's thread gives up what it writes to while it is in its input, and only then. A timer takes it in that time,
 * publishes, and gives it back.
 */
final class PromptRows implements AutoCloseable {
  private static final int MS = 20;

  private static final int WITH_TASK = 0;
  private static final int FREE = 1;
  private static final int WITH_TIMER = 2;

  /** Of all tasks of this executor: a publication takes microseconds. */
  private static final ScheduledExecutorService TIMER =
      Executors.newSingleThreadScheduledExecutor(
          task -> {
            Thread thread = new Thread(task, "lwmq-prompt-rows");
            thread.setDaemon(true);
            return thread;
          });

  private final Runnable publish;
  private final AtomicInteger holder = new AtomicInteger(WITH_TASK);
  private final Future<?> ticks;
  private RuntimeException failure; // guarded by holder

  /** {@code publish} publishes the rows that were stored. It is called on either thread, and never on both. */
  PromptRows(Runnable publish) {
    this.publish = publish;
    ticks = TIMER.scheduleWithFixedDelay(this::tick, MS, MS, TimeUnit.MILLISECONDS);
  }

  /** The next row of {@code input}; null at its end. Throws what a publication on the timer has thrown. */
  InternalRow next(Iterator<InternalRow> input) {
    holder.set(FREE);
    try {
      return input.hasNext() ? input.next() : null;
    } finally {
      while (!holder.compareAndSet(FREE, WITH_TASK)) {
        Thread.onSpinWait();
      }
      if (failure != null) {
        throw failure;
      }
    }
  }

  private void tick() {
    if (!holder.compareAndSet(FREE, WITH_TIMER)) {
      return; // the task is storing a row, and comes back soon
    }
    try {
      publish.run();
    } catch (RuntimeException e) {
      failure = e;
    } finally {
      holder.set(FREE);
    }
  }

  @Override
  public void close() {
    ticks.cancel(false);
  }
}
