package org.lwmq.spark.source;

import java.util.Arrays;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric;

/**
 * Which metrics the SQL tab can show. Driver.
 *
 * <p>Spark's listener makes metrics anew, by the names of their classes, and its thread sees only what Spark was started
 * with. Where our jar was added to a running session it would log a stack for each metric of each execution. There,
 * sizes are shown through a class of Spark's own, which formats them as such, and the others not at all.
 */
final class ShownMetrics {
  private static final String LISTENER = "spark-listener-group-appStatus";

  private ShownMetrics() {}

  /** A metric that counts bytes. */
  interface InBytes extends CustomMetric {}

  /** Those of {@code metrics} that can be shown, in a form that can be. */
  static CustomMetric[] of(CustomMetric... metrics) {
    if (metrics.length == 0 || listenerFinds(metrics[0].getClass().getName())) {
      return metrics;
    }
    return Arrays.stream(metrics)
        .filter(InBytes.class::isInstance)
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
