package org.lwmq.spark.shuffle;

import org.apache.spark.unsafe.Platform;
import org.lwmq.core.Block;
import org.lwmq.spark.batch.BatchSink;

/** Takes the batches of one map task for one partition. The task's thread. */
final class ExchangeSink implements BatchSink {
  private final MapOutput output;
  private final int partition;
  private Block block; // null: none is lent
  private NativeMemory apart; // the block, where the executor's memory is full; else null
  private long rows;

  ExchangeSink(MapOutput output, int partition) {
    this.output = output;
    this.partition = partition;
  }

  @Override
  public long allocate(long bytes) {
    block = output.allocate(bytes);
    if (block != null) {
      return block.address();
    }
    apart = new NativeMemory(bytes);
    return apart.address();
  }

  @Override
  public long available() {
    return block != null ? block.bytes() : apart.bytes();
  }

  @Override
  public void publish(long bytes, long newRows) {
    rows += newRows;
    if (block == null) {
      try {
        output.spill(partition, apart.address(), bytes, newRows);
      } finally {
        discard();
      }
      return;
    }
    Block full = block;
    block = null;
    if (bytes < full.bytes() / 2) { // mostly the last batch
      Block fitting = output.allocate(bytes);
      if (fitting != null) {
        Platform.copyMemory(null, full.address(), null, fitting.address(), bytes);
        output.discard(full);
        full = fitting;
      }
    }
    output.publish(full, partition, bytes, newRows);
  }

  @Override
  public long rows() {
    return rows;
  }

  @Override
  public void discard() {
    if (block != null) {
      output.discard(block);
      block = null;
    }
    if (apart != null) {
      apart.close();
      apart = null;
    }
  }
}
