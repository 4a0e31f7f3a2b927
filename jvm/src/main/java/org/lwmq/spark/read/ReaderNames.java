package org.lwmq.spark.read;

import java.util.Properties;
import org.apache.spark.TaskContext;
import org.lwmq.spark.conf.Ack;

/**
 * The names under which tasks consume batches and the driver settles them. Both make the names here, so that they
 * agree.
 *
 * <p>All scans of one SQL execution are one reader, {@code spark/<application>/<root execution>}. A job outside of any
 * execution ({@code rdd}, {@code foreach}, {@code toLocalIterator}) has no number that its tasks know, but they know
 * their stage: they read as {@code spark/<application>/stage/<stage>}, and the end of the job settles all its stages.
 */
final class ReaderNames {
  private static final String ROOT = "spark.sql.execution.root.id";
  private static final String EXECUTION = "spark.sql.execution.id";

  private ReaderNames() {}

  /** The name of the reader of a task; null outside of a task. */
  static String of(String application, TaskContext context, Ack ack) {
    if (context == null) {
      return null;
    }
    String root = root(context.getLocalProperties());
    String name = root == null ? ofStage(application, context.stageId()) : ofRoot(application, root);
    return ack == Ack.QUERY ? name : name + "/task/" + context.taskAttemptId();
  }

  /**
   * The name of the work that a task attempts. All attempts at it have this name, also speculative ones and retries.
   */
  static String ofTask(String application, TaskContext context) {
    return ofStage(application, context.stageId()) + "/" + context.partitionId();
  }

  /** The root execution to which a job belongs; null: it belongs to none. */
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
