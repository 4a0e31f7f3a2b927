package org.lwmq.spark.vector;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.BinaryView;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.UTF8String;
import org.lwmq.core.Status;
import org.lwmq.spark.failure.Failures;

/**
 * A Spark column straight over the addresses of an Arrow column: no copy, no object per value but those Spark asks for.
 * Lives in executors, in one thread at a time. Valid as long as the batch is leased.
 *
 * <p>It is the only kind of vector that we give to Spark: a second one would make Spark's generated call sites
 * polymorphic, and both slow. So what differs between types is {@link #encoding}, not the class.
 *
 * <p>The memory belongs to a peer, who may write to it while we read. Each offset, view or index is therefore loaded
 * once, compared with the bounds that were fixed when the batch came, and only then used.
 */
public final class WindowColumnVector extends ColumnVector {
  // How the values lie in memory; see VectorFactory for which type is which.
  static final int PLAIN = 0; // as Spark has them
  static final int NOTHING = 1; // all null
  static final int CONSTANT = 2; // the same in every row
  static final int UINT8 = 3;
  static final int UINT16 = 4;
  static final int UINT32 = 5;
  static final int UINT64 = 6; // a decimal
  static final int HALF = 7;
  static final int TIME32 = 8; // an int, a time of day in units of `factor` nanoseconds
  static final int TIME64 = 9; // a long, likewise
  static final int SCALED64 = 10; // a long of a coarser unit: times `factor`
  static final int NANOS = 11; // a long of nanoseconds where Spark has microseconds
  static final int DAYS_OF_MILLIS = 12;
  static final int DAY_TIME = 13; // days and milliseconds, 32 bits each
  static final int MONTH_DAY_NANO = 14;
  static final int DECIMAL128 = 15;
  static final int DECIMAL = 16; // of `factor` bytes
  static final int BYTES32 = 17; // offsets, bytes
  static final int BYTES64 = 18;
  static final int BYTES_VIEW = 19; // 16-byte views
  static final int BYTES_FIXED = 20; // `factor` bytes each
  static final int LIST32 = 21; // offsets; maps, too
  static final int LIST64 = 22;
  static final int LIST_FIXED = 23; // `factor` elements each
  static final int LIST_VIEW32 = 24; // offsets, sizes
  static final int LIST_VIEW64 = 25;
  static final int DICTIONARY = 26; // values come from `target`, by index
  static final int RUNS = 27; // values come from `target`, by run

  private static final int VIEW_BYTES = 16;
  private static final int VIEW_INLINE_BYTES = 12;
  private static final long MILLIS_PER_DAY = 86_400_000L;
  private static final long NANOS_PER_DAY = 86_400_000_000_000L;
  private static final WindowColumnVector[] NONE = {};

  @SuppressWarnings("unused") // for the garbage collector: the memory is there as long as we are
  private final Object owner;
  private final int encoding;
  /** False in most columns: then {@link #isNullAt}, which Spark asks for every value, is one load and one branch. */
  private final boolean hasNull;
  private final String name;
  private final int length;
  private final long validity;
  private final long values;
  private final long second;
  /** How long the bytes at {@code second} are; for lists, how many elements there are. */
  private final long secondSize;
  private final long factor;
  private final WindowColumnVector[] children;
  private final WindowColumnVector target;
  private final Object constant;
  private final long[] viewBuffers;
  private final long[] viewSizes;
  private final int indexBits;
  private final boolean indexSigned;
  private final boolean isRequired; // a part of a variant

  /** Length of what {@link #locate} found last: the address is its result. */
  private int foundBytes;
  /** The run that was hit last: rows come in order. */
  private int run;

  WindowColumnVector(DataType type, VectorFactory.Parts parts) {
    super(type);
    this.owner = parts.owner;
    this.encoding = parts.encoding;
    this.name = parts.name;
    this.length = parts.length;
    this.validity = parts.validity;
    this.values = parts.values;
    this.second = parts.second;
    this.secondSize = parts.secondSize;
    this.factor = parts.factor;
    this.children = parts.children == null ? NONE : parts.children;
    this.target = parts.target;
    this.constant = parts.constant;
    this.viewBuffers = parts.viewBuffers;
    this.viewSizes = parts.viewSizes;
    this.indexBits = parts.indexBits;
    this.indexSigned = parts.indexSigned;
    this.isRequired = parts.isRequired;
    this.hasNull = validity != 0 || encoding == NOTHING || (target != null && target.hasNull());
  }

  /** Address of the values (of the offsets, where there are some): for proofs that nothing was copied. */
  public long valuesAddress() {
    return values;
  }

  public int rows() {
    return length;
  }

