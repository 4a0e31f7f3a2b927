package org.lwmq.spark.read;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.lwmq.core.Deadline;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Range;
import org.lwmq.core.Status;
import org.lwmq.core.StreamState;
import org.lwmq.spark.conf.Ack;
import org.lwmq.spark.conf.OwnProducers;
import org.lwmq.spark.report.Failures;

/**
 * Cuts a scan into tasks. Driver; a value, like its scan.
 *
 * <p>A finished stream gets one task per partition. An unfinished stream gets at most as many tasks as can run at once,
 * and each reads several partitions in order of arrival: a task that waited for a slot would hold up the writer of its
 * partitions. A job of this application that still writes the stream keeps the slots that it needs. A scan with a limit
 * gets one task, which takes the first rows that come.
 */
record LwmqBatch(LwmqScan scan) implements Batch {
  /** How long planning waits for a slot that a job of this application leaves free. */
  private static final int SLOT_MS = 4000;
  private static final int LOOK_MS = 100;

  @Override
  public InputPartition[] planInputPartitions() {
    return Failures.call(
        () -> {
          SparkContext context = SparkContext.getOrCreate();
          if (scan.conf().ack() == Ack.QUERY) {
            LwmqSettlement.of(context).watch(scan.conf().uri());
          }
          StreamPositions positions = scan.positions();
          List<List<Range>> tasks = tasks(positions, positions.isFinished() ? Integer.MAX_VALUE : slots(context));
          String[] hosts = positions.where().hosts();
          InputPartition[] partitions = new InputPartition[tasks.size()];
          for (int i = 0; i < partitions.length; i++) {
            partitions[i] = new LwmqInputPartition(positions.generation(), positions.where(), tasks.get(i), hosts);
          }
          return partitions;
        });
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new LwmqReaderFactory(
        scan.conf(), SparkContext.getOrCreate().applicationId(), scan.found(), scan.limit(), scan.filters(),
        scan.positions().schemaBytes());
  }

  /**
   * Deals the ranges out to tasks. Empty ranges need no task. But where all are empty there is one task that reads
   * nothing: then there is a job that ends, and the producer hears that its empty stream was read.
   */
  private List<List<Range>> tasks(StreamPositions positions, int slots) {
    List<Range> ranges = positions.ranges().stream().filter(r -> r.end() == Range.END || r.start() < r.end()).toList();
    if (ranges.isEmpty()) {
      return List.of(positions.ranges());
    }
    int count = Math.min(ranges.size(), slots);
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

  /**
   * How many tasks can run at this moment beside the job of this application that writes the stream, at least one.
   * INVALID, with both numbers: there is no slot for a reader, and the job has not ended within {@value #SLOT_MS} ms.
   */
  private int slots(SparkContext context) {
    String uri = scan.positions().uri();
    int slots = Math.max(1, context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()));
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(SLOT_MS);
    int needed = slotsNeeded(uri);
    while (needed >= slots) {
      if (System.nanoTime() > end || Thread.currentThread().isInterrupted()) {
        throw new LwmqException(
            Status.INVALID, "this application has " + slots + (slots == 1 ? " slot" : " slots") + ", and needs "
                + (needed + 1) + ": " + needed + " for its own job that still writes " + uri + ", and one for this read. "
                + "Give it more cores, give the job fewer partitions (coalesce), or read when the job has ended");
      }
      LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(LOOK_MS));
      needed = slotsNeeded(uri);
    }
    return slots - needed;
  }

  /** Of what Python workers write, only the endpoint knows the end. */
  private int slotsNeeded(String uri) {
    int needed = OwnProducers.slotsNeeded(uri);
    if (needed > 0) {
      StreamState state = StreamState.describe(uri, false, Deadline.after(scan.conf().timeoutMs()));
      if (state.state() == StreamState.State.ENDED) {
        OwnProducers.ended(uri);
        return OwnProducers.slotsNeeded(uri);
      }
    }
    return needed;
  }
}
