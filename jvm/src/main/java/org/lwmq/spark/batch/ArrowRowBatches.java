package org.lwmq.spark.batch;

import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;

/**
 * Builds batches with Spark's own ArrowWriter, for schemas with types that {@link RowBatches} does not lay out
 * (geometries, timestamps in nanoseconds): each payload byte is copied once more, and counted.
 */
final class ArrowRowBatches implements RowSink {
  /** Sizes are asked for once in so many rows: asking takes longer than storing a row. */
  private static final int ROWS_PER_LOOK = 64;

  private final BufferAllocator allocator;
  private final VectorSchemaRoot root;
  private final ArrowWriter writer;
  private final ArrowBatches batches;
  private final long batchBytes;
  private int rows;
  private boolean closed;

  ArrowRowBatches(BatchSink sink, StructType schema, NullRules nullRules, long batchBytes) {
    this.allocator = ArrowUtils.rootAllocator().newChildAllocator("lwmq-write", 0, Long.MAX_VALUE);
    this.root = VectorSchemaRoot.create(StreamSchema.arrow(schema), allocator);
    this.writer = ArrowWriter.create(root);
    this.batches = new ArrowBatches(sink, nullRules);
    this.batchBytes = batchBytes;
  }

  @Override
  public void write(InternalRow row) {
    writer.write(row);
    rows++;
    if (rows == BatchLayout.ROWS_MAX || (rows % ROWS_PER_LOOK == 0 && writer.sizeInBytes() >= batchBytes)) {
      flush();
    }
  }

  @Override
  public void flush() {
    if (rows > 0) {
      writer.finish();
      batches.write(root);
      writer.reset();
      rows = 0;
    }
  }

  @Override
  public long bytesCopied() {
    return batches.bytesCopied();
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      root.close();
      allocator.close();
    }
  }
}
