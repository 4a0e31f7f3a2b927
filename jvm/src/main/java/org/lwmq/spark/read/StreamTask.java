package org.lwmq.spark.read;

import static java.util.stream.Collectors.joining;

import java.util.List;
import org.apache.spark.TaskContext;
import org.lwmq.core.Batch;
import org.lwmq.core.Deadline;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Range;
import org.lwmq.core.Reader;
import org.lwmq.core.ReaderOptions;
import org.lwmq.core.Role;
import org.lwmq.core.Status;
import org.lwmq.core.StreamState;
import org.lwmq.core.WriterOptions;
import org.lwmq.spark.conf.Ack;
import org.lwmq.spark.report.Notices;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The conversation of a task with the endpoint: opens the reader under the name that the driver settles, stops waiting
 * when the task is killed, and reports at the end what was consumed. Executor, one task thread.
 */
final class StreamTask implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(StreamTask.class);
  /** A task waits less long than planning did, because the endpoint answered a moment ago. */
  private static final int OPEN_MS = 3000;
  private static final int SETTLE_MS = 5000;

  private final LwmqReaderFactory read;
  private final TaskContext context; // null in unit tests
  private final String address; // the one of the stream's that this process reaches
  private final String name;
  private final Deadline deadline;
  private Reader reader;
  private boolean isPending; // whether the last batch is not consumed yet
  private long waitNs;
  private Reader.Statistics statistics;

  StreamTask(LwmqReaderFactory read, LwmqInputPartition partition, TaskContext context) {
    this.read = read;
    this.context = context;
    this.name = ReaderNames.of(read.applicationId(), context, read.conf().ack());
    Notices notices = new Notices(
        "a task that reads " + read.conf().uri() + ", " + names(partition.ranges()),
        "A task reads until the stream ends: the option endingOffsets=latest reads what is there");
    this.deadline = cancellable(notices.of(Deadline.never()));
    this.address = partition.where().reach();
    this.reader = open(partition.generation(), partition.ranges());
  }

  /** The next batch, which the caller closes; null at the end. This call consumes the batch before. */
  Batch next() {
    long begin = System.nanoTime();
    try {
      Batch batch = reader.next(deadline);
      isPending = batch != null;
      return batch;
    } catch (LwmqException e) {
      if (e.status() == Status.DATA_LOSS && !read.conf().failOnDataLoss()) {
        LOG.warn("lwmq: {} ends early, as failOnDataLoss=false asks: {}", read.conf().uri(), e.getMessage());
        isPending = false;
        return null;
      }
      throw e;
    } finally {
      waitNs += System.nanoTime() - begin;
    }
  }

  /** The time that was spent waiting for batches. */
  long waitNs() {
    return waitNs;
  }

  /** Of the reader, so far. */
  Reader.Statistics statistics() {
    if (reader != null) {
      statistics = reader.statistics();
    }
    return statistics;
  }

  /** Consumes the last batch if the task has ended well. Twice is allowed. */
  @Override
  public void close() {
    if (reader == null) {
      return;
    }
    statistics();
    boolean endedWell = context == null || (!context.isFailed() && !context.isInterrupted());
    try {
      if (isPending && endedWell) {
        reader.consume();
      }
    } catch (LwmqException e) { // the endpoint has gone: what was read is right, and nobody is left who could be told
      LOG.info("lwmq: the last batch of {} was not reported as consumed: {}", read.conf().uri(), e.getMessage());
    }
    reader.close();
    reader = null;
    if (read.conf().ack() == Ack.TASK && endedWell) {
      acknowledge();
    }
  }

  /** The endpoint may end before it answers, because its producer has only waited for this acknowledgement. */
  private void acknowledge() {
    try {
      StreamState.settle(address, name, true, SETTLE_MS);
    } catch (LwmqException e) {
      if (e.status() != Status.PEER_LOST && e.status() != Status.CLOSED) {
        throw e;
      }
      LOG.info("lwmq: nobody is left at {} who could say that {} has acknowledged: {}", read.conf().uri(), name, e.getMessage());
    }
  }

  private Reader open(String generation, List<Range> ranges) {
    boolean settled = read.conf().ack() != Ack.BATCH;
    boolean waitsOn = read.conf().stallMs() == WriterOptions.FOREVER;
    int openMs = waitsOn ? read.conf().timeoutMs() : Math.min(read.conf().timeoutMs(), OPEN_MS);
    Notices notices = new Notices("a task that is about to read " + read.conf().uri(), Notices.TIMEOUT);
    Deadline opening = cancellable(notices.of(Deadline.after(openMs)));
    try {
      return Reader.open(address, options(settled, generation, ranges), opening);
    } catch (LwmqException e) {
      if (e.status() == Status.CLOSED) {
        throw gone(e);
      }
      if (e.status() == Status.TIMED_OUT) { // nobody else serves the address: the endpoint lives, and was silent
        throw new LwmqException(Status.STALLED, e.getMessage());
      }
      if (e.status() != Status.DATA_LOSS || read.conf().failOnDataLoss()) {
        throw e;
      }
      LOG.warn("lwmq: {}; reading what is left, as failOnDataLoss=false asks", e.getMessage());
      List<Range> left = ranges.stream().map(r -> new Range(r.partition(), Range.EARLIEST, r.end())).toList();
      return Reader.open(address, options(settled, null, left), opening);
    }
  }

  private static String names(List<Range> ranges) {
    return ranges.stream().map(range -> Integer.toString(range.partition()))
        .collect(joining(", ", ranges.size() == 1 ? "partition " : "partitions ", ""));
  }

  private Deadline cancellable(Deadline deadline) {
    return context == null ? deadline : deadline.cancelledBy(context::isInterrupted);
  }

  /** The error for an endpoint that was there when the read was planned and has gone, with its batches. */
  private LwmqException gone(LwmqException why) {
    return new LwmqException(
        Status.DATA_LOSS, "the endpoint of " + read.conf().uri() + " that this read was planned for is gone, and its "
            + "batches with it (" + why.getMessage() + "). A plan that reads a stream twice (orderBy, a second action) "
            + "needs somebody who keeps it: an endpoint or a reader apart from the producer, or .cache() in Spark");
  }

  private ReaderOptions options(boolean settled, String generation, List<Range> ranges) {
    return new ReaderOptions(
        Role.CLIENT, settled, false, read.conf().writers(), 0, name, generation, true, ranges,
        read.conf().stallMs(), context == null ? null : ReaderNames.ofTask(read.applicationId(), context),
        context == null ? 0 : context.taskAttemptId(), read.columns().names(), read.filters());
  }
}
