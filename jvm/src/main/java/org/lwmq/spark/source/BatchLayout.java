package org.lwmq.spark.source;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.unsafe.Platform;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/**
 * Where everything of the next batch goes inside one block: how many rows it is to hold, and at which address each
 * buffer of each node begins.
 *
 * <pre>
 *   block, 64-byte aligned
 *   | IPC metadata | node 0: validity | offsets | values | node 1: ... |
 *   0              body               each buffer 64-byte aligned      bytes()
 * </pre>
 *
 * The size of strings and lists is not known before the rows come. Their share is guessed from the batch before
 * ({@link #learn}); a batch whose guess was too small is simply cut earlier. A value that does not even fit an empty
 * batch enlarges its node for good ({@link #enlarge}), and with it the block that is asked for.
 *
 * <p>Task side; one thread.
 */
final class BatchLayout {
  /** More rows make no reader faster, and a batch this long is already cheap to describe. */
  static final int ROWS_MAX = 65_536;

  private static final long ALIGNMENT = 64;
  /** Short values are copied with what stands behind them, so there is room behind the last one. */
  private static final long OVERRUN = RowAppender.WORDS_AT_ONCE;
  private static final double STRING_BYTES_GUESS = 24;
  private static final double LIST_ELEMENTS_GUESS = 4;
  private static final double HEADROOM = 1.125;

  final List<BatchNode> nodes;

  /** Elements that fit, by node. */
  final int[] capacity;
  /** Bytes that fit the values of a BYTES node. */
  final long[] room;
  /** Addresses, by node; 0 where the node has no such buffer. Of a BITS node {@code values} is the bitmap. */
  final long[] validity;
  final long[] offsets;
  final long[] values;

  private final double[] perElement; // bytes of a value (BYTES), elements of a list (LIST): expected
  private final long[] atLeast; // bytes of a BYTES, elements below a LIST: what one value was seen to need
  private int rows;
  private long bytes;

  BatchLayout(List<BatchNode> nodes) {
    int n = nodes.size();
    this.nodes = nodes;
    capacity = new int[n];
    room = new long[n];
    validity = new long[n];
    offsets = new long[n];
    values = new long[n];
    perElement = new double[n];
    atLeast = new long[n];
    for (BatchNode node : nodes) {
      perElement[node.index] = node.kind == BatchNode.Kind.LIST ? LIST_ELEMENTS_GUESS : STRING_BYTES_GUESS;
    }
  }

  /** Rows that the planned batch holds. */
  int rows() {
    return rows;
  }

  /** Bytes that the planned batch needs of its block. */
  long bytes() {
    return bytes;
  }

  /** Where the body begins: room for the IPC metadata of this schema in front of it. */
  long bodyOffset() {
    return IpcMessage.bodyOffset(nodes.size(), IpcMessage.bufferCountOf(nodes));
  }

  /** Plans a batch of about {@code target} bytes; more, if a single row needs more. */
  void plan(long target) {
    double perRow = 0;
    for (BatchNode node : nodes) {
      if (node.isTop()) {
        perRow += cost(node);
      }
    }
    long overhead = bodyOffset() + nodes.size() * (3 * ALIGNMENT + OVERRUN);
    rows = (int) Math.max(1, Math.min(ROWS_MAX, (target - overhead) / Math.max(perRow, 0.01)));
    for (BatchNode node : nodes) {
      if (node.isTop()) {
        size(node, rows);
      }
    }
    bytes = place(0);
  }

  /** Puts the planned batch at {@code block}, which has {@code available} bytes, and makes its bitmaps ready. */
  void bind(long block, long available) {
    if (bytes > available) {
      throw new IllegalStateException("a batch of " + bytes + " bytes in a block of " + available);
    }
    place(block);
    for (BatchNode node : nodes) {
      int k = node.index;
      if (validity[k] != 0) {
        Platform.setMemory(validity[k], (byte) 0xff, bitmapBytes(capacity[k]));
      }
      if (node.kind == BatchNode.Kind.BITS) {
        Platform.setMemory(values[k], (byte) 0, bitmapBytes(capacity[k]));
      }
      if (offsets[k] != 0) {
        Platform.putInt(null, offsets[k], 0);
      }
    }
  }

