package org.lwmq.spark.report;

import java.util.function.Supplier;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import scala.collection.immutable.Map;

/**
 * Turns failures of the library into exceptions of Spark, with the error class in front of the text. Driver and
 * executor.
 *
 * <p>No class of this jar may be part of a task's result: a driver whose jar was added to a running session could not
 * deserialize it. So the exception has no cause, but the stack of the cause.
 *
 * <p>The exception is the one that SQL's {@code raise_error} raises. It has an error condition, which tells Spark that
 * the text is meant for the user: both clients of PySpark show it without a Java stack, and so does the driver when a
 * task has raised it. The template of the condition is the text alone.
 */
public final class Failures {
  private static final String CONDITION = "_LEGACY_ERROR_USER_RAISED_EXCEPTION";
  private static final String PARAMETER = "errorMessage";

  private Failures() {}

  /**
   * The exception to throw in place of {@code failure}. In a task that was killed, or that gives way to another
   * attempt, it is the one with which Spark wants such tasks to end: it does not count as a failure.
   */
  public static RuntimeException spark(LwmqException failure) {
    TaskContext context = TaskContext.get();
    if (context != null && failure.status() == Status.SUPERSEDED) {
      return new TaskKilledException(failure.classified());
    }
    if (context != null && failure.status() == Status.INTERRUPTED) {
      context.killTaskIfInterrupted();
    }
    SparkRuntimeException exception = spark(failure.status(), failure.getMessage());
    exception.setStackTrace(failure.getStackTrace());
    return exception;
  }

  /** Returns what {@code call} returns. An {@link LwmqException} becomes Spark's. */
  public static <T> T call(Supplier<T> call) {
    try {
      return call.get();
    } catch (LwmqException e) {
      throw spark(e);
    }
  }

  /** Runs {@code call}. An {@link LwmqException} becomes Spark's. */
  public static void run(Runnable call) {
    call(
        () -> {
          call.run();
          return null;
        });
  }

  /** An exception for a failure that was not thrown as an {@link LwmqException}. */
  public static SparkRuntimeException spark(Status status, String text) {
    return new SparkRuntimeException(
        CONDITION, new Map.Map1<>(PARAMETER, status.errorClass() + ": " + text), null, new QueryContext[0], "");
  }
}
