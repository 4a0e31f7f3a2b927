package org.lwmq.spark.vector;

import java.nio.ByteBuffer;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;
import org.lwmq.arrow.ArrowColumn;
import org.lwmq.core.Memory;

/** Makes Spark's vectors over Arrow columns: which encoding each type has, and which buffer is which. */
public final class VectorFactory {
  /** What a vector is made from; see the fields of the same names there. */
  static final class Parts {
    Object owner;
    int encoding = WindowColumnVector.PLAIN;
    String name = "";
    int length;
    long validity;
    long values;
    long second;
    long secondSize;
    long factor;
    WindowColumnVector[] children;
    WindowColumnVector target;
    Object constant;
    long[] viewBuffers;
    long[] viewSizes;
    int indexBits;
    boolean indexSigned;
    boolean isRequired;
  }

  /** As many as the widest value has. */
  private static final ByteBuffer ZEROS = ByteBuffer.allocateDirect(64);

  private static final long MICROS_PER_MILLI = 1000;

  private VectorFactory() {}

  /** A vector over {@code column}, of which Spark wants {@code type}; the memory outlives every use of it. */
  public static WindowColumnVector over(ArrowColumn column, DataType type) {
    return over(column, type, null);
  }

  /**
   * A vector over {@code column}, of which Spark wants {@code type}: of structs perhaps only some fields. Keeps {@code owner},
   * without which the memory goes; so do the vectors below it.
   */
  public static WindowColumnVector over(ArrowColumn column, DataType type, Object owner) {
    return over(column, type, column.field.getName(), owner);
  }

  /** {@code path} is what failures call the column. */
  private static WindowColumnVector over(ArrowColumn column, DataType type, String path, Object owner) {
    return new WindowColumnVector(type, parts(column, type, path, owner));
  }

  private static Parts parts(ArrowColumn column, DataType type, String path, Object owner) {
    Parts parts = new Parts();
    parts.owner = owner;
    parts.name = path;
    parts.length = column.length;
    parts.validity = column.validity;
    if (column.buffers.length > 0) {
      parts.values = column.buffers[0];
    }
    if (column.dictionary != null) {
      ArrowType.Int index = column.field.getDictionary().getIndexType();
      parts.encoding = WindowColumnVector.DICTIONARY;
      parts.indexBits = index.getBitWidth();
      parts.indexSigned = index.getIsSigned();
      parts.target = over(column.dictionary, type, path, owner);
    } else {
      encode(column, SparkTypes.stored(type), parts);
    }
    if (column.length == 0) {
      readNothing(parts);
    }
    return parts;
  }

  /**
   * A column of no rows may have buffers of no bytes, and is asked for its first value all the same: where it is a
   * dictionary, and the row that asks is null. It then reads zeros of ours, and nothing of the peer's.
   */
  private static void readNothing(Parts parts) {
    long zeros = Memory.address(ZEROS);
    parts.validity = parts.validity == 0 ? 0 : zeros;
    parts.values = zeros;
    parts.second = zeros;
    parts.secondSize = 0;
  }

  /** A vector with {@code value} (a Number or a UTF8String) in every row. */
  public static WindowColumnVector constant(DataType type, Object value, int rows) {
    Parts parts = new Parts();
    parts.encoding = value == null ? WindowColumnVector.NOTHING : WindowColumnVector.CONSTANT;
    parts.constant = value;
    parts.length = rows;
    return new WindowColumnVector(type, parts);
  }

  private static void encode(ArrowColumn column, DataType type, Parts parts) {
    ArrowType arrow = column.field.getType();
    switch (arrow.getTypeID()) {
      case Null -> parts.encoding = WindowColumnVector.NOTHING;
      case Int -> {
        parts.encoding = integer((ArrowType.Int) arrow);
        parts.factor = ((ArrowType.Int) arrow).getBitWidth() / 8;
      }
      case FloatingPoint ->
          parts.encoding =
              switch (((ArrowType.FloatingPoint) arrow).getPrecision()) {
                case HALF -> WindowColumnVector.HALF;
                case SINGLE, DOUBLE -> WindowColumnVector.PLAIN;
              };
      case Decimal -> {
        int bits = ((ArrowType.Decimal) arrow).getBitWidth();
        parts.encoding = bits == 128 ? WindowColumnVector.DECIMAL128 : WindowColumnVector.DECIMAL;
        parts.factor = bits / 8;
      }
      case Date ->
          parts.encoding =
              switch (((ArrowType.Date) arrow).getUnit()) {
                case DAY -> WindowColumnVector.PLAIN;
                case MILLISECOND -> WindowColumnVector.DAYS_OF_MILLIS;
              };
      case Timestamp -> toMicros(((ArrowType.Timestamp) arrow).getUnit(), parts);
      case Duration -> toMicros(((ArrowType.Duration) arrow).getUnit(), parts);
      case Time -> toNanosOfDay((ArrowType.Time) arrow, parts);
      case Interval -> {
        parts.factor = MICROS_PER_MILLI; // of the second part of DAY_TIME
        parts.encoding =
            switch (((ArrowType.Interval) arrow).getUnit()) {
              case YEAR_MONTH -> WindowColumnVector.PLAIN;
              case DAY_TIME -> WindowColumnVector.DAY_TIME;
              case MONTH_DAY_NANO -> WindowColumnVector.MONTH_DAY_NANO;
            };
      }
      case Utf8, Binary -> bytes(column, WindowColumnVector.BYTES32, parts);
      case LargeUtf8, LargeBinary -> bytes(column, WindowColumnVector.BYTES64, parts);
      case FixedSizeBinary -> {
        parts.encoding = WindowColumnVector.BYTES_FIXED;
        parts.factor = ((ArrowType.FixedSizeBinary) arrow).getByteWidth();
      }
      case Utf8View, BinaryView -> views(column, parts);
      case List -> list(column, WindowColumnVector.LIST32, type, parts);
      case LargeList -> list(column, WindowColumnVector.LIST64, type, parts);
      case ListView -> list(column, WindowColumnVector.LIST_VIEW32, type, parts);
      case LargeListView -> list(column, WindowColumnVector.LIST_VIEW64, type, parts);
      case FixedSizeList -> {
        list(column, WindowColumnVector.LIST_FIXED, type, parts);
        parts.factor = ((ArrowType.FixedSizeList) arrow).getListSize();
      }
      case Map -> map(column, (MapType) type, parts);
      case Struct ->
          parts.children =
              type instanceof VariantType ? variant(column, parts) : struct(column, (StructType) type, parts);
      case RunEndEncoded -> runs(column, type, parts);
      default -> {} // plain: booleans
    }
  }

