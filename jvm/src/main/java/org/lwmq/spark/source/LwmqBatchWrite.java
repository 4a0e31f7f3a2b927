package org.lwmq.spark.source;

import java.util.Arrays;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
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

  LwmqBatchWrite(String uri, WriteJob job) {
    this.uri = uri;
    this.job = job;
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
