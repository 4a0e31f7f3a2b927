package org.lwmq.core;

import java.util.List;

/**
 * Takes record batches from a stream, in place. One thread at a time (INVALID for a second one); any thread closes, and
 * batches may be released by any.
 */
public final class Reader implements AutoCloseable {
  private final String address;
  private final Handle handle;
  private final String waiting; // made once, not with each batch

  private Reader(String address, long reader) {
    this.address = address;
    this.waiting = "waiting for a batch of " + address;
    this.handle = new Handle(this, reader, "reader of " + address, r -> closeQuietly(r));
  }

  /** Opens a reader on the stream at {@code address}; waits for the endpoint. */
  public static Reader open(String address, ReaderOptions options, Deadline deadline) {
    byte[] uri = Jni.uri(address);
    byte[] name = Jni.utf8(options.name());
    byte[] generation = options.generation() == null ? null : Identity.unhex(options.generation());
    long[] ranges = flat(options.ranges());
    byte[] task = Jni.utf8(options.task());
    byte[] job = Jni.utf8(options.job());
    long[] tasks = options.tasks() == null ? null : options.tasks().stream().mapToLong(Long::longValue).toArray();
    return deadline.awaitInLongSlices(
        "opening a reader of " + address,
        slice -> new Reader(
            address,
            Jni.readerOpen(
                uri, options.role().ordinal(), options.settled() ? 1 : 0, options.follow(), options.writers(),
                Math.max(1, slice), options.credit(), name, generation, options.keepMapped(), ranges,
                options.stallMs(), task, options.attempt(), job, tasks)));
  }

  /** The schema; waits until a producer has declared it. */
  public byte[] schema(Deadline deadline) {
    return deadline.await(
        "waiting for the schema of " + address,
        slice -> handle.call(r -> Jni.readerSchema(r, slice)));
  }

  /**
   * The next batch, in order of arrival over the reader's partitions; the one before is consumed by this call, and
   * stays leased until it is closed. Null at the end. TIMED_OUT, ABORTED, DATA_LOSS and PEER_LOST are thrown, after
   * everything that was visible.
   */
  public Batch next(Deadline deadline) {
    long[] next = new long[Jni.BATCH_LONGS];
    boolean isThere = deadline.await(waiting, slice -> handle.call(r -> Jni.readerNext(r, slice, next)));
    return isThere ? new Batch(next) : null;
  }

  /** Marks what {@link #next} gave last as consumed. Never waits. */
  public void consume() {
    handle.run(Jni::readerConsume);
  }

  /** Since open; waitNs is the time spent waiting for batches. */
  public record Statistics(
      long batches, long rows, long bytes, long bytesCopied, long batchesCopied, long waitNs,
      long leasedBatches, long leasedBytes) {}

  public Statistics statistics() {
    long[] n = handle.call(Jni::readerQuery);
    return new Statistics(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]);
  }

  /**
   * Ends the reader; what was not consumed stays for others. Batches live on. Who waits for one gets CLOSED, within 200 ms,
   * for which this waits. Twice is allowed.
   */
  @Override
  public void close() {
    handle.close();
  }

  private static void closeQuietly(long reader) {
    try {
      Jni.readerClose(reader, 0);
    } catch (LwmqException e) {
      if (e.status() != Status.TIMED_OUT) { // writers are still connected to an address that we bound
        throw e;
      }
    }
  }

  private static long[] flat(List<Range> ranges) {
    if (ranges == null) {
      return null;
    }
    long[] numbers = new long[3 * ranges.size()];
    for (int i = 0; i < ranges.size(); i++) {
      numbers[3 * i] = ranges.get(i).partition();
      numbers[3 * i + 1] = ranges.get(i).start();
      numbers[3 * i + 2] = ranges.get(i).end();
    }
    return numbers;
  }
}
