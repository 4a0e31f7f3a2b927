package org.lwmq.spark.source;

import org.apache.spark.SparkException;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/**
 * Turns our failures into Spark's own, with our error class in front of the text. Driver and executor.
 *
 * <p>No class of ours may travel in a task's result: a driver whose jar was added to a running session could not
 * read it. So the cause stays behind; its stack goes along.
 */
final class Failures {
  private Failures() {}

  /** To be thrown in place of {@code failure}. Returns so that callers can write {@code throw}. */
  static RuntimeException spark(LwmqException failure) {
    return spark(failure.status(), failure.getMessage(), failure.getStackTrace());
  }

  /** A failure that Spark's glue itself has found. */
  static RuntimeException spark(Status status, String text) {
    return spark(status, text, null);
  }

  /**
   * As {@link #spark(LwmqException)}, but a task that was killed, or gives way to another attempt, ends as Spark wants
   * killed tasks to end: it does not count as a failure.
   */
  static RuntimeException inTask(LwmqException failure) {
    if (failure.status() == Status.SUPERSEDED) {
      throw new TaskKilledException(failure.status().errorClass() + ": " + failure.getMessage());
    }
    TaskContext context = TaskContext.get();
    if (context != null && failure.status() == Status.INTERRUPTED) {
      context.killTaskIfInterrupted();
    }
    return spark(failure);
  }

  private static RuntimeException spark(Status status, String text, StackTraceElement[] stack) {
    SparkException exception = new SparkException(status.errorClass() + ": " + text);
    if (stack != null) {
      exception.setStackTrace(stack);
    }
    return unchecked(exception);
  }

  /** SparkException is checked, the interfaces of the source API declare nothing. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> RuntimeException unchecked(Throwable exception) throws E {
    throw (E) exception;
  }
}
