package org.lwmq.spark.batch;

/**
 * Where finished batches go, one block at a time: such as the window of a task's writer.
 *
 * <p>A block is 64-byte aligned native memory. It is lent by {@link #allocate} and goes back through {@link #publish}
 * or {@link #discard} before the next is asked for. One thread.
 */
public interface BatchSink {
  /** Lends a block of at least {@code bytes} and returns its address. May wait for room. */
  long allocate(long bytes);

  /** Bytes of the block that is lent now. */
  long available();

  /** Takes the block: its first {@code bytes} are a batch of {@code rows} rows. */
  void publish(long bytes, long rows);

  /** Rows published so far. */
  long rows();

  /** Takes the block back unused; nothing happens where none is lent. */
  void discard();
}
