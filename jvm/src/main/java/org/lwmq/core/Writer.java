package org.lwmq.core;

/**
 * Puts record batches into a stream. Each batch is laid once into a block of the writer's window. One thread at a time.
 *
 * <p>A task of a job allocates and publishes, then calls {@link #commit} or {@link #abort}, and closes. A task that
 * closes without either counts as aborted.
 */
public final class Writer implements AutoCloseable {
  /** Of a task of a job: the task's number modulo the number of the stream's partitions. */
  public static final int PARTITION_OF_TASK = -1;

  /** Flag of a block that is one encapsulated record batch message. */
  public static final int IPC_MESSAGE = 0;

  /** Flag of a block that is a whole IPC stream: schema, dictionaries, one record batch. */
  public static final int IPC_STREAM = 1;

  private final String address;
  private final Handle handle;
  private final byte[] schema;
  private final int partitions;

  private Writer(String address, long writer) {
    this.address = address;
    this.handle = new Handle(this, writer, "writer of " + address, w -> Jni.writerDestroy(w));
    int[] count = new int[1];
    this.schema = Jni.writerSchema(writer, count);
    this.partitions = count[0];
  }

  /**
   * Opens a writer on the stream at {@code address}; waits for the endpoint. The first producer declares the stream
   * with {@code schema}, an IPC stream that has only its schema message. Every other producer compares it with {@link
   * #schema}.
   */
  public static Writer open(String address, byte[] schema, WriterOptions options, Deadline deadline) {
    byte[] name = Jni.uri(address);
    byte[] job = Jni.utf8(options.job());
    return deadline.awaitInLongSlices(
        "opening a writer of " + address,
        slice -> new Writer(address, Jni.writerOpen(name, schema, job, options.fields(slice))));
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
   * Lends a block of at least {@code bytes}. Waits for room until readers have released enough. TOO_BIG: the window can
   * never hold so much. TIMED_OUT says which readers hold the room.
   */
  public Block allocate(long bytes, Deadline deadline) {
    Block block = new Block(handle);
    deadline.awaitDone(
        "waiting for room in the window of " + address,
        slice -> handle.run(w -> Jni.writerAllocate(w, bytes, slice, block.fields)));
    return block;
  }

  /**
   * Takes {@code block}: its first {@code bytes} are the next batch, of {@code rows} rows.
   *
   * @param partition of the stream; {@link #PARTITION_OF_TASK} for a task of a job
   * @param flags {@link #IPC_MESSAGE} or {@link #IPC_STREAM}
   */
  public void publish(Block block, int partition, long bytes, long rows, int flags) {
    handle.check();
    try {
      handle.run(w -> Jni.writerPublish(w, block.fields, partition, bytes, rows, flags));
    } finally {
      block.fields[Jni.BLOCK_DATA] = 0;
    }
  }

  /** Takes {@code block} back unused. */
  public void discard(Block block) {
    if (block.fields[Jni.BLOCK_DATA] != 0) {
      handle.run(w -> Jni.writerDiscard(w, block.fields));
      block.fields[Jni.BLOCK_DATA] = 0;
    }
  }

  /** Commits the batches that this task has published. The first attempt of (job, epoch, task) wins. */
  public CommitResult commit(Deadline deadline) {
    long[] result =
        deadline.await(
            "committing to " + address, slice -> handle.call(w -> Jni.writerCommit(w, slice)));
    return new CommitResult(
        result[Jni.COMMIT_WON] != 0, (int) result[Jni.COMMIT_PARTITION], result[Jni.COMMIT_ATTEMPT],
        result[Jni.COMMIT_START], result[Jni.COMMIT_END], result[Jni.COMMIT_BATCHES], result[Jni.COMMIT_ROWS],
        result[Jni.COMMIT_BYTES]);
  }

  /** Drops the staged batches. Readers that have seen a batch of this writer get {@code reason}. */
  public void abort(String reason) {
    handle.run(w -> Jni.writerAbort(w, Jni.words(reason)));
  }

  /** Batches, rows and bytes that were published, nanoseconds waited for room, bytes of memory, unread batches. */
  public record Statistics(
      long batches, long rows, long bytes, long waitNs, long windowBytes, long unreadBatches) {}

  public Statistics statistics() {
    long[] n = handle.call(Jni::writerQuery);
    return new Statistics(n[0], n[1], n[2], n[3], n[4], n[5]);
  }

  /**
   * Ends this producer in order. Waits until its batches were consumed; a committed task does not wait. If this writer
   * has bound the address and is the last one of this process there, it waits for the batches of other producers, too.
   * TIMED_OUT says how many batches wait for which readers: call again, or give up with {@link #close}.
   */
  public void finish(Deadline deadline) {
    deadline.awaitDone(
        "waiting for the readers of " + address, slice -> handle.run(w -> Jni.writerClose(w, slice)));
    handle.close();
  }

  /** False: it was closed or finished. */
  public boolean isOpen() {
    return handle.isOpen();
  }

  /** Closes without waiting. A writer that was neither committed nor finished counts as aborted. */
  @Override
  public void close() {
    handle.close();
  }
}
