package org.lwmq.spark.shuffle;

import org.apache.spark.unsafe.Platform;
import org.lwmq.spark.batch.BatchSink;
import org.lwmq.spark.shuffle.ExchangeMemory.Block;

/** Takes the batches of one map task for one partition. The task's thread. */
final class ExchangeSink implements BatchSink {
  private final ExchangeMemory memory;
  private final MapOutput output;
  private final int partition;
  private final Runnable published;
  private Block block; // null: none is lent
  private long rows;

  /** {@code published} runs after each batch. */
  ExchangeSink(ExchangeMemory memory, MapOutput output, int partition, Runnable published) {
    this.memory = memory;
    this.output = output;
    this.partition = partition;
    this.published = published;
  }

  @Override
  public long allocate(long bytes) {
    block = memory.allocate(bytes);
    return block.address();
  }

  @Override
  public long available() {
    return block.size();
  }

  @Override
  public void publish(long bytes, long newRows) {
    Block full = block;
    block = null;
    if (bytes < full.size() / 2) { // mostly the last batch
      Block fitting = memory.allocate(bytes);
      Platform.copyMemory(null, full.address(), null, fitting.address(), bytes);
      memory.free(full);
      full = fitting;
    }
    output.add(partition, full, bytes);
    rows += newRows;
    published.run();
  }

  @Override
  public long rows() {
    return rows;
  }

  @Override
  public void discard() {
    if (block != null) {
      memory.free(block);
      block = null;
    }
  }
}
