package org.lwmq.spark.batch;

import java.util.List;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.spark.unsafe.Platform;

/**
 * Whether bytes are UTF-8: ASCII is looked at 32 bytes at a time, anything else by an automaton of one table look-up and
 * one shift a byte. Stateless.
 *
 * <p>A row of {@link #TABLE} says, for one byte, where it leads from each state: six bits, at the place that is the
 * number of the state. So the low six bits of a shifted row are the next state, and Java masks a shift to six bits by
 * itself.
 */
final class Utf8 {
  private static final int BLOCK = 32;
  private static final long HIGH_BITS = 0x8080808080808080L;

  private static final int REFUSED = 0; // from here no byte leads away
  private static final int BETWEEN = 6; // characters: the only state in which a text may end
  private static final int ONE_MORE = 12; // continuation byte
  private static final int TWO_MORE = 18;
  private static final int THREE_MORE = 24;
  private static final int AFTER_E0 = 30; // no overlong form
  private static final int AFTER_ED = 36; // no surrogate
  private static final int AFTER_F0 = 42; // no overlong form
  private static final int AFTER_F4 = 48; // nothing beyond U+10FFFF
  private static final long[] TABLE = table();

  private Utf8() {}

  /** Whether {@code bytes} bytes from {@code from} on are UTF-8; {@code base} is an array, or null for native memory. */
  static boolean isValid(Object base, long from, long bytes) {
    long end = from + bytes;
    return follows(base, skipAscii(base, from, end), end);
  }

  /** Whether each of {@code n} strings that lie one behind the other is UTF-8; {@code offsets} are Arrow's, of 32 bits. */
  static boolean areValid(long offsets, int n, long values) {
    long last = Platform.getInt(null, offsets + 4L * n);
    long at = skipAscii(null, values + Platform.getInt(null, offsets), values + last);
    if (at == values + last) {
      return true;
    }
    if (!follows(null, at, values + last)) {
      return false;
    }
    for (int i = 1; i < n; i++) { // all of it is, so a string that begins between characters is, too
      int begin = Platform.getInt(null, offsets + 4L * i);
      if (begin < last && isContinuation(Platform.getByte(null, values + begin))) {
        return false;
      }
    }
    return true;
  }

  /** Whether all strings of {@code vectors}, and of those below them, are UTF-8. */
  static boolean areValid(List<FieldVector> vectors) {
    for (FieldVector vector : vectors) {
      if (vector instanceof VarCharVector texts && texts.getValueCount() > 0
          && !areValid(texts.getOffsetBufferAddress(), texts.getValueCount(), texts.getDataBufferAddress())
          || !areValid(vector.getChildrenFromFields())) {
        return false;
      }
    }
    return true;
  }

  /** The first place from {@code at} on, below {@code end}, that is not ASCII. */
  private static long skipAscii(Object base, long at, long end) {
    long next = at;
    while (next + BLOCK <= end
        && ((Platform.getLong(base, next) | Platform.getLong(base, next + 8)
            | Platform.getLong(base, next + 16) | Platform.getLong(base, next + 24)) & HIGH_BITS) == 0) {
      next += BLOCK;
    }
    while (next < end && Platform.getByte(base, next) >= 0) {
      next++;
    }
    return next;
  }

  /** Whether what lies from {@code from}, where a character begins, to {@code end} is UTF-8. */
  private static boolean follows(Object base, long from, long end) {
    long state = BETWEEN;
    long at = from;
    while (at + BLOCK <= end) {
      for (int i = 0; i < BLOCK; i += 8) {
        long word = Platform.getLong(base, at + i);
        for (int shift = 0; shift < 64; shift += 8) {
          state = TABLE[(int) (word >>> shift) & 0xff] >>> state;
        }
      }
      at += BLOCK;
      if ((state & 63) == BETWEEN) {
        at = skipAscii(base, at, end);
      } else if ((state & 63) == REFUSED) {
        return false;
      }
    }
    for (; at < end; at++) {
      state = TABLE[Platform.getByte(base, at) & 0xff] >>> state;
    }
    return (state & 63) == BETWEEN;
  }

  private static boolean isContinuation(byte b) {
    return (b & 0xc0) == 0x80;
  }

  private static long[] table() {
    long[] table = new long[256];
    lead(table, 0x00, 0x7f, BETWEEN, BETWEEN);
    lead(table, 0xc2, 0xdf, BETWEEN, ONE_MORE);
    lead(table, 0xe0, 0xef, BETWEEN, TWO_MORE);
    lead(table, 0xe0, 0xe0, BETWEEN, AFTER_E0);
    lead(table, 0xed, 0xed, BETWEEN, AFTER_ED);
    lead(table, 0xf1, 0xf3, BETWEEN, THREE_MORE);
    lead(table, 0xf0, 0xf0, BETWEEN, AFTER_F0);
    lead(table, 0xf4, 0xf4, BETWEEN, AFTER_F4);
    lead(table, 0x80, 0xbf, ONE_MORE, BETWEEN);
    lead(table, 0x80, 0xbf, TWO_MORE, ONE_MORE);
    lead(table, 0x80, 0xbf, THREE_MORE, TWO_MORE);
    lead(table, 0xa0, 0xbf, AFTER_E0, ONE_MORE);
    lead(table, 0x80, 0x9f, AFTER_ED, ONE_MORE);
    lead(table, 0x90, 0xbf, AFTER_F0, TWO_MORE);
    lead(table, 0x80, 0x8f, AFTER_F4, TWO_MORE);
    return table;
  }

  private static void lead(long[] table, int first, int last, int from, int to) {
    for (int b = first; b <= last; b++) {
      table[b] = table[b] & ~(63L << from) | ((long) to << from);
    }
  }
}
