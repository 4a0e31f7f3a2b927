package org.lwmq.spark.batch;

import java.util.List;
import org.apache.spark.unsafe.Platform;

/**
 * Stores rows into a batch that is laid out in native memory. {@link #bind} points it at a planned {@link BatchLayout};
 * from then on each row is either stored whole or refused, and then nothing of it counts. Every store is bounded by the
 * capacities of the layout: a store outside the block would end the JVM.
 *
 * <p>Public because generated classes, which live in a loader of their own, use its fields. One thread.
 */
public abstract class BatchAppender {
  /** Elements stored, by node; true after {@link #save}. */
  protected final int[] count;
  /** Bytes stored, by node; likewise. */
  protected final long[] used;
  /** Rows stored since bind. */
  protected int rows;
  /** Rows that fit. */
  protected int rowsMax;

  protected BatchAppender(int nodes) {
    count = new int[nodes];
    used = new long[nodes];
  }

  /** Takes over what the layout says of each node, and begins at row 0. */
  protected abstract void load(int[] capacity, long[] room, long[] validity, long[] offsets, long[] values);

  /** Brings {@link #count} and {@link #used} up to date. */
  protected abstract void save();

  final void bind(BatchLayout layout) {
    rows = 0;
    rowsMax = layout.rows();
    load(layout.capacity, layout.room, layout.validity, layout.offsets, layout.values);
  }

  final int rows() {
    return rows;
  }

  /** Elements and bytes of every node so far. */
  final int[] counts(List<BatchNode> nodes) {
    save();
    for (BatchNode node : nodes) {
      if (node.parent == null) {
        count[node.index] = rows;
      } else if (node.followsParent()) {
        count[node.index] = count[node.parent.index];
      }
    }
    return count;
  }

  final long[] used() {
    return used;
  }

  protected static void setNull(long validity, int at) {
    long address = validity + (at >> 3);
    Platform.putByte(null, address, (byte) (Platform.getByte(null, address) & ~(1 << (at & 7))));
  }

  /** Sets a bit that is 0 to {@code bit}. */
  protected static void orBit(long bits, int at, byte bit) {
    long address = bits + (at >> 3);
    Platform.putByte(null, address, (byte) (Platform.getByte(null, address) | (bit << (at & 7))));
  }
}
