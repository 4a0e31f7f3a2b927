package org.lwmq.spark.source;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.util.MetricUtils;

/** What a scan shows in the SQL tab, beside the number of its rows, which Spark counts itself. */
public final class ReadMetrics {
  private static final Bytes BYTES = new Bytes();
  private static final BytesCopied BYTES_COPIED = new BytesCopied();
  private static final Batches BATCHES = new Batches();
  private static final WaitTime WAIT_TIME = new WaitTime();

  private ReadMetrics() {}

  static CustomMetric[] all() {
    return ShownMetrics.of(BYTES, BYTES_COPIED, BATCHES, WAIT_TIME);
  }

  /** What one task has read so far. */
  static CustomTaskMetric[] values(long bytes, long bytesCopied, long batches, long waitNs) {
    return new CustomTaskMetric[] {
      BYTES.of(bytes), BYTES_COPIED.of(bytesCopied), BATCHES.of(batches), WAIT_TIME.of(waitNs)
    };
  }

  /** Bytes of the columns that were read; those that were not are not counted. */
  public static final class Bytes extends ShownMetrics.Metric {
    public Bytes() {
      super("lwmqBytes", "bytes read", MetricUtils.SIZE_METRIC());
    }
  }

  /** Those of {@link Bytes} that Spark did not read where the producer had laid them; 0 is the aim. */
  public static final class BytesCopied extends ShownMetrics.Metric {
    public BytesCopied() {
      super("lwmqBytesCopiedOnRead", "bytes copied while reading", MetricUtils.SIZE_METRIC());
    }
  }

  public static final class Batches extends ShownMetrics.Metric {
    public Batches() {
      super("lwmqBatches", "record batches read", MetricUtils.SUM_METRIC());
    }
  }

  /** Time that tasks spent waiting for the producer. */
  public static final class WaitTime extends ShownMetrics.Metric {
    public WaitTime() {
      super("lwmqWaitTime", "time waited for batches", MetricUtils.NS_TIMING_METRIC());
    }
  }
}
