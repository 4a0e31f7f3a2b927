package org.lwmq.spark.batch;

/** IEEE 754 half precision, which the JDK has from version 20 on. */
final class HalfFloat {
  private static final int EXPONENT_MAX = 31;
  private static final float SUBNORMAL_UNIT = 0x1p-24f;

  private HalfFloat() {}

  /** Exact: every half float is also a float. */
  static float toFloat(short half) {
    int exponent = (half >> 10) & EXPONENT_MAX;
    int fraction = half & 0x3FF;
    int sign = (half & 0x8000) << 16;
    if (exponent == 0) {
      float magnitude = fraction * SUBNORMAL_UNIT;
      return sign == 0 ? magnitude : -magnitude;
    }
    int wide = exponent == EXPONENT_MAX ? 255 : exponent - 15 + 127;
    return Float.intBitsToFloat(sign | (wide << 23) | (fraction << 13));
  }
}
