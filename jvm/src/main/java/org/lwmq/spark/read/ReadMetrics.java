package org.lwmq.spark.read;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.util.MetricUtils;
import org.lwmq.spark.report.ShownMetrics;

/** The metrics of a scan in the SQL tab, apart from the number of rows, which Spark counts itself. */
public final class ReadMetrics {
  private static final Bytes BYTES = new Bytes();
  private static final BytesCopied BYTES_COPIED = new BytesCopied();
  private static final BytesReceived BYTES_RECEIVED = new BytesReceived();
  private static final Batches BATCHES = new Batches();
  private static final BatchesSkipped BATCHES_SKIPPED = new BatchesSkipped();
  private static final WaitTime WAIT_TIME = new WaitTime();

  private ReadMetrics() {}

  static CustomMetric[] all() {
    return ShownMetrics.of(BYTES, BYTES_COPIED, BYTES_RECEIVED, BATCHES, BATCHES_SKIPPED, WAIT_TIME);
  }

  /** The values of one task so far. */
  static CustomTaskMetric[] values(
      long bytes, long bytesCopied, long bytesReceived, long batches, long batchesSkipped, long waitNs) {
    return new CustomTaskMetric[] {
      BYTES.of(bytes), BYTES_COPIED.of(bytesCopied), BYTES_RECEIVED.of(bytesReceived), BATCHES.of(batches),
      BATCHES_SKIPPED.of(batchesSkipped), WAIT_TIME.of(waitNs)
    };
  }

  /** Bytes of the columns that were read. Other columns do not count. */
  public static final class Bytes extends ShownMetrics.Metric {
    public Bytes() {
      super("lwmqBytes", "bytes read", MetricUtils.SIZE_METRIC());
    }
  }

  /** Those {@link Bytes} that Spark read from a copy, and not where the producer had laid them. The aim is 0. */
  public static final class BytesCopied extends ShownMetrics.Metric {
    public BytesCopied() {
      super("lwmqBytesCopiedOnRead", "bytes copied while reading", MetricUtils.SIZE_METRIC());
    }
  }

  /** Bytes of the batches that came over a network. The others were read where they lie, on this host. */
  public static final class BytesReceived extends ShownMetrics.Metric {
    public BytesReceived() {
      super("lwmqBytesReceived", "bytes received over a network", MetricUtils.SIZE_METRIC());
    }
  }

  public static final class Batches extends ShownMetrics.Metric {
    public Batches() {
      super("lwmqBatches", "record batches read", MetricUtils.SUM_METRIC());
    }
  }

  /** Batches that no row of could match the query's filters, as their bounds say: they were not looked at. */
  public static final class BatchesSkipped extends ShownMetrics.Metric {
    public BatchesSkipped() {
      super("lwmqBatchesSkipped", "record batches skipped", MetricUtils.SUM_METRIC());
    }
  }

  /** Time that tasks spent waiting for the producer. */
  public static final class WaitTime extends ShownMetrics.Metric {
    public WaitTime() {
      super("lwmqWaitTime", "time waited for batches", MetricUtils.NS_TIMING_METRIC());
    }
  }
}