  /**
   * Address of row {@code from} where all values lie as a run of {@code width} bytes each, as Arrow writes Spark's type;
   * 0 where they have to be asked for one by one. What lies under a null is anything.
   */
  public long plainRun(int from, int width) {
    boolean plain = encoding == PLAIN || (encoding == DECIMAL128 && width == 16);
    return plain ? values + (long) from * width : 0;
  }

  /** Address of a boolean column's bits from row {@code from} on, a multiple of 8; 0 where there is no such run. */
  public long plainBits(int from) {
    return encoding == PLAIN ? values + (from >> 3) : 0;
  }

  /** Address of the validity bits from row {@code from} on, a multiple of 8; 0: none, or not as bits. */
  public long validityBits(int from) {
    return target == null && validity != 0 ? validity + (from >> 3) : 0;
  }

  /** Address of the 32-bit offset of row {@code from} of a string or binary column that has such; else 0. */
  public long offsets(int from) {
    return encoding == BYTES32 ? values + 4L * from : 0;
  }

  /** Address of the bytes that {@link #offsets} count from. */
  public long bytes() {
    return second;
  }

  /** How many bytes there are: no offset may pass it. */
  public long bytesSize() {
    return secondSize;
  }

  /** Nothing to do: the lease belongs to the reader of the batch. */
  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return hasNull;
  }

  @Override
  public int numNulls() {
    int nulls = 0;
    for (int row = 0; hasNull && row < length; row++) {
      nulls += isNullAt(row) ? 1 : 0;
    }
    return nulls;
  }

  @Override
  public boolean isNullAt(int row) {
    if (!hasNull) {
      return false;
    }
    if (validity != 0 && (Platform.getByte(null, validity + (row >> 3)) & (1 << (row & 7))) == 0) {
      return true;
    }
    return encoding == NOTHING || (target != null && target.isNullAt(place(row)));
  }

  @Override
  public boolean getBoolean(int row) {
    if (target != null) {
      return target.getBoolean(place(row));
    }
    return (Platform.getByte(null, values + (row >> 3)) & (1 << (row & 7))) != 0;
  }

  @Override
  public byte getByte(int row) {
    return target != null ? target.getByte(place(row)) : Platform.getByte(null, values + row);
  }

  @Override
  public short getShort(int row) {
    if (encoding == PLAIN) {
      return Platform.getShort(null, values + 2L * row);
    }
    return encoding == UINT8
        ? (short) (Platform.getByte(null, values + row) & 0xFF)
        : target.getShort(place(row));
  }

  @Override
  public int getInt(int row) {
    if (encoding == PLAIN) {
      return Platform.getInt(null, values + 4L * row);
    }
    return switch (encoding) {
      case UINT16 -> Platform.getShort(null, values + 2L * row) & 0xFFFF;
      case DAYS_OF_MILLIS -> isNullAt(row) ? 0 : days(Platform.getLong(null, values + 8L * row));
      case CONSTANT -> ((Number) constant).intValue();
      default -> target.getInt(place(row));
    };
  }

  @Override
  public long getLong(int row) {
    if (encoding == PLAIN) {
      return Platform.getLong(null, values + 8L * row);
    }
    if (encoding == UINT32) {
      return Platform.getInt(null, values + 4L * row) & 0xFFFF_FFFFL;
    }
    if (isNullAt(row)) {
      return 0; // what lies under a null may be anything, and need not convert
    }
    return switch (encoding) {
      case TIME32 -> timeOfDay(Platform.getInt(null, values + 4L * row));
      case TIME64 -> timeOfDay(Platform.getLong(null, values + 8L * row));
      case SCALED64 -> scaled(Platform.getLong(null, values + 8L * row));
      case NANOS -> micros(Platform.getLong(null, values + 8L * row));
      case DAY_TIME -> {
        long days = Platform.getInt(null, values + 8L * row);
        yield scaled(days * MILLIS_PER_DAY + Platform.getInt(null, values + 8L * row + 4));
      }
      case CONSTANT -> ((Number) constant).longValue();
      default -> target.getLong(place(row));
    };
  }

  @Override
  public float getFloat(int row) {
    if (encoding == PLAIN) {
      return Platform.getFloat(null, values + 4L * row);
    }
    return encoding == HALF
        ? HalfFloat.toFloat(Platform.getShort(null, values + 2L * row))
        : target.getFloat(place(row));
  }

  @Override
  public double getDouble(int row) {
    return encoding == PLAIN ? Platform.getDouble(null, values + 8L * row) : target.getDouble(place(row));
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    if (isNullAt(row)) {
      return null;
    }
    if (target != null) {
      return target.getDecimal(place(row), precision, scale);
    }
    if (encoding == DECIMAL128) {
      long low = Platform.getLong(null, values + 16L * row);
      long high = Platform.getLong(null, values + 16L * row + 8);
      if (high == low >> 63 && precision <= Decimal.MAX_LONG_DIGITS()) {
        return Decimal.apply(low, precision, scale);
      }
      return decimal(big(values + 16L * row, 16, true), precision, scale);
    }
    return decimal(big(values + factor * row, (int) factor, encoding != UINT64), precision, scale);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    if (isNullAt(row)) {
      return null;
    }
    if (encoding == CONSTANT) {
      return (UTF8String) constant;
    }
    if (target != null) {
      return target.getUTF8String(place(row));
    }
    long address = locate(row);
    return UTF8String.fromAddress(null, address, foundBytes);
  }

  @Override
  public byte[] getBinary(int row) {
    if (isNullAt(row)) {
      if (isRequired) { // Spark does not ask
        throw inexact("null in a variant that is not null itself");
      }
      return null;
    }
    if (target != null) {
      return target.getBinary(place(row));
    }
    long address = locate(row);
    byte[] copy = new byte[foundBytes];
    Platform.copyMemory(null, address, copy, Platform.BYTE_ARRAY_OFFSET, copy.length);
    return copy;
  }

  @Override
  public BinaryView getBinaryView(int row) {
    if (isNullAt(row)) {
      return null;
    }
    if (target != null) {
      return target.getBinaryView(place(row));
    }
    long address = locate(row);
    return BinaryView.fromAddress(null, address, foundBytes);
  }

  @Override
  public CalendarInterval getInterval(int row) {
    if (isNullAt(row)) {
      return null;
    }
    if (target != null) {
      return target.getInterval(place(row));
    }
    long at = values + 16L * row;
    return new CalendarInterval(
        Platform.getInt(null, at), Platform.getInt(null, at + 4), micros(Platform.getLong(null, at + 8)));
  }

  @Override
  public ColumnarArray getArray(int row) {
    if (isNullAt(row)) {
      return null;
    }
    if (target != null) {
      return target.getArray(place(row));
    }
    int start = firstElement(row);
    return new ColumnarArray(children[0], start, foundBytes);
  }

  @Override
  public ColumnarMap getMap(int row) {
    if (isNullAt(row)) {
      return null;
    }
    if (target != null) {
      return target.getMap(place(row));
    }
    int start = firstElement(row);
    int entries = foundBytes;
    for (int i = 0; children[0].hasNull() && i < entries; i++) {
      if (children[0].isNullAt(start + i)) { // Spark does not ask: its maps have none
        throw inexact("a map has a null key in entry " + i + " of " + entries + ", which neither Arrow nor Spark has");
      }
    }
    return new ColumnarMap(children[0], children[1], start, entries);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return children[ordinal];
  }

  // ---- where a value lies -------------------------------------------------------------------------

  /** Address of the bytes of a value; their number in {@link #foundBytes}. */
  private long locate(int row) {
    switch (encoding) {
      case BYTES32:
        int start = Platform.getInt(null, values + 4L * row);
        int end = Platform.getInt(null, values + 4L * row + 4);
        return found(start, (long) end - start, secondSize) + second;
      case BYTES64:
        long from = Platform.getLong(null, values + 8L * row);
        long to = Platform.getLong(null, values + 8L * row + 8);
        return found(from, to - from, secondSize) + second;
      case BYTES_FIXED:
        foundBytes = length == 0 ? 0 : (int) factor;
        return values + factor * row;
      default:
        return locateView(values + (long) VIEW_BYTES * row);
    }
  }

  /** A view is {length, 12 bytes} or {length, prefix, buffer, offset}. */
  private long locateView(long view) {
    int bytes = Platform.getInt(null, view);
    if (bytes >= 0 && bytes <= VIEW_INLINE_BYTES) {
      foundBytes = bytes;
      return view + 4;
    }
    int buffer = Platform.getInt(null, view + 8);
    int offset = Platform.getInt(null, view + 12);
    if (buffer < 0 || buffer >= viewBuffers.length) {
      throw corrupt("a view into buffer " + buffer + " of " + viewBuffers.length);
    }
    return found(offset, bytes, viewSizes[buffer]) + viewBuffers[buffer];
  }

  /** First element of a list; their number in {@link #foundBytes}. */
  private int firstElement(int row) {
    switch (encoding) {
      case LIST32:
        int start = Platform.getInt(null, values + 4L * row);
        return (int) found(start, (long) Platform.getInt(null, values + 4L * row + 4) - start, secondSize);
      case LIST64:
        long from = Platform.getLong(null, values + 8L * row);
        return (int) found(from, Platform.getLong(null, values + 8L * row + 8) - from, secondSize);
      case LIST_VIEW32:
        return (int)
            found(Platform.getInt(null, values + 4L * row), Platform.getInt(null, second + 4L * row), secondSize);
      case LIST_VIEW64:
        return (int)
            found(Platform.getLong(null, values + 8L * row), Platform.getLong(null, second + 8L * row), secondSize);
      default:
        foundBytes = length == 0 ? 0 : (int) factor;
        return (int) factor * row;
    }
  }

  /** Checks that {@code count} things from {@code start} lie among {@code size}; returns {@code start}. */
  private long found(long start, long count, long size) {
    if (start < 0 || count < 0 || count > Integer.MAX_VALUE || start > size || count > size - start) {
      throw corrupt("offset " + start + " and length " + count + " in a buffer of " + size);
    }
    foundBytes = (int) count;
    return start;
  }

  /** The place in {@link #target} that holds the value of {@code row}. */
  private int place(int row) {
    if (encoding == RUNS) {
      return runOf(row);
    }
    if (validity != 0 && (Platform.getByte(null, validity + (row >> 3)) & (1 << (row & 7))) == 0) {
      return 0; // the index under a null may be anything; nobody looks at the value
    }
    long index = integer(values, row, indexBits, indexSigned);
    if (index < 0 || index >= target.length) {
      throw corrupt("index " + index + " into a dictionary of " + target.length);
    }
    return (int) index;
  }

  private int runOf(int row) {
    int runs = target.length;
    if (run >= runs || (run > 0 && integer(values, run - 1, indexBits, true) > row)) {
      run = 0;
    }
    while (run < runs && integer(values, run, indexBits, true) <= row) {
      run++;
    }
    if (run >= runs) {
      throw corrupt("row " + row + " lies behind the last of " + runs + " runs");
    }
    return run;
  }

  private static long integer(long base, int row, int bits, boolean signed) {
    return switch (bits) {
      case 8 -> signed ? Platform.getByte(null, base + row) : Platform.getByte(null, base + row) & 0xFF;
      case 16 ->
          signed ? Platform.getShort(null, base + 2L * row) : Platform.getShort(null, base + 2L * row) & 0xFFFF;
      case 32 ->
          signed ? Platform.getInt(null, base + 4L * row) : Platform.getInt(null, base + 4L * row) & 0xFFFF_FFFFL;
      default -> Platform.getLong(null, base + 8L * row);
    };
  }

  // ---- conversions that must lose nothing ---------------------------------------------------------

  private int days(long millis) {
    long days = Math.floorDiv(millis, MILLIS_PER_DAY);
    if (days * MILLIS_PER_DAY != millis) {
      throw inexact(millis + " ms is no whole number of days, which is all that a date has;"
          + " cast it to a timestamp before sending");
    }
    if (days != (int) days) {
      throw inexact(millis + " ms does not fit Spark's dates, which count days in 32 bits");
    }
    return (int) days;
  }

  /** Spark's TIME counts nanoseconds, whatever its precision. */
  private long timeOfDay(long units) {
    if (units < 0 || units >= NANOS_PER_DAY / factor) {
      String unit = unit(factor);
      throw inexact(units + " " + unit + " is no time of day: a day has " + NANOS_PER_DAY / factor + " " + unit);
    }
    return units * factor;
  }

  private long scaled(long value) {
    long high = Math.multiplyHigh(value, factor);
    long low = value * factor;
    if (high != low >> 63) {
      throw inexact(value + " " + unit(factor * 1000) + " does not fit Spark's microseconds");
    }
    return low;
  }

  private long micros(long nanos) {
    if (nanos % 1000 != 0) {
      throw inexact(nanos + " ns is no whole number of microseconds, which is all Spark has;"
          + " cast it to microseconds before sending");
    }
    return nanos / 1000;
  }

  private Decimal decimal(BigInteger unscaled, int precision, int scale) {
    BigDecimal value = new BigDecimal(unscaled, scale);
    if (value.precision() > precision) {
      throw corrupt("decimal " + value + " where " + precision + " digits were declared");
    }
    return Decimal.apply(value, precision, scale);
  }

  /** Little-endian in memory. */
  private static BigInteger big(long address, int bytes, boolean signed) {
    byte[] reversed = new byte[bytes + 1];
    for (int i = 0; i < bytes; i++) {
      reversed[bytes - i] = Platform.getByte(null, address + i);
    }
    reversed[0] = (byte) (signed && reversed[1] < 0 ? -1 : 0);
    return new BigInteger(reversed);
  }

  private static String unit(long nanos) {
    return nanos == 1 ? "ns" : nanos == 1000 ? "us" : nanos == 1_000_000 ? "ms" : "s";
  }

  /** A value that Spark's type cannot hold as it is. */
  private RuntimeException inexact(String what) {
    return Failures.spark(Status.SCHEMA, "field " + name + ": " + what);
  }

  private RuntimeException corrupt(String what) {
    return Failures.spark(Status.CORRUPT, "field " + name + ": " + what);
  }
}
