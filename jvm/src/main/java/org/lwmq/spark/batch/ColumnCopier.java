package org.lwmq.spark.batch;

import org.apache.spark.sql.execution.vectorized.OffHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
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
import org.lwmq.spark.vector.WindowColumnVector;

/**
 * Copies a range of one flat column of Spark's into Arrow buffers at given addresses: whole runs of values where the
 * vector has them as runs, value by value where it must be asked. Task side; stateless.
 */
final class ColumnCopier {
  private ColumnCopier() {}

  /** Whether columns of {@code node} are copied here; lists and structs are not. */
  static boolean copies(BatchNode node) {
    return node.kind != BatchNode.Kind.LIST && node.kind != BatchNode.Kind.STRUCT;
  }

  /** Bytes of the values of a BYTES column from row {@code from}, {@code n} of them. */
  static long valueBytes(BatchNode node, ColumnVector column, int from, int n) {
    if (column instanceof WindowColumnVector window && window.offsets(from) != 0) {
      long offsets = window.offsets(from);
      long bytes = (long) Platform.getInt(null, offsets + 4L * n) - Platform.getInt(null, offsets);
      return Math.max(0, Math.min(bytes, window.bytesSize())); // the copy checks every one
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

  /** Writes the validity bitmap, and answers how many are null. */
  static long validity(ColumnVector column, int from, int n, long to) {
    if ((from & 7) == 0 && column instanceof WindowColumnVector window && window.validityBits(from) != 0) {
      copyBits(window.validityBits(from), n, to);
      return n - Bits.ones(to, n); // of the copy, which nobody else writes
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
    } else if (column.hasNull() && !hasValuesUnderNulls(column)) {
      present(node, column, from, n, to);
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

  /** Offsets and values; {@code room} bounds the values, whatever the column says the second time it is asked. */
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

  /** The same for strings that lie one behind the other: offsets are rebased and checked, bytes copied at once. */
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

  /** Copies {@code n} bits that begin with a byte; those behind the last one become 0. */
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

  /** Whether a value may be asked for where it is null. ArrowColumnVector, and who knows who else, throws. */
  private static boolean hasValuesUnderNulls(ColumnVector column) {
    return column instanceof WritableColumnVector || column instanceof WindowColumnVector;
  }

  /** Copies the values that are not null; the others become 0. */
  private static void present(BatchNode node, ColumnVector column, int from, int n, long to) {
    Platform.setMemory(to, (byte) 0, (long) n * node.width);
    for (int i = 0; i < n; i++) {
      if (!column.isNullAt(from + i)) {
        fixed(node, column, from + i, to + (long) node.width * i);
      }
    }
  }

  private static void fixed(BatchNode node, ColumnVector column, int row, long to) {
    if (node.type instanceof DoubleType) {
      Platform.putDouble(null, to, column.getDouble(row));
    } else if (node.type instanceof FloatType) {
      Platform.putFloat(null, to, column.getFloat(row));
    } else if (node.type instanceof ByteType) {
      Platform.putByte(null, to, column.getByte(row));
    } else if (node.width == Short.BYTES) {
      Platform.putShort(null, to, column.getShort(row));
    } else if (node.width == Integer.BYTES) {
      Platform.putInt(null, to, column.getInt(row));
    } else {
      Platform.putLong(null, to, column.getLong(row));
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
