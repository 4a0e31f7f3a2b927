package org.lwmq.spark.source;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.util.MetricUtils;
import org.lwmq.core.Writer;

/** What a write shows in the SQL tab, beside the number of its rows, which is Spark's. */
public final class WriteMetrics {
  private static final Batches BATCHES = new Batches();
  private static final Bytes BYTES = new Bytes();
  private static final BytesCopied BYTES_COPIED = new BytesCopied();
  private static final WaitTime WAIT_TIME = new WaitTime();

  private WriteMetrics() {}

  static CustomMetric[] all() {
    return ShownMetrics.of(BATCHES, BYTES, BYTES_COPIED, WAIT_TIME);
  }

  /** What one task has written so far. */
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

  /** Payload bytes that did not go into the window at once; 0 is the aim. */
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
