package org.lwmq.core;

import java.util.List;

/**
 * Options of a reader; zero and null mean the default of {@code lwmq_reader_options}.
 *
 * @param settled batches are acknowledged by {@link StreamState#settle} instead of by being consumed
 * @param follow go on after the end of the stream, with its next producer
 * @param writers the stream has not ended before that many producers have come
 * @param credit batches handed over ahead of their use
 * @param name counts once per batch; null: a name of its own
 * @param generation 32 hex digits; DATA_LOSS if the endpoint's is another. Null: any
 * @param keepMapped the writers' windows stay mapped 10 s longer, for the next reader of this process
 * @param ranges null: every partition, from the earliest to the end
 * @param stallMs as in {@link WriterOptions}
 * @param task what the reader is an attempt at; null: nothing. An attempt that needs a batch which was released gets
 *     SUPERSEDED while another attempt at the task reads, else DATA_LOSS
 * @param attempt which one
 * @param job not null: what {@code tasks} of this job have committed in the partitions of {@code ranges}, and then the end
 * @param tasks of the job, by number; DATA_LOSS if one has not committed
 */
public record ReaderOptions(
    Role role, boolean settled, boolean follow, int writers, int credit, String name, String generation,
    boolean keepMapped, List<Range> ranges, int stallMs, String task, long attempt, String job,
    List<Long> tasks) {

  /** All of a stream's options, without a job. */
  public ReaderOptions(
      Role role, boolean settled, boolean follow, int writers, int credit, String name, String generation,
      boolean keepMapped, List<Range> ranges, int stallMs, String task, long attempt) {
    this(role, settled, follow, writers, credit, name, generation, keepMapped, ranges, stallMs, task, attempt, null, null);
  }

  /** What {@code tasks} of {@code job} have committed in {@code ranges}, whose numbers are not looked at. */
  public static ReaderOptions ofTasks(String name, List<Range> ranges, String job, List<Long> tasks) {
    return new ReaderOptions(Role.CLIENT, false, false, 0, 0, name, null, true, ranges, 0, null, 0, job, tasks);
  }
}
