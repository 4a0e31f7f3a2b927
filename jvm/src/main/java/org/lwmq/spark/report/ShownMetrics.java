package org.lwmq.spark.report;

import java.util.Arrays;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric;
import org.apache.spark.util.MetricUtils;

/**
 * Which metrics the SQL tab can show, and how they look there. Driver.
 *
 * <p>Spark's listener instantiates metrics by the names of their classes, on a thread whose class loader has only the
 * jars that Spark was started with. If this jar was added to a running session, the listener would log a stack for each
 * metric of each execution. In that case sizes are shown through a class of Spark, which formats them, and other
 * metrics are left out.
 */
public final class ShownMetrics {
  private static final String LISTENER = "spark-listener-group-appStatus";
  private static final long[] NO_TASK = {};

  private ShownMetrics() {}

  /**
   * A metric that tasks count. It is shown as Spark shows its own metrics, such as {@code 12.3 MiB}; for several tasks
   * with the minimum, the median and the maximum. Subclasses are public and have a constructor without parameters,
   * because Spark instantiates them by name.
   */
  public abstract static class Metric implements CustomMetric {
    private final String name;
    private final String description;
    private final String type;

    /** {@code type} is one of the types of {@link MetricUtils}. */
    protected Metric(String name, String description, String type) {
      this.name = name;
      this.description = description;
      this.type = type;
    }

    @Override
    public String name() {
      return name;
    }

    @Override
    public String description() {
      return description;
    }

    /** Leaves out which task has the maximum, since Spark knows that only for its own metrics. */
    @Override
    public String aggregateTaskMetrics(long[] ofTasks) {
      return MetricUtils.stringValue(type, ofTasks, NO_TASK)
          .replace(" (stageId: taskId))", "):").replace(" (driver))", ")");
    }

    /** The value that one task has counted so far. */
    public CustomTaskMetric of(long value) {
      return new Value(name, value);
    }
  }

  private record Value(String name, long value) implements CustomTaskMetric {}

  /** Those of {@code metrics} that can be shown, in a form in which they can be shown. */
  public static CustomMetric[] of(Metric... metrics) {
    if (listenerFinds(metrics[0].getClass().getName())) {
      return metrics;
    }
    return Arrays.stream(metrics)
        .filter(metric -> metric.type.equals(MetricUtils.SIZE_METRIC()))
        .map(metric -> new PythonCustomMetric(metric.name(), metric.description()))
        .toArray(CustomMetric[]::new);
  }

  private static boolean listenerFinds(String className) {
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      if (thread.getName().equals(LISTENER)) {
        try {
          Class.forName(className, false, thread.getContextClassLoader());
        } catch (ClassNotFoundException e) {
          return false;
        }
      }
    }
    return true;
  }
}
