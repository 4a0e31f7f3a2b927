package org.lwmq.core;

/**
 * The options of a writer or a job. Zero and null mean the default of {@code lwmq_writer_options}. Immutable; the
 * {@code with} methods make changed copies.
 *
 * @param partitions of the stream, if this producer is the first to declare it
 * @param retain of the stream, if this producer is the first to declare it
 * @param readers of the stream, if this producer is the first to declare it
 * @param timeoutMs how long the endpoint may take to appear and to answer
 * @param bufferBytes the largest block by intent
 * @param windowBytes memory for batches that are not yet released
 * @param stagingBytes memory beyond the window, for batches that are not committed yet
 * @param job the job of which this writer is a task; null: the writer is a producer by itself
 * @param task the number of the task in the job
 * @param attempt distinguishes the attempts at a task
 * @param stallMs how long an endpoint that lives may leave a call without an answer; {@link #FOREVER}: without a limit
 * @param expelAfterMs how long a reader may keep this writer waiting before it is expelled; 0 and FOREVER: for ever
 */
public record WriterOptions(
    Role role, int partitions, Retain retain, int readers, Delivery delivery, int timeoutMs,
    long bufferBytes, long windowBytes, long stagingBytes,
    String job, int task, int jobTasks, long attempt, long epoch, int stallMs, int expelAfterMs) {

  /** No limit, as {@code LWMQ_FOREVER}. */
  public static final int FOREVER = -1;

  /** The options of a Spark task or job: it is a client, and everything else has its default. */
  public static WriterOptions client() {
    return new WriterOptions(Role.CLIENT, 0, Retain.UNTIL_ACKED, 0, Delivery.LIVE, 0, 0, 0, 0, null, 0, 0, 0, 0, 0, 0);
  }

  /** The numbers as they cross to the native side, with {@code timeoutMs} for this call. The job crosses apart. */
  long[] fields(int timeoutMs) {
    return new long[] {
      role.ordinal(), partitions, retain.ordinal(), readers, delivery.ordinal(), Math.max(1, timeoutMs), bufferBytes,
      windowBytes, stagingBytes, task, jobTasks, attempt, epoch, stallMs, expelAfterMs
    };
  }

  public WriterOptions withStream(int newPartitions, Retain newRetain, int newReaders) {
    return new WriterOptions(
        role, newPartitions, newRetain, newReaders, delivery, timeoutMs, bufferBytes, windowBytes, stagingBytes,
        job, task, jobTasks, attempt, epoch, stallMs, expelAfterMs);
  }

  public WriterOptions withDelivery(Delivery newDelivery) {
    return new WriterOptions(
        role, partitions, retain, readers, newDelivery, timeoutMs, bufferBytes, windowBytes, stagingBytes,
        job, task, jobTasks, attempt, epoch, stallMs, expelAfterMs);
  }

  public WriterOptions withMemory(long newBufferBytes, long newWindowBytes, long newStagingBytes) {
    return new WriterOptions(
        role, partitions, retain, readers, delivery, timeoutMs, newBufferBytes, newWindowBytes, newStagingBytes,
        job, task, jobTasks, attempt, epoch, stallMs, expelAfterMs);
  }

  public WriterOptions withJob(String newJob, long newEpoch) {
    return new WriterOptions(
        role, partitions, retain, readers, delivery, timeoutMs, bufferBytes, windowBytes, stagingBytes,
        newJob, task, jobTasks, attempt, newEpoch, stallMs, expelAfterMs);
  }

  public WriterOptions withTask(int newTask, long newAttempt) {
    return new WriterOptions(
        role, partitions, retain, readers, delivery, timeoutMs, bufferBytes, windowBytes, stagingBytes,
        job, newTask, jobTasks, newAttempt, epoch, stallMs, expelAfterMs);
  }

  public WriterOptions withPatience(int newStallMs, int newExpelAfterMs) {
    return new WriterOptions(
        role, partitions, retain, readers, delivery, timeoutMs, bufferBytes, windowBytes, stagingBytes,
        job, task, jobTasks, attempt, epoch, newStallMs, newExpelAfterMs);
  }
}
