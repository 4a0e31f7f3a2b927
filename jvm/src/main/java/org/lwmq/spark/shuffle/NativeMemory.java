package org.lwmq.spark.shuffle;

import org.apache.spark.unsafe.Platform;

/** A block of native memory in which a batch may lie, freed by {@link #close}. One thread. */
final class NativeMemory implements AutoCloseable {
  private static final long ALIGNMENT = 64;

  private final long bytes;
  private long allocation; // 0: freed

  NativeMemory(long bytes) {
    this.bytes = bytes;
    this.allocation = Platform.allocateMemory(bytes + ALIGNMENT);
  }

  long address() {
    return (allocation + ALIGNMENT - 1) & -ALIGNMENT;
  }

  long bytes() {
    return bytes;
  }

  @Override
  public void close() {
    if (allocation != 0) {
      Platform.freeMemory(allocation);
      allocation = 0;
    }
  }
}
