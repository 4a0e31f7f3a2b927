package org.lwmq.spark.failure;

import org.apache.spark.QueryContext;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import scala.collection.immutable.Map;

/**
 * Turns our failures into Spark's own, with our error class in front of the text. Driver and executor.
 *
 * <p>No class of ours may travel in a task's result: a driver whose jar was added to a running session could not
 * read it. So the cause stays behind; its stack goes along.
 *
 * <p>It is Spark's class of what SQL's {@code raise_error} raises. PySpark shows that class without a Java stack, in both
 * of its clients, and the driver does so as well where a task has raised it: the class has a condition, which tells Spark
 * that the text is meant for the user. The template of the condition is the text alone.
 */
public final class Failures {
  private static final String CONDITION = "_LEGACY_ERROR_USER_RAISED_EXCEPTION";
  private static final String PARAMETER = "errorMessage";

  private Failures() {}

  /**
   * To be thrown in place of {@code failure}. In a task that was killed, or that gives way to another attempt, it is what
   * Spark wants such tasks to end with: that does not count as a failure.
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

  /** A failure for which there is no exception of ours. */
  public static SparkRuntimeException spark(Status status, String text) {
    return new SparkRuntimeException(
        CONDITION, new Map.Map1<>(PARAMETER, status.errorClass() + ": " + text), null, new QueryContext[0], "");
  }
}
