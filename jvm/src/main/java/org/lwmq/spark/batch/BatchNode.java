package org.lwmq.spark.batch;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.CalendarIntervalType;
import org.apache.spark.sql.types.CharType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.sql.types.VarcharType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.sql.types.YearMonthIntervalType;

/**
 * One field node of an Arrow batch that is built from Spark's values: its place in pre-order, and the buffers that
 * it owns. Immutable.
 *
 * <pre>
 *   kind     buffers                        children        Spark types
 *   NULL     -                              -               void
 *   BITS     validity, bits                 -               boolean
 *   FIXED    validity, values               -               numbers, dates, timestamps, intervals, decimals
 *   BYTES    validity, offsets, bytes       -               string, char, varchar, binary
 *   LIST     validity, offsets              the element     array; map (the element is a struct of key and value)
 *   STRUCT   validity                       the fields      struct, variant
 * </pre>
 */
final class BatchNode {
  enum Kind { NULL, BITS, FIXED, BYTES, LIST, STRUCT }

  /** Place among all nodes of the schema, in pre-order: the order of Arrow's field nodes. */
  final int index;
  /** The name that a user knows it by, such as {@code a.element.b}. */
  final String path;
  /** With user-defined types resolved to what they are stored as. */
  final DataType type;
  final Kind kind;
  /** Of a FIXED value, in bytes. */
  final int width;
  /**
   * Whether it has validity bits: all but the nodes that stand for no value of Spark's own. What a DataFrame calls not
   * null is looked at all the same, because Spark does not hold its sources and users to it.
   */
  final boolean nullable;
  /** Whether its values differ in size: strings, and whatever has lists or strings below. */
  final boolean varies;
  final List<BatchNode> children;
  /** Null at the top. */
  final BatchNode parent;
  private final boolean checksText;

  private BatchNode(
      List<BatchNode> all, BatchNode parent, String path, DataType declared, boolean nullable, boolean checksText) {
    this.index = all.size();
    this.checksText = checksText;
    all.add(this);
    this.parent = parent;
    this.path = path;
    this.type = stored(declared);
    this.kind = kind(type);
    this.width = width(type);
    this.nullable = nullable;
    this.children = new ArrayList<>();
    addChildren(all);
    this.varies = kind == Kind.BYTES || kind == Kind.LIST || children.stream().anyMatch(child -> child.varies);
  }

  /** All nodes of {@code schema} in pre-order. Only for schemas that {@link #supports}. */
  static List<BatchNode> of(StructType schema) {
    return of(schema, true);
  }

  /** The same. Without {@code checksText}, strings that are not UTF-8 are taken as they are. */
  static List<BatchNode> of(StructType schema, boolean checksText) {
    List<BatchNode> all = new ArrayList<>();
    for (StructField field : schema.fields()) {
      new BatchNode(all, null, field.name(), field.dataType(), true, checksText);
    }
    return all;
  }

  /** Whether values of {@code declared} can be laid out by this class; others take the way through Arrow Java. */
  static boolean supports(DataType declared) {
    DataType type = stored(declared);
    if (type instanceof ArrayType array) {
      return supports(array.elementType());
    }
    if (type instanceof MapType map) {
      return supports(map.keyType()) && supports(map.valueType());
    }
    if (type instanceof StructType struct) {
      for (StructField field : struct.fields()) {
        if (!supports(field.dataType())) {
          return false;
        }
      }
      return true;
    }
    return kind(type) != null;
  }

  /** What a value of a user-defined type is stored as; any other type as it is. */
  static DataType stored(DataType type) {
    return type instanceof UserDefinedType<?> user ? stored(user.sqlType()) : type;
  }

  /** Whether its bytes must be UTF-8. */
  boolean isText() {
    return checksText && isText(type);
  }

  static boolean isText(DataType type) {
    return kind(type) == Kind.BYTES && !(type instanceof BinaryType);
  }

  boolean isTop() {
    return parent == null;
  }

  /** Whether it has as many elements as its parent (or the batch has rows). */
  boolean followsParent() {
    return parent == null || parent.kind == Kind.STRUCT;
  }

  private void addChildren(List<BatchNode> all) {
    if (type instanceof ArrayType array) {
      child(all, "element", array.elementType(), true);
    } else if (type instanceof MapType map) {
      StructType entry = new StructType()
          .add("key", map.keyType(), false)
          .add("value", map.valueType(), map.valueContainsNull());
      child(all, "entries", entry, false);
    } else if (type instanceof VariantType) {
      child(all, "value", DataTypes.BinaryType, false);
      child(all, "metadata", DataTypes.BinaryType, false);
    } else if (type instanceof StructType struct) {
      for (StructField field : struct.fields()) {
        child(all, field.name(), field.dataType(), true);
      }
    }
  }

  private void child(List<BatchNode> all, String name, DataType childType, boolean childNullable) {
    children.add(new BatchNode(all, this, path + "." + name, childType, childNullable, checksText));
  }

  private static Kind kind(DataType type) {
    if (type instanceof NullType) {
      return Kind.NULL;
    }
    if (type instanceof BooleanType) {
      return Kind.BITS;
    }
    if (type instanceof StringType || type instanceof CharType || type instanceof VarcharType
        || type instanceof BinaryType) {
      return Kind.BYTES;
    }
    if (type instanceof ArrayType || type instanceof MapType) {
      return Kind.LIST;
    }
    if (type instanceof StructType || type instanceof VariantType) {
      return Kind.STRUCT;
    }
    return width(type) > 0 ? Kind.FIXED : null;
  }

  private static int width(DataType type) {
    if (type instanceof ByteType) {
      return 1;
    }
    if (type instanceof ShortType) {
      return 2;
    }
    if (type instanceof IntegerType || type instanceof FloatType || type instanceof DateType
        || type instanceof YearMonthIntervalType) {
      return 4;
    }
    if (type instanceof LongType || type instanceof DoubleType || type instanceof TimestampType
        || type instanceof TimestampNTZType || type instanceof DayTimeIntervalType || type instanceof TimeType) {
      return 8;
    }
    if (type instanceof DecimalType || type instanceof CalendarIntervalType) {
      return 16;
    }
    return 0;
  }

  @Override
  public String toString() {
    return path + " " + type.sql();
  }
}