  private static int integer(ArrowType.Int type) {
    if (type.getIsSigned()) {
      return WindowColumnVector.PLAIN;
    }
    return switch (type.getBitWidth()) {
      case 8 -> WindowColumnVector.UINT8;
      case 16 -> WindowColumnVector.UINT16;
      case 32 -> WindowColumnVector.UINT32;
      default -> WindowColumnVector.UINT64;
    };
  }

  private static void toMicros(TimeUnit unit, Parts parts) {
    switch (unit) {
      case SECOND, MILLISECOND -> {
        parts.encoding = WindowColumnVector.SCALED64;
        parts.factor = unit == TimeUnit.SECOND ? 1_000_000 : MICROS_PER_MILLI;
      }
      case MICROSECOND -> parts.encoding = WindowColumnVector.PLAIN;
      case NANOSECOND -> parts.encoding = WindowColumnVector.NANOS;
    }
  }

  private static void toNanosOfDay(ArrowType.Time type, Parts parts) {
    parts.encoding = type.getBitWidth() == 32 ? WindowColumnVector.TIME32 : WindowColumnVector.TIME64;
    parts.factor =
        switch (type.getUnit()) {
          case SECOND -> 1_000_000_000;
          case MILLISECOND -> 1_000_000;
          case MICROSECOND -> 1000;
          case NANOSECOND -> 1;
        };
  }

  private static void bytes(ArrowColumn column, int encoding, Parts parts) {
    parts.encoding = encoding;
    parts.second = column.buffers[1];
    parts.secondSize = column.sizes[1];
  }

  private static void views(ArrowColumn column, Parts parts) {
    parts.encoding = WindowColumnVector.BYTES_VIEW;
    int count = column.buffers.length - 1;
    parts.viewBuffers = new long[count];
    parts.viewSizes = new long[count];
    System.arraycopy(column.buffers, 1, parts.viewBuffers, 0, count);
    System.arraycopy(column.sizes, 1, parts.viewSizes, 0, count);
  }

  private static void list(ArrowColumn column, int encoding, DataType type, Parts parts) {
    parts.encoding = encoding;
    parts.second = column.buffers.length > 1 ? column.buffers[1] : 0;
    parts.secondSize = column.children[0].length;
    parts.children = new WindowColumnVector[] {below(parts, column.children[0], ((ArrayType) type).elementType())};
  }

  private static void map(ArrowColumn column, MapType type, Parts parts) {
    ArrowColumn entries = column.children[0];
    parts.encoding = WindowColumnVector.LIST32;
    parts.secondSize = entries.length;
    parts.children =
        new WindowColumnVector[] {
          below(parts, entries.children[0], type.keyType()), below(parts, entries.children[1], type.valueType())
        };
  }

  private static WindowColumnVector[] struct(ArrowColumn column, StructType type, Parts parts) {
    WindowColumnVector[] children = new WindowColumnVector[type.size()];
    for (int i = 0; i < children.length; i++) {
      children[i] = below(parts, child(column, type.apply(i).name()), type.apply(i).dataType());
    }
    return children;
  }

  /** Spark looks for a variant's value first, and for its metadata second. */
  private static WindowColumnVector[] variant(ArrowColumn column, Parts parts) {
    return new WindowColumnVector[] {required(parts, child(column, "value")), required(parts, child(column, "metadata"))};
  }

  private static WindowColumnVector required(Parts parent, ArrowColumn column) {
    Parts parts = parts(column, DataTypes.BinaryType, pathBelow(parent, column), parent.owner);
    parts.isRequired = true;
    return new WindowColumnVector(DataTypes.BinaryType, parts);
  }

  private static WindowColumnVector below(Parts parent, ArrowColumn column, DataType type) {
    return over(column, type, pathBelow(parent, column), parent.owner);
  }

  private static String pathBelow(Parts parent, ArrowColumn column) {
    return parent.name + "." + column.field.getName();
  }

  private static ArrowColumn child(ArrowColumn column, String name) {
    for (ArrowColumn child : column.children) {
      if (child.field.getName().equals(name)) {
        return child;
      }
    }
    throw new IllegalStateException("field " + column.field.getName() + " has no field " + name);
  }

  private static void runs(ArrowColumn column, DataType type, Parts parts) {
    ArrowColumn ends = column.children[0];
    parts.encoding = WindowColumnVector.RUNS;
    parts.values = ends.buffers[0];
    parts.indexBits = ((ArrowType.Int) ends.field.getType()).getBitWidth();
    parts.target = over(column.children[1], type, parts.name, parts.owner);
  }
}
