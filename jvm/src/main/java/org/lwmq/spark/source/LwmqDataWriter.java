package org.lwmq.spark.source;

import java.util.Iterator;
import java.util.function.BooleanSupplier;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;
import org.lwmq.core.CommitResult;
import org.lwmq.core.Deadline;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Writer;
import org.lwmq.spark.batch.BatchEncoder;
import org.lwmq.spark.batch.NullRules;
import org.lwmq.spark.conf.InvalidUtf8;
import org.lwmq.spark.conf.LwmqWriteConf;
import org.lwmq.spark.failure.Failures;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One attempt of one task of a write. Executor; the task's thread.
 *
 * <p>Rows become batches in the window of the task's own writer; they count when the endpoint says so at
 * {@link #commit}. An attempt that comes second succeeds as well, and reports the winner's numbers.
 */
final class LwmqDataWriter implements DataWriter<InternalRow> {
  private static final Logger LOG = LoggerFactory.getLogger(LwmqDataWriter.class);
  private static final long BATCH_BYTES = 4L << 20;
  private static final String ROOM =
      "The option timeout bounds this wait, the option expelAfter what a reader may keep a task waiting";
  private static final CustomTaskMetric[] NOTHING_NEW = {};

  private final Writer writer;
  private final LwmqWriteConf conf;
  private final int task;
  private final BooleanSupplier cancelled;
  private final Notices room;
  private final BatchEncoder encoder;
  private final WriterSink sink;
  private long reportedBatches = -1;
  private boolean finished;

  /** Takes {@code writer}. {@code context} may be null outside a task. */
  LwmqDataWriter(
      Writer writer, TaskContext context, StructType schema, NullRules nullRules, LwmqWriteConf conf, int task) {
    this.writer = writer;
    this.conf = conf;
    this.task = task;
    this.cancelled = () -> context != null && context.isInterrupted();
    long batchBytes = conf.bufferBytes() == 0 ? BATCH_BYTES : conf.bufferBytes();
    this.room = notices(ROOM);
    this.sink = new WriterSink(writer, this::room);
    boolean repairs = conf.invalidUtf8() == InvalidUtf8.REPLACE;
    this.encoder = new BatchEncoder(sink, schema, nullRules, batchBytes, repairs);
  }

  @Override
  public void write(InternalRow row) {
    try {
      if (row instanceof BatchCarrier carrier) {
        encoder.write(carrier.batch());
      } else {
        encoder.write(row);
      }
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  @Override
  public void writeAll(Iterator<InternalRow> input) {
    while (input.hasNext()) {
      InternalRow row = input.next();
      write(row);
      if (!(row instanceof BatchCarrier)) {
        writeRows(input); // all of them are, if one is
      }
    }
    flush(); // before Spark asks for metrics the last time
  }

  @Override
  public WriterCommitMessage commit() {
    try {
      encoder.flush();
      Deadline deadline = notices(Notices.TIMEOUT).of(Deadline.after(conf.timeoutMs()).cancelledBy(cancelled));
      CommitResult result = writer.commit(deadline);
      finished = true;
      leave(deadline);
      return TaskResult.of(task, result).toMessage();
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  /** What is committed is done, whoever is still there to part from. */
  private void leave(Deadline deadline) {
    try {
      writer.finish(deadline);
    } catch (LwmqException e) {
      LOG.info("after its commit, task {} could not part from {}: {}", task, conf.uri(), e.getMessage());
    }
  }

  @Override
  public void abort() {
    encoder.close();
    if (finished) {
      return;
    }
    finished = true;
    try {
      writer.abort("an attempt of task " + task + " has failed");
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  @Override
  public void close() {
    encoder.close();
    writer.close();
  }

  /** Nothing while there is nothing new: Spark asks once in a hundred rows, and looks at every answer. */
  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    if (finished || sink.batches() == reportedBatches) {
      return NOTHING_NEW;
    }
    reportedBatches = sink.batches();
    Writer.Statistics now = writer.statistics();
    return WriteMetrics.values(now, encoder.bytesCopied());
  }

  private Deadline room() {
    Deadline deadline = conf.roomMs() < 0 ? Deadline.never() : Deadline.after(conf.roomMs());
    return room.of(deadline.cancelledBy(cancelled));
  }

  private Notices notices(String advice) {
    return new Notices("task " + task + " of a write to " + conf.uri(), advice);
  }

  private void flush() {
    try {
      encoder.flush();
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  private void writeRows(Iterator<InternalRow> input) {
    try {
      encoder.writeAll(input);
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }
}
