package org.lwmq.spark.source;

import java.nio.ByteBuffer;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.lwmq.core.CommitResult;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.core.TaskCommit;

/**
 * What a task tells the driver about its commit: whose attempt counts, and how much that was. Made in the task, read
 * in the driver.
 *
 * <p>Travels as a message class of Spark's own that carries bytes: a class of ours in a task's result could not be
 * read by a driver whose jar was added to the running session.
 *
 * @param task partition of the job
 * @param partition of the stream
 * @param attempt of the winner, as {@code batches}, {@code rows} and {@code bytes} are
 */
record TaskResult(int task, int partition, long attempt, long batches, long rows, long bytes) {
  private static final byte FORMAT = 1;
  private static final int BYTES = 1 + 2 * Integer.BYTES + 4 * Long.BYTES;

  static TaskResult of(int task, CommitResult commit) {
    return new TaskResult(
        task, commit.partition(), commit.attempt(), commit.batches(), commit.rows(), commit.bytes());
  }

  /** VERSION where it is none that this jar writes. */
  static TaskResult of(WriterCommitMessage carrier) {
    byte[] message = ((PythonWriterCommitMessage) carrier).pickledMessage();
    ByteBuffer in = ByteBuffer.wrap(message);
    if (message.length != BYTES || in.get() != FORMAT) {
      throw new LwmqException(Status.VERSION, "a commit message of " + message.length
          + " bytes is not ours: driver and executors run different versions of lwmq-spark.jar");
    }
    return new TaskResult(in.getInt(), in.getInt(), in.getLong(), in.getLong(), in.getLong(), in.getLong());
  }

  WriterCommitMessage toMessage() {
    return new PythonWriterCommitMessage(
        ByteBuffer.allocate(BYTES).put(FORMAT).putInt(task).putInt(partition)
            .putLong(attempt).putLong(batches).putLong(rows).putLong(bytes).array());
  }

  TaskCommit toTaskCommit() {
    return new TaskCommit(task, partition, attempt, batches);
  }
}
