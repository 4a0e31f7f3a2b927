package org.lwmq.spark.write;

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
import org.lwmq.core.Delivery;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Writer;
import org.lwmq.spark.batch.BatchEncoder;
import org.lwmq.spark.batch.NullRules;
import org.lwmq.spark.conf.InvalidUtf8;
import org.lwmq.spark.conf.LwmqWriteConf;
import org.lwmq.spark.report.Failures;
import org.lwmq.spark.report.Notices;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One attempt at one task of a write. Executor, the thread of the task.
 *
 * <p>Rows become batches in the window of the task's own writer. They count when the endpoint says so at {@link
 * #commit}. An attempt that commits second succeeds as well, and reports the numbers of the winner.
 */
final class LwmqDataWriter implements DataWriter<InternalRow> {
  private static final Logger LOG = LoggerFactory.getLogger(LwmqDataWriter.class);
  private static final long BATCH_BYTES = 4L << 20;
  private static final String EXPEL_AFTER = "The option expelAfter bounds what a reader may keep a task waiting";
  private static final CustomTaskMetric[] NOTHING_NEW = {};

  private final Writer writer;
  private final LwmqWriteConf conf;
  private final int task;
  private final BooleanSupplier cancelled;
  private final WriterSink sink;
  private final BatchEncoder batches;
  private final boolean isLive;
  private long reportedBatches = -1;
  private boolean finished;

  /** Takes {@code writer}. {@code context} is null in unit tests. */
  LwmqDataWriter(
      Writer writer, TaskContext context, StructType schema, NullRules nullRules, LwmqWriteConf conf, int task) {
    this.writer = writer;
    this.conf = conf;
    this.task = task;
    this.cancelled = () -> context != null && context.isInterrupted();
    long batchBytes = conf.bufferBytes() == 0 ? BATCH_BYTES : conf.bufferBytes();
    this.sink = new WriterSink(writer, notices(EXPEL_AFTER).of(Deadline.never().cancelledBy(cancelled)));
    boolean repairs = conf.invalidUtf8() == InvalidUtf8.REPLACE;
    this.batches = new BatchEncoder(sink, schema, nullRules, batchBytes, repairs);
    this.isLive = conf.delivery() == Delivery.LIVE;
  }

  @Override
  public void write(InternalRow row) {
    Failures.run(() -> writeOne(row));
  }

  @Override
  public void writeAll(Iterator<InternalRow> input) {
    Failures.run(
        () -> {
          if (isLive) {
            writePromptly(input);
          }
          while (input.hasNext()) {
            InternalRow row = input.next();
            writeOne(row);
            if (!(row instanceof BatchCarrier)) {
              batches.writeAll(input); // a plan that gives one row gives rows alone
            }
          }
          batches.flush(); // Spark asks for the metrics a last time before it commits
        });
  }

  private void writePromptly(Iterator<InternalRow> input) {
    try (PromptRows rows = new PromptRows(batches::flushEarly)) {
      for (InternalRow row = rows.next(input); row != null; row = rows.next(input)) {
        writeOne(row);
      }
    }
  }

  private void writeOne(InternalRow row) {
    if (row instanceof BatchCarrier carrier) {
      batches.write(carrier.batch());
    } else {
      batches.write(row);
    }
  }

  @Override
  public WriterCommitMessage commit() {
    return Failures.call(
        () -> {
          batches.flush();
          Deadline deadline = notices(Notices.TIMEOUT).of(Deadline.after(conf.timeoutMs()).cancelledBy(cancelled));
          CommitResult result = writer.commit(deadline);
          finished = true;
          leave(deadline);
          return TaskResult.of(task, result).toMessage();
        });
  }

  /** Parts from the endpoint. A failure is only logged, because the task is committed. */
  private void leave(Deadline deadline) {
    try {
      writer.finish(deadline);
    } catch (LwmqException e) {
      LOG.info("after its commit, task {} could not part from {}: {}", task, conf.uri(), e.getMessage());
    }
  }

  @Override
  public void abort() {
    batches.close();
    if (finished) {
      return;
    }
    finished = true;
    Failures.run(() -> writer.abort("an attempt of task " + task + " has failed"));
  }

  @Override
  public void close() {
    batches.close();
    writer.close();
  }

  /** Empty while nothing has changed: Spark asks once in a hundred rows and processes every answer. */
  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    if (finished || sink.batches() == reportedBatches) {
      return NOTHING_NEW;
    }
    reportedBatches = sink.batches();
    return WriteMetrics.values(writer.statistics(), batches.bytesCopied());
  }

  private Notices notices(String advice) {
    return new Notices("task " + task + ", which writes to " + conf.uri(), advice);
  }
}
