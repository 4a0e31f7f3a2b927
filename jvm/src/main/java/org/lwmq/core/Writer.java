package org.lwmq.core;

import java.util.concurrent.atomic.AtomicInteger;

/**
 * Puts record batches into a stream, each laid once into a block of the writer's window. One thread at a time (INVALID for a
 * second one); any thread closes: who waits for room gets CLOSED, within 200 ms, for which the close waits.
 *
 * <p>As a task of a job: allocate and publish, then {@link #commit} or {@link #abort}, then close. Closed without
 * either, it counts as aborted.
 */
public final class Writer implements AutoCloseable {
  /** Flag of a block that is one encapsulated record batch message. */
  public static final int IPC_MESSAGE = 0;

  /** Flag of a block that is a whole IPC stream: schema, dictionaries, one record batch. */
  public static final int IPC_STREAM = 1;

  /** With a job, the partition of the stream that is the task's own: task mod partitions. */
  public static final int PARTITION_OF_TASK = -1;

  private final String address;
  private final Handle handle;
  private final byte[] schema;
  private final int partitions;
  private final AtomicInteger viewsLeft = new AtomicInteger(); // of blocks that have gone back, not collected yet
  private int waits; // for room, in a row

  private Writer(String address, long writer) {
    this.address = address;
    this.handle = new Handle(this, writer, "writer of " + address, w -> Jni.writerDestroy(w));
    int[] count = new int[1];
    this.schema = Jni.writerSchema(writer, count);
    this.partitions = count[0];
  }

  /**
   * Opens a writer on the stream at {@code address}; waits for the endpoint. The first producer declares
   * {@code schema} (an IPC stream that holds only its schema message); every other one compares with
   * {@link #schema}.
   */
  public static Writer open(String address, byte[] schema, WriterOptions options, Deadline deadline) {
    byte[] name = Jni.uri(address);
    byte[] job = Jni.utf8(options.job());
    return deadline.awaitInLongSlices(
        "opening a writer of " + address,
        slice -> new Writer(
            address,
            Jni.writerOpen(
                name, schema, options.role().ordinal(), options.partitions(), options.retain().ordinal(),
                options.readers(), options.delivery().ordinal(), Math.max(1, slice),
                options.bufferBytes(), options.windowBytes(), options.stagingBytes(),
                job, options.task(), options.jobTasks(), options.attempt(), options.epoch(),
                options.stallMs(), options.expelAfterMs())));
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
   * Lends a block of at least {@code bytes}; waits for room, until readers have released enough. What {@link Block#buffer} has
   * shown is room again when the garbage collector has found that nobody holds the buffer: it is asked to look when
   * such buffers may be what is waited for. TOO_BIG: more than the window can ever hold. TIMED_OUT says who holds the room.
   */
  public Block allocate(long bytes, Deadline deadline) {
    Block block = new Block(handle, viewsLeft);
    deadline.awaitDone(
        "waiting for room in the window of " + address,
        slice -> handle.run(w -> allocate(w, bytes, slice, block)));
    return block;
  }

  private void allocate(long writer, long bytes, int slice, Block block) {
    try {
      Jni.writerAllocate(writer, bytes, slice, block.fields);
      waits = 0;
    } catch (LwmqException e) {
      boolean isDue = e.status() == Status.TIMED_OUT && Integer.bitCount(++waits) == 1; // less and less often
      if (isDue && viewsLeft.get() > 0) {
        System.gc();
      }
      throw e;
    }
  }

  /**
   * Takes {@code block}: its first {@code bytes} are the next batch, of {@code rows} rows. INVALID: another writer's, which
   * keeps it, one that has gone back, or numbers that do not fit.
   *
   * @param partition of the stream; {@link #PARTITION_OF_TASK} for the one of a job's task
   * @param flags {@link #IPC_MESSAGE} or {@link #IPC_STREAM}
   */
  public void publish(Block block, int partition, long bytes, long rows, int flags) {
    block.checkIsOf(handle);
    handle.run(
        w -> {
          try {
            Jni.writerPublish(w, block.fields, partition, bytes, rows, flags);
          } finally {
            block.wentBack();
          }
        });
  }

  /** Takes {@code block} back unused; nothing where it has gone back. INVALID: another writer's. */
  public void discard(Block block) {
    block.checkIsOf(handle);
    if (block.address() != 0) {
      handle.run(
          w -> {
            Jni.writerDiscard(w, block.fields);
            block.wentBack();
          });
    }
  }

  /** As a task: commits what was published. The first attempt of (job, epoch, task) wins. */
  public CommitResult commit(Deadline deadline) {
    long[] result =
        deadline.await(
            "committing to " + address, slice -> handle.call(w -> Jni.writerCommit(w, slice)));
    return new CommitResult(
        result[Jni.COMMIT_WON] != 0, (int) result[Jni.COMMIT_PARTITION], result[Jni.COMMIT_ATTEMPT],
        result[Jni.COMMIT_START], result[Jni.COMMIT_END], result[Jni.COMMIT_BATCHES], result[Jni.COMMIT_ROWS],
        result[Jni.COMMIT_BYTES]);
  }

  /** Gives up: staged batches are dropped; {@code reason} reaches the readers who saw something. */
  public void abort(String reason) {
    handle.run(w -> Jni.writerAbort(w, Jni.words(reason)));
  }

  /** Batches, rows and bytes published, nanoseconds waited for room, bytes held by segments, batches unread. */
  public record Statistics(
      long batches, long rows, long bytes, long waitNs, long windowBytes, long unreadBatches) {}

  public Statistics statistics() {
    long[] n = handle.call(Jni::writerQuery);
    return new Statistics(n[0], n[1], n[2], n[3], n[4], n[5]);
  }

  /**
   * Ends this producer in order; waits until what it wrote was consumed (a committed task does not wait). Where it
   * bound the address, and is the last of this process there, that goes for what other producers write, too.
   * TIMED_OUT says how many batches wait for whom; then call again, or {@link #close} to give up.
   */
  public void finish(Deadline deadline) {
    deadline.awaitDone(
        "waiting for the readers of " + address, slice -> handle.run(w -> Jni.writerClose(w, slice)));
    handle.close();
  }

  /** False once it was closed or finished. */
  public boolean isOpen() {
    return handle.isOpen();
  }

  /** Gives the writer back; never waits. One that was neither committed nor finished counts as aborted. */
  @Override
  public void close() {
    handle.close();
  }
}
