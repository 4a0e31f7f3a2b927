package org.lwmq.spark.source;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.lwmq.core.Identity;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Range;
import org.lwmq.spark.conf.Ack;
import org.lwmq.spark.failure.Failures;

/**
 * Cuts a scan into tasks. Driver only; a value, like its scan.
 *
 * <p>A finished stream gets one task per partition. One that is not finished gets at most as many tasks as can run at
 * once, each reading several partitions in order of arrival: a task that waited for a slot would hold up the writer
 * of the partitions it was to read. For the same reason several such scans of a query share the slots. A limit gets one
 * task: the first rows that come are the ones.
 */
record LwmqBatch(LwmqScan scan) implements Batch {

  @Override
  public InputPartition[] planInputPartitions() {
    try {
      SparkContext context = SparkContext.getOrCreate();
      if (scan.conf().ack() == Ack.QUERY) {
        LwmqSettlement.of(context).watch(scan.conf().uri());
      }
      StreamPositions positions = scan.positions();
      int slots = positions.isFinished() ? 1 : LiveReads.share(scan, slots(context), context);
      List<List<Range>> tasks = tasks(positions, slots);
      String[] hosts = hosts(positions.endpoint(), context);
      InputPartition[] partitions = new InputPartition[tasks.size()];
      for (int i = 0; i < partitions.length; i++) {
        partitions[i] = new LwmqInputPartition(positions.generation(), positions.endpoint(), tasks.get(i), hosts);
      }
      return partitions;
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new LwmqReaderFactory(
        scan.conf(), SparkContext.getOrCreate().applicationId(), scan.found(), scan.limit(),
        scan.positions().schemaBytes());
  }

  /**
   * Deals the ranges out. Empty ones need no task; but a read of nothing is one task that reads nothing, so that it is
   * a job that ends, and the producer hears that its empty stream was read.
   */
  private List<List<Range>> tasks(StreamPositions positions, int slots) {
    List<Range> ranges = positions.ranges().stream().filter(r -> r.end() == Range.END || r.start() < r.end()).toList();
    if (ranges.isEmpty()) {
      return List.of(positions.ranges());
    }
    int count = ranges.size();
    if (!positions.isFinished()) {
      count = Math.min(count, slots);
    }
    if (scan.limit() != LwmqScan.NO_LIMIT) {
      count = Math.min(count, 1);
    }
    List<List<Range>> tasks = new ArrayList<>();
    for (int task = 0; task < count; task++) {
      List<Range> mine = new ArrayList<>();
      for (int i = task; i < ranges.size(); i += count) {
        mine.add(ranges.get(i));
      }
      tasks.add(mine);
    }
    return tasks;
  }

  /** Tasks that can run at this moment, at least one. */
  private static int slots(SparkContext context) {
    return Math.max(1, context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()));
  }

  /**
   * Names of the host that has the window. Executors go by the name that the driver of their cluster knows, which need
   * not be what the host calls itself; a name that no executor has costs nothing.
   */
  private static String[] hosts(Identity endpoint, SparkContext context) {
    Set<String> names = new LinkedHashSet<>();
    names.add(endpoint.host());
    if (endpoint.bootId().equals(Identity.here().bootId())) {
      names.add(context.conf().get("spark.driver.host", endpoint.host()));
    }
    return names.toArray(String[]::new);
  }
}
