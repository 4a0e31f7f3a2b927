package org.lwmq.spark.write;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.types.StructType;
import org.lwmq.core.Deadline;
import org.lwmq.core.Writer;
import org.lwmq.core.WriterOptions;
import org.lwmq.spark.batch.NullRules;
import org.lwmq.spark.conf.LwmqWriteConf;
import org.lwmq.spark.conf.TaskAddress;
import org.lwmq.spark.report.Failures;
import org.lwmq.spark.report.Notices;

/** Opens the writers of a write's tasks. Made in the driver, sent to the executors. */
final class LwmqDataWriterFactory implements DataWriterFactory {
  private final StructType schema;
  private final byte[] arrowSchema;
  private final NullRules nullRules;
  private final LwmqWriteConf conf;
  private final TaskAddress where;
  private final String job;

  LwmqDataWriterFactory(
      StructType schema, byte[] arrowSchema, NullRules nullRules, LwmqWriteConf conf, TaskAddress where, String job) {
    this.schema = schema;
    this.arrowSchema = arrowSchema;
    this.nullRules = nullRules;
    this.conf = conf;
    this.where = where;
    this.job = job;
  }

  /** A writer for the attempt {@code taskId}, which is unique in the application, at task {@code partitionId}. */
  @Override
  public DataWriter<InternalRow> createWriter(int partitionId, long taskId) {
    TaskContext task = TaskContext.get();
    WriterOptions options = WriterOptions.client()
        .withDelivery(conf.delivery())
        .withMemory(conf.bufferBytes(), conf.windowBytes(), conf.stagingBytes())
        .withJob(job, 0)
        .withTask(partitionId, taskId)
        .withPatience(conf.stallMs(), conf.expelAfterMs());
    Notices notices = new Notices("task " + partitionId + ", which is about to write to " + conf.uri(), Notices.TIMEOUT);
    Deadline deadline = notices.of(
        Deadline.after(conf.timeoutMs()).cancelledBy(() -> task != null && task.isInterrupted()));
    return Failures.call(
        () -> {
          Writer writer = Writer.open(where.reach(), arrowSchema, options, deadline);
          return new LwmqDataWriter(writer, task, schema, nullRules, conf, partitionId);
        });
  }
}
