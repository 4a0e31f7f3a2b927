package org.lwmq.spark.write;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.util.MetricUtils;
import org.lwmq.core.Writer;
import org.lwmq.spark.report.ShownMetrics;

/** The metrics of a write in the SQL tab, apart from the number of rows, which Spark counts. */
public final class WriteMetrics {
  private static final Batches BATCHES = new Batches();
  private static final Bytes BYTES = new Bytes();
  private static final BytesCopied BYTES_COPIED = new BytesCopied();
  private static final WaitTime WAIT_TIME = new WaitTime();

  private WriteMetrics() {}

  static CustomMetric[] all() {
    return ShownMetrics.of(BATCHES, BYTES, BYTES_COPIED, WAIT_TIME);
  }

  /** The values of one task so far. */
  static CustomTaskMetric[] values(Writer.Statistics now, long bytesCopied) {
    return new CustomTaskMetric[] {
      BATCHES.of(now.batches()), BYTES.of(now.bytes()), BYTES_COPIED.of(bytesCopied), WAIT_TIME.of(now.waitNs())
    };
  }

  public static final class Batches extends ShownMetrics.Metric {
    public Batches() {
      super("lwmqBatchesWritten", "record batches written", MetricUtils.SUM_METRIC());
    }
  }

  public static final class Bytes extends ShownMetrics.Metric {
    public Bytes() {
      super("lwmqBytesWritten", "bytes written", MetricUtils.SIZE_METRIC());
    }
  }

  /** Payload bytes that were copied before they reached the window. The aim is 0. */
  public static final class BytesCopied extends ShownMetrics.Metric {
    public BytesCopied() {
      super("lwmqBytesCopiedOnWrite", "bytes copied while writing", MetricUtils.SIZE_METRIC());
    }
  }

  public static final class WaitTime extends ShownMetrics.Metric {
    public WaitTime() {
      super("lwmqWriteWaitTime", "time waited for readers", MetricUtils.NS_TIMING_METRIC());
    }
  }
}
