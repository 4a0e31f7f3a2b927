package org.lwmq.spark.source;

import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/**
 * What a scan shows in the SQL tab. The driver sums what the tasks report; Spark makes the metrics by their class
 * names, which is why each is a public class of its own.
 */
public final class ReadMetrics {
  private ReadMetrics() {}

  static CustomMetric[] all() {
    return ShownMetrics.of(new Rows(), new Bytes(), new Batches(), new CopiesAvoided(), new WaitTime());
  }

  /** What one task has read so far. */
  static CustomTaskMetric[] values(long rows, long bytes, long batches, long bytesInPlace, long waitNs) {
    return new CustomTaskMetric[] {
      new Value(Rows.NAME, rows),
      new Value(Bytes.NAME, bytes),
      new Value(Batches.NAME, batches),
      new Value(CopiesAvoided.NAME, bytesInPlace),
      new Value(WaitTime.NAME, waitNs)
    };
  }

  private record Value(String name, long value) implements CustomTaskMetric {}

  /** Rows handed to Spark. */
  public static final class Rows extends CustomSumMetric {
    static final String NAME = "lwmqRows";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "rows read";
    }
  }

  /** Bytes of the columns that were read; those that were not are not counted. */
  public static final class Bytes extends CustomSumMetric implements ShownMetrics.InBytes {
    static final String NAME = "lwmqBytes";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "bytes read";
    }
  }

  /** Record batches. */
  public static final class Batches extends CustomSumMetric {
    static final String NAME = "lwmqBatches";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "record batches read";
    }
  }

  /** The bytes of {@link Bytes} that Spark read where the producer had laid them. */
  public static final class CopiesAvoided extends CustomSumMetric implements ShownMetrics.InBytes {
    static final String NAME = "lwmqCopiesAvoided";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "bytes read in place";
    }
  }

  /** Time that tasks spent waiting for the producer, summed over tasks. */
  public static final class WaitTime implements CustomMetric {
    static final String NAME = "lwmqWaitTime";

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String description() {
      return "time waited for batches";
    }

    @Override
    public String aggregateTaskMetrics(long[] waitNs) {
      return TimeUnit.NANOSECONDS.toMillis(Arrays.stream(waitNs).sum()) + " ms";
    }
  }
}
