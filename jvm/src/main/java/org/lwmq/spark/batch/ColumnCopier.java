package org.lwmq.spark.batch;

import org.apache.spark.sql.execution.vectorized.OffHeapColumnVector;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.CalendarIntervalType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Copies a range of one flat column of Spark into Arrow buffers at given addresses: in whole runs where the vector has
 * its values as a run, otherwise value by value. Executor, stateless.
 */
final class ColumnCopier {
  private ColumnCopier() {}

  /** Whether this class copies columns of {@code node}. It copies no lists and no structs. */
  static boolean copies(BatchNode node) {
    return node.kind != BatchNode.Kind.LIST && node.kind != BatchNode.Kind.STRUCT;
  }

  /** Whether {@link #pick} knows columns of {@code node}: numbers of up to 8 bytes, and what is stored like them. */
  static boolean picks(BatchNode node) {
    return node.kind == BatchNode.Kind.FIXED && node.width <= 8;
  }

  /**
   * Copies the values {@code places[from]} to {@code places[from + n - 1]} of a column, as elements {@code at} and
   * following of a node, whose bits of validity are set.
   */
  static void pick(
      BatchNode node, ColumnVector column, int[] places, int from, int n, long validity, long values, int at) {
    if (column.hasNull()) {
      for (int i = 0; i < n; i++) {
        if (column.isNullAt(places[from + i])) {
          RowAppender.setNull(validity, at + i);
        }
      }
    }
    long to = values + (long) at * node.width;
    if (node.type instanceof DoubleType) {
      for (int i = 0; i < n; i++) {
        Platform.putDouble(null, to + 8L * i, column.getDouble(places[from + i]));
      }
    } else if (node.type instanceof FloatType) {
      for (int i = 0; i < n; i++) {
        Platform.putFloat(null, to + 4L * i, column.getFloat(places[from + i]));
      }
    } else if (node.width == 8) {
      for (int i = 0; i < n; i++) {
        Platform.putLong(null, to + 8L * i, column.getLong(places[from + i]));
      }
    } else if (node.width == 4) {
      for (int i = 0; i < n; i++) {
        Platform.putInt(null, to + 4L * i, column.getInt(places[from + i]));
      }
    } else if (node.width == 2) {
      for (int i = 0; i < n; i++) {
        Platform.putShort(null, to + 2L * i, column.getShort(places[from + i]));
      }
    } else {
      for (int i = 0; i < n; i++) {
        Platform.putByte(null, to + i, column.getByte(places[from + i]));
      }
    }
  }

  /** Bytes of {@code n} values of a BYTES column, from row {@code from} on. */
  static long valueBytes(BatchNode node, ColumnVector column, int from, int n) {
    if (column instanceof WindowColumnVector window && window.offsets(from) != 0) {
      long offsets = window.offsets(from);
      long bytes = (long) Platform.getInt(null, offsets + 4L * n) - Platform.getInt(null, offsets);
      return Math.max(0, Math.min(bytes, window.bytesSize())); // the copy checks every offset
    }
    long bytes = 0;
    for (int i = from; i < from + n; i++) {
      if (!column.isNullAt(i)) {
        bytes += node.type instanceof BinaryType
            ? column.getBinary(i).length
            : column.getUTF8String(i).numBytes();
      }
    }
    return bytes;
  }

  /** Writes the validity bitmap and returns the number of nulls. */
  static long validity(ColumnVector column, int from, int n, long to) {
    if ((from & 7) == 0 && column instanceof WindowColumnVector window && window.validityBits(from) != 0) {
      copyBits(window.validityBits(from), n, to);
      return n - Bits.ones(to, n); // counted in the copy, which no peer can write
    }
    long nulls = 0;
    for (int i = 0; i < n; i += 8) {
      int bits = 0;
      int end = Math.min(8, n - i);
      for (int j = 0; j < end; j++) {
        if (column.isNullAt(from + i + j)) {
          nulls++;
        } else {
          bits |= 1 << j;
        }
      }
      Platform.putByte(null, to + (i >> 3), (byte) bits);
    }
    return nulls;
  }

  static void bits(ColumnVector column, int from, int n, long to) {
    if ((from & 7) == 0 && column instanceof WindowColumnVector window && window.plainBits(from) != 0) {
      copyBits(window.plainBits(from), n, to);
      return;
    }
    for (int i = 0; i < n; i += 8) {
      int bits = 0;
      int end = Math.min(8, n - i);
      for (int j = 0; j < end; j++) {
        int row = from + i + j;
        bits |= !column.isNullAt(row) && column.getBoolean(row) ? 1 << j : 0;
      }
      Platform.putByte(null, to + (i >> 3), (byte) bits);
    }
  }

