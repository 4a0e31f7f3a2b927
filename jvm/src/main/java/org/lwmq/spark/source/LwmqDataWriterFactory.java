package org.lwmq.spark.source;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.types.StructType;
import org.lwmq.core.Deadline;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Writer;
import org.lwmq.core.WriterOptions;
import org.lwmq.spark.batch.NullRules;
import org.lwmq.spark.conf.LwmqWriteConf;
import org.lwmq.spark.failure.Failures;

/** What the driver sends to the tasks of a write. Made in the driver; opens writers in the executors. */
final class LwmqDataWriterFactory implements DataWriterFactory {
  private final StructType schema;
  private final byte[] arrowSchema;
  private final NullRules nullRules;
  private final LwmqWriteConf conf;
  private final String job;

  LwmqDataWriterFactory(
      StructType schema, byte[] arrowSchema, NullRules nullRules, LwmqWriteConf conf, String job) {
    this.schema = schema;
    this.arrowSchema = arrowSchema;
    this.nullRules = nullRules;
    this.conf = conf;
    this.job = job;
  }

  /** A writer for attempt {@code taskId} (unique in the application) of task {@code partitionId}. */
  @Override
  public DataWriter<InternalRow> createWriter(int partitionId, long taskId) {
    TaskContext task = TaskContext.get();
    WriterOptions options = WriterOptions.client()
        .withDelivery(conf.delivery())
        .withMemory(conf.bufferBytes(), conf.windowBytes(), conf.stagingBytes())
        .withJob(job, 0)
        .withTask(partitionId, taskId)
        .withPatience(conf.stallMs(), conf.expelAfterMs());
    Notices notices = new Notices("task " + partitionId + " at the beginning of a write to " + conf.uri(), Notices.TIMEOUT);
    Deadline deadline = notices.of(
        Deadline.after(conf.timeoutMs()).cancelledBy(() -> task != null && task.isInterrupted()));
    try {
      return new LwmqDataWriter(
          Writer.open(conf.uri(), arrowSchema, options, deadline), task, schema, nullRules, conf, partitionId);
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }
}
