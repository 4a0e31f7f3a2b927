package org.lwmq.spark.source;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/**
 * What a write shows in the SQL tab. The classes are public and have a constructor without parameters because the tab
 * makes them anew by name; what travels from tasks is names and numbers.
 */
public final class WriteMetrics {
  static final String ROWS = "lwmqRowsWritten";
  static final String BATCHES = "lwmqBatchesWritten";
  static final String BYTES = "lwmqBytesWritten";
  static final String BYTES_COPIED = "lwmqBytesCopiedOnWrite";
  static final String WAIT_MS = "lwmqWriteWaitMs";

  private WriteMetrics() {}

  static CustomMetric[] supported() {
    return ShownMetrics.of(
        new RowsWritten(), new BatchesWritten(), new BytesWritten(), new BytesCopied(), new WaitTime());
  }

  static CustomTaskMetric value(String name, long value) {
    return new CustomTaskMetric() {
      @Override
      public String name() {
        return name;
      }

      @Override
      public long value() {
        return value;
      }
    };
  }

  /** Rows published, in row and in column form. */
  public static final class RowsWritten extends CustomSumMetric {
    @Override
    public String name() {
      return ROWS;
    }

    @Override
    public String description() {
      return "rows written to the stream";
    }
  }

  public static final class BatchesWritten extends CustomSumMetric {
    @Override
    public String name() {
      return BATCHES;
    }

    @Override
    public String description() {
      return "record batches written";
    }
  }

  public static final class BytesWritten extends CustomSumMetric implements ShownMetrics.InBytes {
    @Override
    public String name() {
      return BYTES;
    }

    @Override
    public String description() {
      return "bytes written";
    }
  }

  /** Payload bytes that did not go into the window at once; 0 is the aim. */
  public static final class BytesCopied extends CustomSumMetric implements ShownMetrics.InBytes {
    @Override
    public String name() {
      return BYTES_COPIED;
    }

    @Override
    public String description() {
      return "bytes copied while writing";
    }
  }

  public static final class WaitTime extends CustomSumMetric {
    @Override
    public String name() {
      return WAIT_MS;
    }

    @Override
    public String description() {
      return "time waited for readers (ms)";
    }
  }
}
