package org.lwmq.spark.write;

import java.util.Arrays;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.lwmq.spark.report.Failures;

/**
 * Spark's two-phase commit over a {@link WriteJob}. Driver.
 *
 * <p>Spark's commit coordinator stops most second attempts early. But the endpoint decides which attempt counts,
 * because Spark runs a task again if its executor died just after the commit, whatever the coordinator knows.
 */
final class LwmqBatchWrite implements BatchWrite {
  private final WriteJob job;
  private final Runnable check;
  private final SQLMetric rows;
  private long rowsOfTasks;

  /**
   * @param check refuses, just before the job opens, a query that would wait for itself
   * @param rows is set to the number of rows of the tasks that have committed; null: Spark counts them
   */
  LwmqBatchWrite(WriteJob job, Runnable check, SQLMetric rows) {
    this.job = job;
    this.check = check;
    this.rows = rows;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    return Failures.call(
        () -> {
          check.run();
          return job.open(info.numPartitions());
        });
  }

  @Override
  public boolean useCommitCoordinator() {
    return true;
  }

  /** Corrects the number of rows: Spark has just added the number of carriers that it has handed to the task. */
  @Override
  public void onDataWriterCommit(WriterCommitMessage message) {
    Failures.run(
        () -> {
          job.taskEnded();
          if (rows != null) {
            rowsOfTasks += TaskResult.of(message).rows();
            rows.set(rowsOfTasks);
          }
        });
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    Failures.run(() -> job.commit(Arrays.stream(messages).map(TaskResult::of).toList()));
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    job.abort("the Spark job that wrote it has failed");
  }
}
