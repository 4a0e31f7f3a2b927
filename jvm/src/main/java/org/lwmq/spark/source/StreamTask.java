package org.lwmq.spark.source;

import static java.util.stream.Collectors.joining;

import java.util.List;
import org.apache.spark.TaskContext;
import org.lwmq.core.Batch;
import org.lwmq.core.Deadline;
import org.lwmq.core.Identity;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Range;
import org.lwmq.core.Reader;
import org.lwmq.core.ReaderOptions;
import org.lwmq.core.Role;
import org.lwmq.core.Status;
import org.lwmq.core.StreamState;
import org.lwmq.core.WriterOptions;
import org.lwmq.spark.conf.Ack;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A task's conversation with the endpoint: opens the reader under the name that the driver will settle, waits so that
 * a killed task stops, and says at the end what was consumed. Executor; one thread at a time, but any thread stops.
 */
final class StreamTask implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(StreamTask.class);
  /** The endpoint answered a moment ago: a task does not wait for it as long as planning did. */
  private static final int OPEN_MS = 3000;
  private static final int SETTLE_MS = 5000;

  private final LwmqReaderFactory read;
  private final TaskContext context; // null in tests
  private final String name;
  private final Deadline deadline;
  private Reader reader; // null: closed
  private volatile boolean isStopped;
  private boolean isPending; // whether what was lent last is not consumed yet
  private long waitNs;

  StreamTask(LwmqReaderFactory read, LwmqInputPartition partition, TaskContext context) {
    this.read = read;
    this.context = context;
    this.name = ReaderNames.of(read.applicationId(), context, read.conf().ack());
    Notices notices = new Notices(
        "a task that reads " + read.conf().uri() + ", " + names(partition.ranges()),
        "A task reads until the stream ends: the option endingOffsets=latest reads what is there");
    this.deadline = cancellable(notices.of(Deadline.never()));
    checkReachable(read.conf().uri(), partition.endpoint());
    this.reader = open(partition.generation(), partition.ranges());
  }

  /**
   * The next batch, which the caller closes; null at the end. What came before is consumed by this call. INTERRUPTED: the task
   * was killed, or is over.
   */
  Batch next() {
    if (reader == null) {
      throw new LwmqException(Status.INTERRUPTED, "the task that reads " + read.conf().uri() + " is over");
    }
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

  /** Time spent waiting for batches. */
  long waitNs() {
    return waitNs;
  }

  /** Who waits for a batch gets INTERRUPTED, within a slice of the wait. */
  void stop() {
    isStopped = true;
  }

  /** Consumes the last batch if the task ended well. Twice is allowed. */
  @Override
  public void close() {
    if (reader == null) {
      return;
    }
    boolean endedWell = context == null || (!context.isFailed() && !context.isInterrupted());
    try {
      if (isPending && endedWell) {
        reader.consume();
      }
    } catch (LwmqException e) { // the endpoint went: what was read is right, and nobody is left to tell
      LOG.info("lwmq: the last batch of {} was not reported as consumed: {}", read.conf().uri(), e.getMessage());
    }
    reader.close();
    reader = null;
    if (read.conf().ack() == Ack.TASK && endedWell) {
      acknowledge();
    }
  }

  /** The endpoint may go because of it, before it has answered: its producer has only waited for this. */
  private void acknowledge() {
    try {
      StreamState.settle(read.conf().uri(), name, true, SETTLE_MS);
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
      return Reader.open(read.conf().uri(), options(settled, generation, ranges), opening);
    } catch (LwmqException e) {
      if (e.status() == Status.CLOSED) {
        throw gone(e);
      }
      if (e.status() == Status.TIMED_OUT) { // nobody is in its place: it lives, and was silent for all that time
        throw new LwmqException(Status.STALLED, e.getMessage());
      }
      if (e.status() != Status.DATA_LOSS || read.conf().failOnDataLoss()) {
        throw e;
      }
      LOG.warn("lwmq: {}; reading what is left, as failOnDataLoss=false asks", e.getMessage());
      List<Range> left = ranges.stream().map(r -> new Range(r.partition(), Range.EARLIEST, r.end())).toList();
      return Reader.open(read.conf().uri(), options(settled, null, left), opening);
    }
  }

  private static String names(List<Range> ranges) {
    return ranges.stream().map(range -> Integer.toString(range.partition()))
        .collect(joining(", ", ranges.size() == 1 ? "partition " : "partitions ", ""));
  }

  private Deadline cancellable(Deadline deadline) {
    return deadline.cancelledBy(
        () -> isStopped || (context != null && (context.isInterrupted() || context.isCompleted())));
  }

  /** The endpoint was there when the read was planned: what it kept went with it. */
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
        context == null ? 0 : context.taskAttemptId());
  }

  /** Memory does not cross hosts: a task that was put elsewhere fails at once, instead of waiting in vain. */
  private static void checkReachable(String uri, Identity endpoint) {
    Identity here = Identity.here();
    if (!here.bootId().equals(endpoint.bootId())) {
      throw new LwmqException(
          Status.ADDRESS, "the window of " + uri + " is on host " + endpoint.host() + ", this task runs on "
              + here.host() + ": an address of shared memory reaches one host only");
    }
    boolean isFile = uri.contains(":///"); // a socket file crosses network namespaces
    if (here.netns() != endpoint.netns() && !isFile) {
      throw new LwmqException(
          Status.ADDRESS, uri + " is served in network namespace " + endpoint.netns() + " of host " + endpoint.host()
              + ", this task runs in " + here.netns() + " on " + here.host()
              + ": share the namespace, or use ipc:///dir/name in a folder that both see");
    }
  }
}
