package org.lwmq.spark.write;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.types.StructType;
import org.lwmq.arrow.ArrowSchemas;
import org.lwmq.core.Deadline;
import org.lwmq.core.Delivery;
import org.lwmq.core.Job;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.core.StreamState;
import org.lwmq.core.TaskCommit;
import org.lwmq.core.WriterOptions;
import org.lwmq.spark.batch.NullRules;
import org.lwmq.spark.batch.StreamSchema;
import org.lwmq.spark.conf.LwmqWriteConf;
import org.lwmq.spark.conf.OwnProducers;
import org.lwmq.spark.conf.TaskAddress;
import org.lwmq.spark.report.Notices;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The job of a write: one producer of the stream, which ends with the commit of the job. The endpoint decides which
 * attempts of its tasks count. Driver, one thread.
 *
 * <p>Call {@link #open}, then {@link #commit}, or {@link #abort} after a failure. The loss of this process is an abort.
 */
final class WriteJob {
  private static final Logger LOG = LoggerFactory.getLogger(WriteJob.class);

  private final StructType schema;
  private LwmqWriteConf conf; // from open on with the address that tasks are told
  private final String id;
  private final Notices notices;
  private Job job;
  private OwnProducers producer; // null: not open

  /** {@code queryId} tells people which query it is. The name of the job has more, and is never used twice. */
  WriteJob(StructType schema, LwmqWriteConf conf, String queryId) {
    this.schema = schema;
    this.conf = conf;
    this.id = "spark/" + queryId + "/" + UUID.randomUUID();
    this.notices = new Notices("the job that writes to " + conf.uri(), Notices.TIMEOUT);
  }

  /**
   * Declares the stream, or compares with the schema that was declared. Binds the address if nobody serves it.
   *
   * @param tasks how many the job has
   * @return the factory of the tasks' writers
   */
  LwmqDataWriterFactory open(int tasks) {
    try {
      byte[] bytes = ArrowSchemas.bytes(StreamSchema.declared(schema, conf.partitionKey(), conf.bounds()));
      String given = conf.uri();
      conf = conf.at(TaskAddress.serve(given));
      producer = OwnProducers.open(conf.uri(), tasks, conf.delivery() == Delivery.LIVE);
      WriterOptions options = WriterOptions.client()
          .withStream(conf.partitions(), conf.retain(), conf.readers())
          .withDelivery(conf.delivery())
          .withJob(id, 0)
          .withPatience(conf.stallMs(), conf.expelAfterMs());
      job = Job.open(conf.uri(), bytes, options, deadline());
      Schema declared = ArrowSchemas.parse(job.schema());
      StreamSchema.check(conf.uri(), declared, schema);
      StreamState state = StreamState.describe(conf.uri(), false, deadline());
      checkKey(StreamSchema.partitionKey(declared), state.partitions().size(), tasks);
      TaskAddress where = TaskAddress.of(given, conf.announce(), conf.settings(), state);
      return new LwmqDataWriterFactory(schema, bytes, NullRules.of(declared), conf, where, id);
    } catch (LwmqException e) {
      abort(e.getMessage());
      throw e;
    }
  }

  /** SCHEMA, unless the tasks have the rows that the stream wants in their partitions. */
  private void checkKey(String declared, int partitions, int tasks) {
    boolean same = Objects.equals(declared, conf.partitionKey());
    if (!same || (declared != null && partitions != conf.partitionCount())) {
      throw new LwmqException(Status.SCHEMA, "the stream at " + conf.uri() + " has " + partitions + " partitions and "
          + (declared == null ? "no partition key" : "the partition key " + declared) + ", but this write says partitions="
          + conf.partitionCount() + (conf.partitionKey() == null ? "" : " and partitionKey=" + conf.partitionKey())
          + ": give it the same options, or write to the table of the stream in the catalog, which has them");
    }
    if (declared != null && tasks > 1 && tasks != partitions) { // one task: Spark has planned that there are no rows
      throw new LwmqException(Status.INVALID, "Spark writes " + tasks + " tasks to the " + partitions + " partitions of "
          + conf.uri() + ", which has the partition key " + declared);
    }
  }

  /** A task has committed, and needs its slot no more. */
  void taskEnded() {
    producer.taskEnded();
  }

  /** Commits the tasks of {@code results} and ends the producer. DATA_LOSS names a task that the endpoint lacks. */
  void commit(List<TaskResult> results) {
    List<TaskCommit> tasks = new ArrayList<>();
    long rows = 0;
    long batches = 0;
    for (TaskResult result : results) {
      tasks.add(result.toTaskCommit());
      rows += result.rows();
      batches += result.batches();
    }
    job.commit(0, tasks, deadline());
    close();
    LOG.info("wrote {} rows in {} batches of {} tasks to {}", rows, batches, tasks.size(), conf.uri());
  }

  /** Drops the staged batches and ends the producer. Does nothing if the job was never opened. */
  void abort(String reason) {
    if (job == null) {
      leave();
      return;
    }
    try {
      job.abort(reason, conf.timeoutMs());
    } catch (LwmqException e) { // the user is told the first failure
      LOG.warn("aborting the job on {}: {}", conf.uri(), e.getMessage());
    }
    close();
  }

  private Deadline deadline() {
    return notices.of(Deadline.after(conf.timeoutMs()));
  }

  /** Parts from the endpoint. A failure is only logged, because the job is committed or aborted. */
  private void close() {
    leave();
    Job open = job;
    job = null;
    try {
      open.close();
    } catch (LwmqException e) {
      LOG.info("closing the job on {}: {}", conf.uri(), e.getMessage());
    }
  }

  private void leave() {
    if (producer != null) {
      producer.close(conf.uri());
    }
  }
}
