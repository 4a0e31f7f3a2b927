package org.lwmq.core;

/**
 * Options of a writer or a job; zero and null mean the default of {@code lwmq_writer_options}. Immutable; the
 * {@code with} methods make changed copies.
 *
 * @param partitions when this producer is the first to declare the stream; so are retain and readers
 * @param timeoutMs for the endpoint to appear and answer
 * @param bufferBytes the largest block by intent
 * @param windowBytes memory for batches that are not yet released
 * @param stagingBytes beyond the window, for batches not yet committed
 * @param job the job this writer is a task of; null: a producer by itself
 * @param task partition of the job
 * @param attempt distinguishes the attempts of a task
 * @param stallMs how long an endpoint that lives may leave us without an answer; {@link #FOREVER}: it is waited for
 * @param expelAfterMs readers that keep this writer waiting for so long are expelled; 0 and FOREVER: never
 */
public record WriterOptions(
    Role role, int partitions, Retain retain, int readers, Delivery delivery, int timeoutMs,
    long bufferBytes, long windowBytes, long stagingBytes,
    String job, int task, int jobTasks, long attempt, long epoch, int stallMs, int expelAfterMs) {

  /** No limit, as {@code LWMQ_FOREVER}. */
  public static final int FOREVER = -1;

  /** A Spark task or job: client, everything else by default. */
  public static WriterOptions client() {
    return new WriterOptions(Role.CLIENT, 0, Retain.UNTIL_ACKED, 0, Delivery.LIVE, 0, 0, 0, 0, null, 0, 0, 0, 0, 0, 0);
  }

  public WriterOptions withRole(Role newRole) {
    return new WriterOptions(
        newRole, partitions, retain, readers, delivery, timeoutMs, bufferBytes, windowBytes, stagingBytes,
        job, task, jobTasks, attempt, epoch, stallMs, expelAfterMs);
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
