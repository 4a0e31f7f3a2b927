package org.lwmq.spark.source;

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * A whole column batch in the place of a row: how batches pass through Spark's row-only write tasks
 * ({@link ColumnBatchesExec}) to our {@link LwmqDataWriter}. Never leaves its task.
 */
final class BatchCarrier extends GenericInternalRow {
  private final transient ColumnarBatch batch;

  BatchCarrier(ColumnarBatch batch) {
    super(0);
    this.batch = batch;
  }

  ColumnarBatch batch() {
    return batch;
  }
}
