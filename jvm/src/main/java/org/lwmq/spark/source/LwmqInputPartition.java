package org.lwmq.spark.source;

import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;
import org.lwmq.core.Identity;
import org.lwmq.core.Range;

/**
 * What one task reads, and from where. Made in the driver, used in an executor.
 *
 * @param generation of the endpoint when the read was planned: no other instance will do
 * @param endpoint where it runs
 * @param hosts where a task is best placed
 */
record LwmqInputPartition(String generation, Identity endpoint, List<Range> ranges, String[] hosts)
    implements InputPartition {

  @Override
  public String[] preferredLocations() {
    return hosts;
  }
}
