package org.lwmq.spark.batch;

import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.Platform;

/**
 * Stores rows into a batch that is laid out in native memory, straight from Spark's row and without a copy on the way.
 *
 * <p>The subclass is generated for one schema ({@link AppenderSource}) and keeps addresses and counters in fields of
 * its own, so that a row costs loads and stores only.
 *
 * <p>Public because generated classes live in a loader of their own. One thread.
 */
public abstract class RowAppender extends BatchAppender {
  /** So many bytes are copied for any shorter value, if the source has them: a loop would be mispredicted. */
  static final int WORDS_AT_ONCE = 32;
  /** A value up to here is copied word by word, which is quicker than a call. */
  private static final int WORDS_MAX = 64;

  private byte[] scratch = new byte[0];

  protected RowAppender(int nodes) {
    super(nodes);
  }

  /** Stores one row, or refuses it. */
  public abstract boolean append(InternalRow row);

  /** Stores rows until one is refused, which is returned, or until there are no more: null. */
  public abstract InternalRow appendAll(Iterator<InternalRow> rowsToCome);

  /**
   * Copies a value behind which up to a word may be read, as in an UnsafeRow; the layout leaves {@link #WORDS_AT_ONCE}
   * behind the last value.
   *
   * @param safe the last place of {@code base} from which so many bytes can be read
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

  /** The bytes of a row that lies in a page of Spark's or outside the heap. Valid until the next call. */
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

  /** Stores the two's complement number of {@code bytes} bytes, highest first, that Spark keeps for wide decimals. */
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
