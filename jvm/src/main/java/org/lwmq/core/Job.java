package org.lwmq.core;

import java.util.List;

/**
 * Many writers that count as one producer. Lives in the driver; the loss of its process aborts the job. One thread
 * at a time (INVALID for a second one); any thread closes, and waits for who is in a call.
 */
public final class Job implements AutoCloseable {
  private final String address;
  private final Handle handle;
  private final byte[] schema;
  private final int partitions;

  private Job(String address, long job) {
    this.address = address;
    this.handle = new Handle(this, job, "job on " + address, j -> Jni.jobClose(j));
    int[] count = new int[1];
    this.schema = Jni.jobSchema(job, count);
    this.partitions = count[0];
  }

  /** Opens the producer named {@code options.job()}, whose tasks are writers with the same job. */
  public static Job open(String address, byte[] schema, WriterOptions options, Deadline deadline) {
    byte[] name = Jni.uri(address);
    byte[] id = Jni.utf8(options.job());
    return deadline.awaitInLongSlices(
        "opening a job on " + address,
        slice -> new Job(
            address,
            Jni.jobOpen(
                name, schema, options.role().ordinal(), options.partitions(), options.retain().ordinal(),
                options.readers(), options.delivery().ordinal(), Math.max(1, slice), id, options.epoch(),
                options.stallMs())));
  }

  /** The declared schema. */
  public byte[] schema() {
    return schema.clone();
  }

  /** Number of partitions of the stream. */
  public int partitions() {
    return partitions;
  }

  /**
   * Commits {@code epoch}. DATA_LOSS names the first of {@code tasks} that the endpoint lacks. Repeating a commit
   * changes nothing.
   */
  public void commit(long epoch, List<TaskCommit> tasks, Deadline deadline) {
    long[] flat =
        tasks.stream()
            .flatMapToLong(t -> java.util.stream.LongStream.of(t.task(), t.partition(), t.attempt(), t.batches()))
            .toArray();
    deadline.awaitInLongSlices(
        "committing the job on " + address,
        slice -> {
          handle.run(j -> Jni.jobCommit(j, epoch, flat, slice));
          return null;
        });
  }

  /** Drops what is staged. Readers hear of it only if something of the job was visible. */
  public void abort(String reason, int timeoutMs) {
    Arguments.notNegative("timeoutMs", timeoutMs);
    handle.run(j -> Jni.jobAbort(j, Jni.words(reason), timeoutMs));
  }

  /** Ends the producer; commits nothing and does not wait for readers. */
  @Override
  public void close() {
    handle.close();
  }
}
