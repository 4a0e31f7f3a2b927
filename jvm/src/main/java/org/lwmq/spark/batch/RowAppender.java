package org.lwmq.spark.batch;

import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.Platform;

/**
 * Stores rows into a batch that is laid out in native memory, directly from Spark's rows and without a copy on the way.
 * One thread.
 *
 * <p>A subclass is generated for each schema ({@link AppenderSource}). It keeps addresses and counters in fields, so
 * that a row costs loads and stores only. {@link #bind} directs it to a planned {@link BatchLayout}. From then on each
 * row is either stored whole or refused, and a refused row leaves nothing that counts. Every store stays within the
 * capacities of the layout: a store outside of the block would crash the JVM.
 *
 * <p>Public because generated classes have a class loader of their own.
 */
public abstract class RowAppender {
  /**
   * Any shorter value is copied as this many bytes, if the source has them: branches of a loop would be mispredicted.
   */
  static final int WORDS_AT_ONCE = 32;
  /** Values of up to this many bytes are copied word by word, which is faster than a call. */
  private static final int WORDS_MAX = 64;

  /** Elements stored, by node; up to date after {@link #save}. */
  protected final int[] count;
  /** Bytes stored, by node; up to date after {@link #save}. */
  protected final long[] used;
  /** Rows stored since {@link #bind}. */
  protected int rows;
  /** How many rows fit. */
  protected int rowsMax;

  private byte[] scratch = new byte[0];

  protected RowAppender(int nodes) {
    count = new int[nodes];
    used = new long[nodes];
  }

  /** Stores one row. False: it does not fit, and nothing of it was stored. */
  public abstract boolean append(InternalRow row);

  /** Stores rows until one does not fit, and returns that row; null when all were stored. */
  public abstract InternalRow appendAll(Iterator<InternalRow> rowsToCome);

  /** Copies the addresses into the fields of the subclass, and begins at row 0. */
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

  /** How many rows still fit, in a layout without values of varying size. */
  final int room() {
    return rowsMax - rows;
  }

  /** Counts {@code n} rows that somebody else has stored behind the last one. */
  final void added(int n) {
    rows += n;
  }

  /** The elements of every node so far; afterwards {@link #used} has the bytes. */
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

  /** Sets a bit, which is 0, to {@code bit}. */
  protected static void orBit(long bits, int at, byte bit) {
    long address = bits + (at >> 3);
    Platform.putByte(null, address, (byte) (Platform.getByte(null, address) | (bit << (at & 7))));
  }

  /**
   * Copies a value of an UnsafeRow, which pads its values to words. The layout has {@link #WORDS_AT_ONCE} bytes of room
   * behind the last value.
   *
   * @param safe the last place of {@code base} from which {@link #WORDS_AT_ONCE} bytes can be read
   */
  protected static void copyWords(byte[] base, long from, long to, int bytes, long safe) {
    if (bytes <= WORDS_AT_ONCE && from <= safe) {
      Platform.putLong(null, to, Platform.getLong(base, from));
      Platform.putLong(null, to + 8, Platform.getLong(base, from + 8));
      Platform.putLong(null, to + 16, Platform.getLong(base, from + 16));
      Platform.putLong(null, to + 24, Platform.getLong(base, from + 24));
    } else if (bytes <= WORDS_MAX) {
      for (int i = 0; i < bytes; i += 8) {
        Platform.putLong(null, to + i, Platform.getLong(base, from + i));
      }
    } else {
      Platform.copyMemory(base, from, null, to, bytes);
    }
  }

  /** The bytes of a row that lies in a page of Spark or outside of the heap. Valid until the next call. */
  protected final byte[] copyOf(UnsafeRow row) {
    int bytes = row.getSizeInBytes();
    if (scratch.length < bytes + WORDS_AT_ONCE) {
      scratch = new byte[2 * bytes + WORDS_AT_ONCE];
    }
    Platform.copyMemory(row.getBaseObject(), row.getBaseOffset(), scratch, Platform.BYTE_ARRAY_OFFSET, bytes);
    return scratch;
  }

  /** Stores a decimal of at most 18 digits. */
  protected static void putDecimal(long address, long unscaled) {
    Platform.putLong(null, address, unscaled);
    Platform.putLong(null, address + 8, unscaled >> 63);
  }

  /** Stores a decimal of any precision. */
  protected static void putDecimal(long address, Decimal value) {
    byte[] bytes = value.toJavaBigDecimal().unscaledValue().toByteArray();
    putDecimal(address, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
  }

  /** Stores a wide decimal as Spark keeps it: a two's complement number of {@code bytes} bytes, highest first. */
  protected static void putDecimal(long address, Object base, long from, int bytes) {
    long low = 0;
    long high = Platform.getByte(base, from) < 0 ? -1 : 0;
    long sign = high;
    for (int i = 0; i < bytes; i++) {
      long digit = Platform.getByte(base, from + bytes - 1 - i) & 0xffL;
      if (i < 8) {
        low |= digit << (8 * i);
      } else {
        int shift = 8 * (i - 8);
        high = (high & ~(0xffL << shift)) | (digit << shift);
      }
    }
    if (bytes < 8) {
      low |= sign << (8 * bytes);
    }
    Platform.putLong(null, address, low);
    Platform.putLong(null, address + 8, high);
  }

  protected static void putInterval(long address, int months, int days, long micros) {
    Platform.putInt(null, address, months);
    Platform.putInt(null, address + 4, days);
    Platform.putLong(null, address + 8, Math.multiplyExact(micros, 1000L));
  }
}
