package org.lwmq.spark.source;

import java.util.function.Supplier;
import org.lwmq.core.Block;
import org.lwmq.core.Deadline;
import org.lwmq.core.Writer;
import org.lwmq.spark.batch.BatchSink;

/** The window of a task's writer as a sink of batches. */
final class WriterSink implements BatchSink {
  private final Writer writer;
  private final Supplier<Deadline> room;
  private Block block;
  private long batches;
  private long rows;

  /** {@code room}: how long a batch waits for room from now on. */
  WriterSink(Writer writer, Supplier<Deadline> room) {
    this.writer = writer;
    this.room = room;
  }

  @Override
  public long allocate(long bytes) {
    block = writer.allocate(bytes, room.get());
    return block.address();
  }

  @Override
  public long available() {
    return block.bytes();
  }

  @Override
  public void publish(long bytes, long newRows) {
    Block full = block;
    block = null;
    writer.publish(full, Writer.PARTITION_OF_TASK, bytes, newRows, Writer.IPC_MESSAGE);
    batches++;
    rows += newRows;
  }

  @Override
  public long rows() {
    return rows;
  }

  /** Batches published so far. */
  long batches() {
    return batches;
  }

  @Override
  public void discard() {
    if (block != null) {
      Block unused = block;
      block = null;
      writer.discard(unused);
    }
  }
}