  /** Takes over what a finished batch shows about sizes. {@code count} and {@code used} are by node. */
  void learn(int[] count, long[] used) {
    for (BatchNode node : nodes) {
      int k = node.index;
      if (count[k] == 0) {
        continue;
      }
      if (node.kind == BatchNode.Kind.BYTES) {
        perElement[k] = HEADROOM * used[k] / count[k] + 1;
      } else if (node.kind == BatchNode.Kind.LIST) {
        perElement[k] = HEADROOM * count[node.children.get(0).index] / count[k] + 0.25;
      }
    }
  }

  /** Makes room for a row that did not fit an empty batch: bytes of a BYTES node, elements below a LIST node. */
  void enlarge(int k, long need) {
    BatchNode node = nodes.get(k);
    if (need > Integer.MAX_VALUE - ALIGNMENT) {
      throw new LwmqException(Status.TOO_BIG, "one row has " + need
          + (node.kind == BatchNode.Kind.BYTES ? " bytes in " : " elements in ") + node.path
          + ", a batch holds at most " + (Integer.MAX_VALUE - ALIGNMENT));
    }
    atLeast[k] = Math.max(atLeast[k], need);
  }

  static long align(long bytes) {
    return (bytes + ALIGNMENT - 1) & -ALIGNMENT;
  }

  static long bitmapBytes(long elements) {
    return (elements + 7) / 8;
  }

  /** Expected bytes that one element of {@code node} takes, with everything below it. */
  private double cost(BatchNode node) {
    double bytesOfOne = node.nullable ? 0.125 : 0;
    switch (node.kind) {
      case BITS -> bytesOfOne += 0.125;
      case FIXED -> bytesOfOne += node.width;
      case BYTES -> bytesOfOne += 4 + perElement[node.index];
      case LIST -> bytesOfOne += 4 + perElement[node.index] * cost(node.children.get(0));
      case STRUCT -> {
        for (BatchNode child : node.children) {
          bytesOfOne += cost(child);
        }
      }
      default -> { }
    }
    return bytesOfOne;
  }

  private void size(BatchNode node, long elements) {
    int k = node.index;
    capacity[k] = bounded(elements);
    if (node.kind == BatchNode.Kind.BYTES) {
      room[k] = bounded(Math.max((long) Math.ceil(capacity[k] * perElement[k]), atLeast[k]));
    }
    long below = node.kind == BatchNode.Kind.LIST
        ? Math.max((long) Math.ceil(capacity[k] * perElement[k]) + 1, atLeast[k])
        : capacity[k];
    for (BatchNode child : node.children) {
      size(child, below);
    }
  }

  private static int bounded(long value) {
    return (int) Math.min(value, Integer.MAX_VALUE - ALIGNMENT);
  }

  /** Gives every buffer its place after {@code block}; answers the bytes up to the end of the last. */
  private long place(long block) {
    long at = block + bodyOffset();
    Arrays.fill(validity, 0);
    Arrays.fill(offsets, 0);
    Arrays.fill(values, 0);
    for (BatchNode node : nodes) {
      int k = node.index;
      if (node.kind == BatchNode.Kind.NULL) {
        continue;
      }
      if (node.nullable) {
        validity[k] = at;
        at = align(at + bitmapBytes(capacity[k]));
      }
      switch (node.kind) {
        case BITS -> {
          values[k] = at;
          at = align(at + bitmapBytes(capacity[k]));
        }
        case FIXED -> {
          values[k] = at;
          at = align(at + (long) capacity[k] * node.width);
        }
        case BYTES -> {
          offsets[k] = at;
          at = align(at + 4L * capacity[k] + 4);
          values[k] = at;
          at = align(at + room[k] + OVERRUN);
        }
        case LIST -> {
          offsets[k] = at;
          at = align(at + 4L * capacity[k] + 4);
        }
        default -> { }
      }
    }
    return at - block;
  }
}
