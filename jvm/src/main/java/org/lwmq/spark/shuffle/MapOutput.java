package org.lwmq.spark.shuffle;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.spark.TaskContext;
import org.lwmq.core.Block;
import org.lwmq.core.Deadline;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.core.Writer;

/**
 * What one map task writes: batches in the window of its own writer, or in its file where the executor's memory is full.
 * Nothing of it is visible before {@link #commit}. The task's thread.
 */
final class MapOutput implements AutoCloseable {
  private static final int ROOM_MS = 30_000; // nobody is waited for: the endpoint is in this process

  private final ExchangeStreams streams;
  private final int shuffle;
  private final TaskContext context;
  private final Writer writer;
  private final long[] lengths;
  private SpillFile file; // null: all batches are in memory
  private long reserved;
  private long rows;
  private boolean isCommitted;

  MapOutput(ExchangeStreams streams, ExchangeDependency dependency, long mapId, TaskContext context) {
    this.streams = streams;
    this.shuffle = dependency.shuffleId();
    this.context = context;
    this.writer = streams.openWriter(dependency, mapId);
    this.lengths = new long[writer.partitions()];
  }

  /** Bytes of the batches of each partition. */
  long[] lengths() {
    return lengths;
  }

  /** Rows of all batches. */
  long rows() {
    return rows;
  }

  /** Lends a block of at least {@code bytes}; null: the executor's memory is full. */
  Block allocate(long bytes) {
    if (!streams.tryReserve(bytes)) {
      return null;
    }
    try {
      Block block = writer.allocate(bytes, deadline());
      long more = block.bytes() - bytes;
      streams.release(-more);
      reserved += block.bytes();
      return block;
    } catch (LwmqException e) {
      streams.release(bytes);
      if (e.status() == Status.NO_MEMORY) { // of the machine, or of the process
        return null;
      }
      throw e;
    }
  }

  void discard(Block block) {
    streams.release(block.bytes());
    reserved -= block.bytes();
    writer.discard(block);
  }

  void publish(Block block, int partition, long bytes, long batchRows) {
    writer.publish(block, partition, bytes, batchRows, Writer.IPC_MESSAGE);
    count(partition, bytes, batchRows);
  }

  private void count(int partition, long bytes, long batchRows) {
    lengths[partition] += bytes;
    rows += batchRows;
  }

  /** Moves the batch at {@code address} to the file. */
  void spill(int partition, long address, long bytes, long batchRows) {
    try {
      if (file == null) {
        file = new SpillFile(ExchangeStreams.newFile());
      }
    } catch (IOException e) {
      throw new UncheckedIOException("the exchange's memory is full, and its batches cannot be moved to a file", e);
    }
    Block reference = writer.allocate(file.referenceBytes(), deadline());
    try {
      file.append(address, bytes, reference.address());
    } catch (RuntimeException e) {
      writer.discard(reference);
      throw e;
    }
    writer.publish(reference, partition, file.referenceBytes(), batchRows, Writer.IPC_MESSAGE);
    count(partition, bytes, batchRows);
    context.taskMetrics().incMemoryBytesSpilled(bytes);
    context.taskMetrics().incDiskBytesSpilled(bytes);
  }

  /** From here on all batches are visible, until the shuffle ends. CLOSED: it has ended. */
  void commit() throws IOException {
    if (file != null) {
      file.close();
    }
    if (!writer.commit(deadline()).won() || !streams.keep(shuffle, reserved, file == null ? null : file.file())) {
      throw ExchangeStreams.hasEnded(shuffle);
    }
    isCommitted = true;
    writer.finish(deadline());
  }

  /** Gives up what was not committed. */
  @Override
  public void close() {
    writer.close();
    if (!isCommitted) {
      streams.release(reserved);
      reserved = 0;
      if (file != null) {
        file.closeQuietly();
        ExchangeStreams.delete(file.file());
      }
    }
  }

  private Deadline deadline() {
    return Deadline.after(ROOM_MS).cancelledBy(context::isInterrupted);
  }
}
