package org.lwmq.spark.read;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.lwmq.core.Filter;
import org.lwmq.spark.conf.LwmqReadConf;
import org.lwmq.spark.report.Failures;

/**
 * Opens readers in executors.
 *
 * @param applicationId a part of the readers' names
 * @param columns the columns that Spark wants, in its order, with metadata columns
 * @param limit rows after which a task may stop; negative: no limit
 * @param filters the residual filters of Spark that batches can be passed over by
 * @param schemaBytes the schema of the stream when the read was planned
 */
record LwmqReaderFactory(
    LwmqReadConf conf, String applicationId, StreamColumns columns, int limit, List<Filter> filters, byte[] schemaBytes)
    implements PartitionReaderFactory {

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return Failures.call(() -> new LwmqColumnarReader(this, (LwmqInputPartition) partition));
  }

  /** Never called, because all partitions are columnar: Spark makes rows of the vectors where it needs them. */
  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("a stream is read in columns");
  }
}
