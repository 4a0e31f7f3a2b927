package org.lwmq.core;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;

/**
 * What a reader wants of the rows of a batch: a comparison of a column with a value, as {@code lwmq_filter}. A batch in
 * which no row can match is passed over; the others come with all of their rows. A value.
 *
 * @param column the name of a top-level field
 * @param bits of the value: an integer, a {@code double}, or the first eight bytes of a text, by which it compares
 */
public record Filter(String column, Comparison comparison, Kind kind, long bits) implements Serializable {
  private static final int TEXT_BYTES = Long.BYTES;

  /** In the order of {@code lwmq_comparison}, which begins with 1. */
  public enum Comparison {
    EQUAL,
    LESS,
    LESS_OR_EQUAL,
    GREATER,
    GREATER_OR_EQUAL,
    IS_NULL,
    IS_NOT_NULL
  }

  /** In the order of {@code lwmq_literal_kind}. */
  public enum Kind {
    NONE,
    INTEGER,
    REAL,
    BYTES,
    DAYS,
    MICROSECONDS
  }

  /** Null or not null. */
  public static Filter ofNull(String column, Comparison comparison) {
    return new Filter(column, comparison, Kind.NONE, 0);
  }

  /** The bits of a text. */
  public static long bits(byte[] text) {
    return ByteBuffer.wrap(Arrays.copyOf(text, TEXT_BYTES)).getLong();
  }

  /** Comparison, kind and bits of each filter, one after the other; null where there are none. */
  static long[] flat(List<Filter> filters) {
    long[] flat = new long[3 * filters.size()];
    for (int i = 0; i < filters.size(); i++) {
      Filter filter = filters.get(i);
      flat[3 * i] = filter.comparison.ordinal() + 1L;
      flat[3 * i + 1] = filter.kind.ordinal();
      flat[3 * i + 2] = filter.bits;
    }
    return filters.isEmpty() ? null : flat;
  }
}
