package org.lwmq.spark.write;

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * A whole column batch in the place of a row. So batches of {@link ColumnBatchesExec} pass through Spark's write tasks,
 * which know rows only, to {@link LwmqDataWriter}. Never leaves its task.
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
