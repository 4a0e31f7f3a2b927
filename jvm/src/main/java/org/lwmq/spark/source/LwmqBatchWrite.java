package org.lwmq.spark.source;

import java.util.Arrays;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.lwmq.core.LwmqException;
import org.lwmq.spark.failure.Failures;

/**
 * Spark's two-phase commit over a {@link WriteJob}. Driver.
 *
 * <p>Spark's commit coordinator spares most second attempts their work; it is the endpoint that decides, because a
 * task whose executor died just after its commit runs again whatever the coordinator knows.
 */
final class LwmqBatchWrite implements BatchWrite {
  private final String uri;
  private final WriteJob job;
  private final SQLMetric rows;
  private long rowsOfTasks;

  /** {@code rows} is set to the number of rows of the tasks that have committed, unless it is null. */
  LwmqBatchWrite(String uri, WriteJob job, SQLMetric rows) {
    this.uri = uri;
    this.job = job;
    this.rows = rows;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    try {
      OwnReads.check(uri);
      return job.open();
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  @Override
  public boolean useCommitCoordinator() {
    return true;
  }

  /** Spark has just added to its number of rows what it had handed to the task. */
  @Override
  public void onDataWriterCommit(WriterCommitMessage message) {
    try {
      if (rows != null) {
        rowsOfTasks += TaskResult.of(message).rows();
        rows.set(rowsOfTasks);
      }
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    try {
      job.commit(Arrays.stream(messages).map(TaskResult::of).toList());
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    job.abort("the Spark job that wrote it has failed");
  }
}
