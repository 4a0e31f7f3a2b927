package org.lwmq.spark.source;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.types.StructType;
import org.lwmq.arrow.ArrowSchemas;
import org.lwmq.core.Deadline;
import org.lwmq.core.Endpoints;
import org.lwmq.core.Job;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Role;
import org.lwmq.core.TaskCommit;
import org.lwmq.core.WriterOptions;
import org.lwmq.spark.batch.NullRules;
import org.lwmq.spark.batch.StreamSchema;
import org.lwmq.spark.conf.LwmqWriteConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The driver's side of a write: one producer of the stream, whose tasks' commits are decided by the endpoint and
 * whose own commit ends it.
 *
 * <p>{@link #open}, then {@link #commit}; {@link #abort} after any failure. The loss of this process is an abort.
 * One thread.
 */
final class WriteJob {
  private static final Logger LOG = LoggerFactory.getLogger(WriteJob.class);

  private final StructType schema;
  private final LwmqWriteConf conf;
  private final String id;
  private final Notices notices;
  private Job job;

  /** {@code queryId} tells people which query it was; the job's name is never used twice. */
  WriteJob(StructType schema, LwmqWriteConf conf, String queryId) {
    this.schema = schema;
    this.conf = conf;
    this.id = "spark/" + queryId + "/" + UUID.randomUUID();
    this.notices = new Notices("the job that writes to " + conf.uri(), Notices.TIMEOUT);
  }

  /**
   * Declares the stream, or compares with what was declared; binds the address where nobody serves it, and makes the
   * stream where it is not there.
   *
   * @return what the tasks need
   */
  LwmqDataWriterFactory open() {
    try {
      byte[] bytes = ArrowSchemas.bytes(StreamSchema.declared(schema));
      Endpoints.ensureServed(conf.uri());
      WriterOptions options = WriterOptions.client()
          .withRole(Role.AUTO) // behind an address that another process serves, the job makes the stream
          .withStream(conf.partitions(), conf.retain(), conf.readers())
          .withDelivery(conf.delivery())
          .withJob(id, 0)
          .withPatience(conf.stallMs(), conf.expelAfterMs());
      job = Job.open(conf.uri(), bytes, options, deadline());
      Schema declared = ArrowSchemas.parse(job.schema());
      StreamSchema.check(conf.uri(), declared, schema);
      return new LwmqDataWriterFactory(schema, bytes, NullRules.of(declared), conf, id);
    } catch (LwmqException e) {
      abort(e.getMessage());
      throw e;
    }
  }

  /** Commits what {@code results} list and ends the producer; DATA_LOSS names a commit that the endpoint lacks. */
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

  /** Drops what is staged and ends the producer. Says nothing where the job never opened. */
  void abort(String reason) {
    if (job == null) {
      return;
    }
    try {
      job.abort(reason, conf.timeoutMs());
    } catch (LwmqException e) { // the first failure is the one that the user is told
      LOG.warn("aborting the job on {}: {}", conf.uri(), e.getMessage());
    }
    close();
  }

  private Deadline deadline() {
    return notices.of(Deadline.after(conf.timeoutMs()));
  }

  /** Parts from the endpoint. What was committed or aborted is decided, whoever is still there to part from. */
  private void close() {
    Job open = job;
    job = null;
    try {
      open.close();
    } catch (LwmqException e) {
      LOG.info("closing the job on {}: {}", conf.uri(), e.getMessage());
    }
  }
}
