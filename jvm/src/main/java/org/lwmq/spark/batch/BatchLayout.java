package org.lwmq.spark.batch;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.VariantVal;
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
 * A batch is planned when its first row is there. That row is measured, so it always fits; beside it is room for as
 * many rows as are expected to fill the block. What to expect of strings and lists is learned from the batch before
 * ({@link #learn}), per row and not per element of the list above: guesses that multiply would exceed any block a dozen
 * lists down. A batch whose guess was too small is simply cut earlier.
 *
 * <p>Task side; one thread.
 */
final class BatchLayout {
  /** More rows make no reader faster, and a batch this long is already cheap to describe. */
  static final int ROWS_MAX = 65_536;

  static final long ALIGNMENT = 64;
  /** Short values are copied with what stands behind them, so there is room behind the last one. */
  private static final long OVERRUN = RowAppender.WORDS_AT_ONCE;
  /** Of a buffer, and of the elements of a node: offsets have 31 bits. */
  private static final long MOST = Integer.MAX_VALUE - ALIGNMENT;
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

  private final double[] elementsOfRow; // by node: expected
  private final double[] bytesOfRow; // by BYTES node: expected
  private final long[] elementsOfFirst; // of the row that the batch begins with: measured
  private final long[] bytesOfFirst;
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
    elementsOfRow = new double[n];
    bytesOfRow = new double[n];
    elementsOfFirst = new long[n];
    bytesOfFirst = new long[n];
    for (BatchNode node : nodes) {
      int k = node.index;
      elementsOfRow[k] = node.isTop() ? 1
          : node.followsParent() ? elementsOfRow[node.parent.index]
          : LIST_ELEMENTS_GUESS;
      bytesOfRow[k] = STRING_BYTES_GUESS * elementsOfRow[k];
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

  /**
   * Plans a batch of about {@code target} bytes that begins with {@code first}; more, if that row needs more, or if
   * so many columns would leave less than half of the block to values.
   */
  void plan(long target, InternalRow first) {
    measure(first);
    long overhead = bodyOffset() + nodes.size() * (3 * ALIGNMENT + OVERRUN);
    double ofFirst = 0;
    double ofRow = 0;
    for (BatchNode node : nodes) {
      int k = node.index;
      ofFirst += payload(node, elementsOfFirst[k], bytesOfFirst[k]);
      ofRow += payload(node, elementsOfRow[k], bytesOfRow[k]);
    }
    double others = (Math.max(target - overhead, overhead) - ofFirst) / Math.max(ofRow, 0.01);
    size(1 + (int) Math.max(0, Math.min(ROWS_MAX - 1, others)));
  }

  /** Plans for half as many rows. False when it is one already. */
  boolean halve() {
    if (rows == 1) {
      return false;
    }
    size(rows / 2);
    return true;
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

  /**
   * Takes over what the rows of a finished batch, but for its first, show about sizes. Counts are by node. The first may
   * have shrunk since it was measured, where a peer writes to its window while we read.
   */
  void learn(int rowCount, int[] count, long[] used) {
    if (rowCount == 1) {
      return;
    }
    for (BatchNode node : nodes) {
      int k = node.index;
      double elements = (double) Math.max(0, count[k] - elementsOfFirst[k]) / (rowCount - 1);
      elementsOfRow[k] = node.isTop() ? 1
          : node.followsParent() ? elementsOfRow[node.parent.index]
          : HEADROOM * elements + 0.25;
      bytesOfRow[k] = HEADROOM * Math.max(0, used[k] - bytesOfFirst[k]) / (rowCount - 1) + 1;
    }
  }

  /** Bytes of all buffers of a node with so many elements, and so many bytes of strings. */
  static double payload(BatchNode node, double elements, double valueBytes) {
    return (node.nullable ? elements / 8 : 0) + switch (node.kind) {
      case BITS -> elements / 8;
      case FIXED -> elements * node.width;
      case BYTES -> 4 * elements + valueBytes;
      case LIST -> 4 * elements;
      default -> 0;
    };
  }

  static long align(long bytes) {
    return (bytes + ALIGNMENT - 1) & -ALIGNMENT;
  }

  static long bitmapBytes(long elements) {
    return (elements + 7) / 8;
  }

  private void measure(InternalRow first) {
    Arrays.fill(elementsOfFirst, 0);
    Arrays.fill(bytesOfFirst, 0);
    int column = 0;
    for (BatchNode node : nodes) {
      int k = node.index;
      if (node.isTop()) {
        elementsOfFirst[k] = 1;
        measure(node, first, column++);
      } else if (node.followsParent()) {
        elementsOfFirst[k] = elementsOfFirst[node.parent.index];
      }
      long most = Math.max(elementsOfFirst[k], bytesOfFirst[k]);
      if (most > MOST) {
        throw new LwmqException(Status.TOO_BIG, "one row has " + most
            + (node.kind == BatchNode.Kind.BYTES ? " bytes in " : " elements in ") + node.path
            + ", a batch holds at most " + MOST);
      }
    }
  }

  /** Adds what value {@code i} of {@code from} needs below {@code node}. */
  private void measure(BatchNode node, SpecializedGetters from, int i) {
    if (!node.varies || from.isNullAt(i)) {
      return;
    }
    switch (node.kind) {
      case BYTES -> bytesOfFirst[node.index] += node.type instanceof BinaryType
          ? from.getBinary(i).length
          : from.getUTF8String(i).numBytes();
      case LIST -> measureList(node, from, i);
      default -> measureStruct(node, from, i);
    }
  }

  private void measureList(BatchNode node, SpecializedGetters from, int i) {
    BatchNode element = node.children.get(0);
    if (node.type instanceof MapType) {
      MapData map = from.getMap(i);
      elementsOfFirst[element.index] += map.numElements();
      measureAll(element.children.get(0), map.keyArray());
      measureAll(element.children.get(1), map.valueArray());
    } else {
      ArrayData array = from.getArray(i);
      elementsOfFirst[element.index] += array.numElements();
      measureAll(element, array);
    }
  }

  private void measureAll(BatchNode element, ArrayData array) {
    for (int j = 0; element.varies && j < array.numElements(); j++) {
      measure(element, array, j);
    }
  }

  private void measureStruct(BatchNode node, SpecializedGetters from, int i) {
    if (node.type instanceof VariantType) {
      VariantVal variant = from.getVariant(i);
      bytesOfFirst[node.children.get(0).index] += variant.getValue().length;
      bytesOfFirst[node.children.get(1).index] += variant.getMetadata().length;
      return;
    }
    InternalRow struct = from.getStruct(i, node.children.size());
    for (int j = 0; j < node.children.size(); j++) {
      measure(node.children.get(j), struct, j);
    }
  }

  /** The first row as it is, and so many as are expected. */
  private void size(int rowCount) {
    rows = rowCount;
    for (BatchNode node : nodes) {
      int k = node.index;
      capacity[k] = node.isTop() ? rows
          : node.followsParent() ? capacity[node.parent.index]
          : (int) bounded(elementsOfFirst[k] + (rows - 1) * elementsOfRow[k]);
      room[k] = bounded(bytesOfFirst[k] + (rows - 1) * bytesOfRow[k]);
    }
    bytes = place(0);
  }

  private static long bounded(double value) {
    return (long) Math.min(Math.ceil(value), MOST);
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
