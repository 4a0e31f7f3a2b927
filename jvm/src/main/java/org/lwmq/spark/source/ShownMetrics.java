package org.lwmq.spark.source;

import java.util.Arrays;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric;
import org.apache.spark.util.MetricUtils;

/**
 * Which metrics the SQL tab can show, and how they look there. Driver.
 *
 * <p>Spark's listener makes metrics anew, by the names of their classes, and its thread sees only what Spark was started
 * with. Where our jar was added to a running session it would log a stack for each metric of each execution. There,
 * sizes are shown through a class of Spark's own, which formats them as such, and the others not at all.
 */
final class ShownMetrics {
  private static final String LISTENER = "spark-listener-group-appStatus";
  private static final long[] NO_TASK = {};

  private ShownMetrics() {}

  /**
   * What tasks count, shown as Spark shows its own metrics: {@code 12.3 MiB}, and of several tasks the least, the median
   * and the most, too. Its classes are public and have a constructor without parameters, because Spark makes them by name.
   */
  abstract static class Metric implements CustomMetric {
    private final String name;
    private final String description;
    private final String type;

    /** {@code type}: one of those of {@link MetricUtils}. */
    Metric(String name, String description, String type) {
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

    /** What Spark says of the task that has the most is left out: it knows that of its own metrics alone. */
    @Override
    public String aggregateTaskMetrics(long[] ofTasks) {
      return MetricUtils.stringValue(type, ofTasks, NO_TASK)
          .replace(" (stageId: taskId))", "):").replace(" (driver))", ")");
    }

    /** What one task has counted so far. */
    CustomTaskMetric of(long value) {
      return new Value(name, value);
    }
  }

  private record Value(String name, long value) implements CustomTaskMetric {}

  /** Those of {@code metrics} that can be shown, in a form that can be. */
  static CustomMetric[] of(Metric... metrics) {
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
