package org.lwmq.arrow;

import org.apache.arrow.vector.types.pojo.ArrowType;

/**
 * Which buffers a type has after its validity bits, and how long each must be: the table of the Arrow format.
 *
 * @param hasValidity whether validity bits come first
 * @param bits of each value in each buffer; 0: any length will do (bytes that offsets point into)
 * @param fenced whether the first buffer has one value more than the column: offsets
 * @param isView whether any number of data buffers follows, counted in the batch
 */
record BufferLayout(boolean hasValidity, int[] bits, boolean fenced, boolean isView) {
  private static final BufferLayout NOTHING = new BufferLayout(false, new int[0], false, false);
  private static final BufferLayout VALIDITY = new BufferLayout(true, new int[0], false, false);
  private static final BufferLayout BITS = fixed(1);
  private static final BufferLayout BYTES = new BufferLayout(true, new int[] {32, 0}, true, false);
  private static final BufferLayout LARGE_BYTES = new BufferLayout(true, new int[] {64, 0}, true, false);
  private static final BufferLayout VIEWS = new BufferLayout(true, new int[] {128}, false, true);
  private static final BufferLayout OFFSETS = new BufferLayout(true, new int[] {32}, true, false);
  private static final BufferLayout LARGE_OFFSETS = new BufferLayout(true, new int[] {64}, true, false);
  private static final BufferLayout LIST_VIEWS = new BufferLayout(true, new int[] {32, 32}, false, false);
  private static final BufferLayout LARGE_LIST_VIEWS = new BufferLayout(true, new int[] {64, 64}, false, false);

  static BufferLayout of(ArrowType type) {
    return switch (type.getTypeID()) {
      case Null, RunEndEncoded -> NOTHING;
      case Struct, FixedSizeList -> VALIDITY;
      case Bool -> BITS;
      case Int -> fixed(((ArrowType.Int) type).getBitWidth());
      case FloatingPoint ->
          switch (((ArrowType.FloatingPoint) type).getPrecision()) {
            case HALF -> fixed(16);
            case SINGLE -> fixed(32);
            case DOUBLE -> fixed(64);
          };
      case Decimal -> fixed(((ArrowType.Decimal) type).getBitWidth());
      case Date ->
          switch (((ArrowType.Date) type).getUnit()) {
            case DAY -> fixed(32);
            case MILLISECOND -> fixed(64);
          };
      case Time -> fixed(((ArrowType.Time) type).getBitWidth());
      case Timestamp, Duration -> fixed(64);
      case Interval ->
          switch (((ArrowType.Interval) type).getUnit()) {
            case YEAR_MONTH -> fixed(32);
            case DAY_TIME -> fixed(64);
            case MONTH_DAY_NANO -> fixed(128);
          };
      case FixedSizeBinary -> fixed(8 * ((ArrowType.FixedSizeBinary) type).getByteWidth());
      case Utf8, Binary -> BYTES;
      case LargeUtf8, LargeBinary -> LARGE_BYTES;
      case Utf8View, BinaryView -> VIEWS;
      case List, Map -> OFFSETS;
      case LargeList -> LARGE_OFFSETS;
      case ListView -> LIST_VIEWS;
      case LargeListView -> LARGE_LIST_VIEWS;
      case Union ->
          switch (((ArrowType.Union) type).getMode()) {
            case Sparse -> new BufferLayout(false, new int[] {8}, false, false);
            case Dense -> new BufferLayout(false, new int[] {8, 32}, false, false);
          };
      default -> throw new IllegalArgumentException("no layout is known for the Arrow type " + type);
    };
  }

  /** The least length of buffer {@code index} in a column of {@code length} values. */
  long bytesMin(int index, int length) {
    if (length == 0) {
      return 0; // even the one offset of an empty column may be missing
    }
    long values = index == 0 && fenced ? length + 1L : length;
    return (values * bits[index] + 7) / 8;
  }

  private static BufferLayout fixed(int bits) {
    return new BufferLayout(true, new int[] {bits}, false, false);
  }
}
