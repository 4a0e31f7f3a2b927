package org.lwmq.spark.shuffle;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.unsafe.Platform;

/**
 * The native memory of one executor for the outputs of map tasks. Thread-safe.
 *
 * <p>A block that comes back is kept for the next shuffle: memory whose pages were touched before is several times as
 * fast to fill. Blocks that are kept give way to blocks that are needed.
 *
 * <p>A task always gets the blocks that it fills. Whether a full block stays in memory is decided afterwards, by
 * {@link #isOver}: if not, the task moves it to a file.
 */
final class ExchangeMemory {
  /** A 64-byte aligned range of memory. */
  record Block(long allocation, long address, long size) {}

  /** Between two powers of two there are this many sizes, so at most one eighth of a block is unused. */
  private static final int SIZES_PER_DOUBLING = 8;
  private static final long SMALLEST = 4 << 10;
  private static final long ALIGNMENT = 64;

  private final long limit;
  private final Map<Long, ArrayDeque<Block>> kept = new HashMap<>(); // by size
  private long keptBytes;
  private long usedBytes;
  private long takenBytes;

  /** {@code limit} in bytes, of blocks in use and blocks that are kept. */
  ExchangeMemory(long limit) {
    this.limit = limit;
  }

  /** Lends a block of at least {@code bytes}. It goes back through {@link #free}. */
  synchronized Block allocate(long bytes) {
    long size = sizeFor(bytes);
    usedBytes += size;
    ArrayDeque<Block> fitting = kept.get(size);
    if (fitting != null && !fitting.isEmpty()) {
      keptBytes -= size;
      return fitting.pop();
    }
    releaseKept(limit - usedBytes);
    takenBytes += size;
    long allocation = Platform.allocateMemory(size + ALIGNMENT);
    return new Block(allocation, align(allocation), size);
  }

  synchronized void free(Block block) {
    usedBytes -= block.size;
    keptBytes += block.size;
    kept.computeIfAbsent(block.size, size -> new ArrayDeque<>()).push(block);
    releaseKept(limit - usedBytes);
  }

  /** Whether the blocks in use take more than the limit. */
  synchronized boolean isOver() {
    return usedBytes > limit;
  }

  /** Bytes used, bytes kept for later, and bytes taken from the operating system since the start. */
  synchronized Map<String, Long> figures() {
    return Map.of("used.bytes", usedBytes, "kept.bytes", keptBytes, "taken.bytes", takenBytes);
  }

  /** Gives all kept blocks back to the operating system. */
  synchronized void close() {
    releaseKept(0);
  }

  /** {@code address}, or the next one at which a batch may lie. */
  static long align(long address) {
    return (address + ALIGNMENT - 1) & -ALIGNMENT;
  }

  private static long sizeFor(long bytes) {
    if (bytes <= SMALLEST) {
      return SMALLEST;
    }
    long step = Long.highestOneBit(bytes - 1) / SIZES_PER_DOUBLING;
    return (bytes + step - 1) / step * step;
  }

  private void releaseKept(long allowed) {
    Iterator<ArrayDeque<Block>> sizes = kept.values().iterator();
    while (keptBytes > Math.max(0, allowed) && sizes.hasNext()) {
      ArrayDeque<Block> blocks = sizes.next();
      while (keptBytes > Math.max(0, allowed) && !blocks.isEmpty()) {
        Block block = blocks.pop();
        keptBytes -= block.size;
        Platform.freeMemory(block.allocation);
      }
    }
  }
}
