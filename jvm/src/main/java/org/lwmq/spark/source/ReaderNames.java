package org.lwmq.spark.source;

import java.util.Properties;
import org.apache.spark.TaskContext;
import org.lwmq.spark.conf.Ack;

/**
 * The names under which tasks consume and the driver settles: both sides make them here, so that they agree.
 *
 * <p>All scans of one SQL execution are one reader, {@code spark/<application>/<root execution>}. A job outside of any
 * execution ({@code rdd}, {@code foreach}, {@code toLocalIterator}) knows no number of its own in its tasks, but each of its
 * stages does: those read as {@code spark/<application>/stage/<stage>}, and the job's end settles all of them.
 */
final class ReaderNames {
  private static final String ROOT = "spark.sql.execution.root.id";
  private static final String EXECUTION = "spark.sql.execution.id";

  private ReaderNames() {}

  /** The name of a task's reader. */
  static String of(String application, TaskContext context, Ack ack) {
    if (context == null) {
      return null;
    }
    String root = root(context.getLocalProperties());
    String name = root == null ? ofStage(application, context.stageId()) : ofRoot(application, root);
    return ack == Ack.QUERY ? name : name + "/task/" + context.taskAttemptId();
  }

  /** What a task's reader is an attempt at: one name for its retries, copies, and those of its stage. */
  static String ofTask(String application, TaskContext context) {
    return ofStage(application, context.stageId()) + "/" + context.partitionId();
  }

  /** The root execution that a job belongs to; null if none. */
  static String root(Properties properties) {
    if (properties == null) {
      return null;
    }
    return properties.getProperty(ROOT, properties.getProperty(EXECUTION));
  }

  static String ofRoot(String application, String root) {
    return "spark/" + application + "/" + root;
  }

  static String ofStage(String application, int stage) {
    return "spark/" + application + "/stage/" + stage;
  }
}