  static void fixed(BatchNode node, ColumnVector column, int from, int n, long to) {
    long bytes = (long) n * node.width;
    if (column instanceof WindowColumnVector window && window.plainRun(from, node.width) != 0) {
      Platform.copyMemory(null, window.plainRun(from, node.width), null, to, bytes);
    } else if (node.type instanceof DecimalType decimal) {
      decimals(decimal, column, from, n, to);
    } else if (node.type instanceof CalendarIntervalType) {
      intervals(column, from, n, to);
    } else if (column instanceof OffHeapColumnVector offHeap && !offHeap.hasDictionary()
        && offHeap.valuesNativeAddress() != 0) {
      long values = offHeap.valuesNativeAddress() + (long) from * node.width;
      Platform.copyMemory(null, values, null, to, bytes);
    } else if (node.type instanceof DoubleType) {
      Platform.copyMemory(column.getDoubles(from, n), Platform.DOUBLE_ARRAY_OFFSET, null, to, bytes);
    } else if (node.type instanceof FloatType) {
      Platform.copyMemory(column.getFloats(from, n), Platform.FLOAT_ARRAY_OFFSET, null, to, bytes);
    } else if (node.type instanceof ByteType) {
      Platform.copyMemory(column.getBytes(from, n), Platform.BYTE_ARRAY_OFFSET, null, to, bytes);
    } else if (node.width == Short.BYTES) {
      Platform.copyMemory(column.getShorts(from, n), Platform.SHORT_ARRAY_OFFSET, null, to, bytes);
    } else if (node.width == Integer.BYTES) {
      Platform.copyMemory(column.getInts(from, n), Platform.INT_ARRAY_OFFSET, null, to, bytes);
    } else {
      Platform.copyMemory(column.getLongs(from, n), Platform.LONG_ARRAY_OFFSET, null, to, bytes);
    }
  }

  /** Copies offsets and values. The values are bounded by {@code room}, even if the column changes meanwhile. */
  static void bytes(BatchNode node, ColumnVector column, int from, int n, long offsets, long values, long room) {
    if (column instanceof WindowColumnVector window && window.offsets(from) != 0) {
      run(node, window, from, n, offsets, values, room);
      return;
    }
    boolean binary = node.type instanceof BinaryType;
    long at = 0;
    Platform.putInt(null, offsets, 0);
    for (int i = 0; i < n; i++) {
      if (!column.isNullAt(from + i)) {
        Object base;
        long start;
        int length;
        if (binary) {
          byte[] value = column.getBinary(from + i);
          base = value;
          start = Platform.BYTE_ARRAY_OFFSET;
          length = value.length;
        } else {
          UTF8String value = column.getUTF8String(from + i);
          base = value.getBaseObject();
          start = value.getBaseOffset();
          length = value.numBytes();
        }
        if (length > room - at) {
          throw new IllegalStateException("the values of " + node.path + " grew while they were copied");
        }
        Platform.copyMemory(base, start, null, values + at, length);
        at += length;
      }
      Platform.putInt(null, offsets + 4L * i + 4, (int) at);
    }
  }

  /** The same for strings that lie one behind the other: checks and rebases the offsets, copies all bytes at once. */
  private static void run(
      BatchNode node, WindowColumnVector column, int from, int n, long offsets, long values, long room) {
    long source = column.offsets(from);
    int first = Platform.getInt(null, source);
    int last = first;
    Platform.putInt(null, offsets, 0);
    for (int i = 1; i <= n; i++) {
      int end = Platform.getInt(null, source + 4L * i);
      if (end < last) {
        throw new IllegalStateException(
            "the offsets of " + node.path + " go back from " + last + " to " + end + " at row " + (from + i));
      }
      last = end;
      Platform.putInt(null, offsets + 4L * i, end - first);
    }
    if (first < 0 || last > column.bytesSize() || last - first > room) {
      throw new IllegalStateException("the offsets of " + node.path + " run from " + first + " to " + last
          + ", over " + column.bytesSize() + " bytes, of which " + room + " were announced");
    }
    Platform.copyMemory(null, column.bytes() + first, null, values, last - first);
  }

  /** Copies {@code n} bits, of which the first begins a byte. The bits behind the last one become 0. */
  private static void copyBits(long source, int n, long to) {
    int whole = n >> 3;
    Platform.copyMemory(null, source, null, to, whole);
    if ((n & 7) != 0) {
      int rest = Platform.getByte(null, source + whole) & ((1 << (n & 7)) - 1);
      Platform.putByte(null, to + whole, (byte) rest);
    }
  }

  private static void decimals(DecimalType type, ColumnVector column, int from, int n, long to) {
    for (int i = 0; i < n; i++) {
      long address = to + 16L * i;
      if (column.isNullAt(from + i)) {
        RowAppender.putDecimal(address, 0L);
      } else if (type.precision() <= 18) {
        RowAppender.putDecimal(
            address, column.getDecimal(from + i, type.precision(), type.scale()).toUnscaledLong());
      } else {
        RowAppender.putDecimal(address, column.getDecimal(from + i, type.precision(), type.scale()));
      }
    }
  }

  private static void intervals(ColumnVector column, int from, int n, long to) {
    for (int i = 0; i < n; i++) {
      if (column.isNullAt(from + i)) {
        RowAppender.putInterval(to + 16L * i, 0, 0, 0);
      } else {
        CalendarInterval value = column.getInterval(from + i);
        RowAppender.putInterval(to + 16L * i, value.months, value.days, value.microseconds);
      }
    }
  }
}
