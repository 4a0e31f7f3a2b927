package org.lwmq.spark.read;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.HasPartitionKey;
import org.lwmq.core.Range;
import org.lwmq.spark.conf.TaskAddress;

/**
 * What one task reads, and from where. Made in the driver, used in an executor.
 *
 * @param generation of the endpoint when the read was planned; the task reads from no other one
 * @param where the task finds the stream
 * @param hosts where the task should preferably run
 */
record LwmqInputPartition(String generation, TaskAddress where, List<Range> ranges, String[] hosts)
    implements HasPartitionKey {

  /** The bucket of all rows, where the scan reports buckets: then there is one range. */
  @Override
  public InternalRow partitionKey() {
    return new GenericInternalRow(new Object[] {ranges.get(0).partition()});
  }

  @Override
  public String[] preferredLocations() {
    return hosts;
  }
}
