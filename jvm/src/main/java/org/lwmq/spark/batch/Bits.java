package org.lwmq.spark.batch;

import org.apache.spark.unsafe.Platform;

/** Bitmaps in native memory, lowest bit first. */
final class Bits {
  private Bits() {}

  /** How many of the first {@code n} bits are 1. The last word is read whole. */
  static long ones(long bitmap, int n) {
    long ones = 0;
    int whole = n >> 6;
    for (int i = 0; i < whole; i++) {
      ones += Long.bitCount(Platform.getLong(null, bitmap + 8L * i));
    }
    int rest = n & 63;
    if (rest != 0) {
      ones += Long.bitCount(Platform.getLong(null, bitmap + 8L * whole) & ((1L << rest) - 1));
    }
    return ones;
  }

  /** How many of the first {@code n} bits are 1 in {@code bitmap} and 0 in {@code other}. Last words are read whole. */
  static long onesAlone(long bitmap, long other, int n) {
    long ones = 0;
    for (int i = 0; i < n; i += 64) {
      long alone = Platform.getLong(null, bitmap + (i >> 3)) & ~Platform.getLong(null, other + (i >> 3));
      ones += Long.bitCount(n - i < 64 ? alone & ((1L << (n - i)) - 1) : alone);
    }
    return ones;
  }
}
