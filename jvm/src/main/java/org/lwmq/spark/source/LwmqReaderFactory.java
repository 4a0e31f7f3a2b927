package org.lwmq.spark.source;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.lwmq.core.LwmqException;
import org.lwmq.spark.conf.LwmqReadConf;
import org.lwmq.spark.failure.Failures;

/**
 * Opens readers in executors.
 *
 * @param applicationId part of the readers' name
 * @param columns what Spark wants, in its order; metadata columns among them
 * @param limit rows after which a task may stop; negative: none
 * @param schemaBytes the stream's schema when the read was planned
 */
record LwmqReaderFactory(LwmqReadConf conf, String applicationId, StreamColumns columns, int limit, byte[] schemaBytes)
    implements PartitionReaderFactory {

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    try {
      return new LwmqColumnarReader(this, (LwmqInputPartition) partition);
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new LwmqRowReader(createColumnarReader(partition));
  }
}
