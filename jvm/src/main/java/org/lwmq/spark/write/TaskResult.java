package org.lwmq.spark.write;

import java.nio.ByteBuffer;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.lwmq.core.CommitResult;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.core.TaskCommit;

/**
 * What a task reports to the driver about its commit: which attempt counts, and how much it has written. Made in the
 * task, read in the driver.
 *
 * <p>It crosses as the bytes in a message class of Spark. A driver whose jar was added to a running session could not
 * deserialize a class of this jar.
 *
 * @param task the number of the task in the job
 * @param partition the partition of the stream
 * @param attempt the attempt that has won; the following numbers are those of the winner, too
 */
record TaskResult(int task, int partition, long attempt, long batches, long rows, long bytes) {
  private static final byte FORMAT = 1;
  private static final int BYTES = 1 + 2 * Integer.BYTES + 4 * Long.BYTES;

  static TaskResult of(int task, CommitResult commit) {
    return new TaskResult(
        task, commit.partition(), commit.attempt(), commit.batches(), commit.rows(), commit.bytes());
  }

  /** VERSION: the message is none that this version of the jar writes. */
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
