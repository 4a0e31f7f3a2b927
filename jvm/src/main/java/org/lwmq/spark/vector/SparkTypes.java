package org.lwmq.spark.vector;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.arrow.vector.types.FloatingPointPrecision;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.sql.types.UserDefinedType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.sql.types.YearMonthIntervalType;
import org.apache.spark.sql.util.ArrowUtils;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/**
 * Arrow types in Spark's words. Takes more than Spark's own mapping, wherever nothing is lost: unsigned integers
 * become the next wider type, half floats floats, times and durations of any unit theirs, dictionaries and run-ends
 * what they stand for. A type that has no counterpart is a SCHEMA error that names the field.
 */
public final class SparkTypes {
  /** Key of the schema's metadata under which Spark jobs put their own schema, as JSON. */
  public static final String SPARK_SCHEMA = "spark.schema";

  private static final int DECIMAL_DIGITS_MAX = 38;

  private SparkTypes() {}

  /**
   * The schema of a stream. Where a Spark job declared it, Spark's own words (char, varchar, collations, user-defined
   * types) come back, if they are stored as the Arrow fields say.
   */
  public static StructType of(Schema arrow) {
    Set<String> names = new HashSet<>();
    StructType plain = new StructType();
    for (Field field : arrow.getFields()) {
      if (!names.add(field.getName())) {
        throw new LwmqException(Status.SCHEMA, "field " + field.getName() + " is there twice; Spark wants names once");
      }
      plain = plain.add(field.getName(), of(field, field.getName()), field.isNullable());
    }
    String json = arrow.getCustomMetadata() == null ? null : arrow.getCustomMetadata().get(SPARK_SCHEMA);
    return json == null ? plain : refined(plain, json);
  }

  private static StructType refined(StructType plain, String json) {
    DataType declared;
    try {
      declared = DataType.fromJson(json);
    } catch (RuntimeException e) { // written by another version, or a user-defined type whose class is not here
      return plain;
    }
    return isStoredAs(declared, plain) ? (StructType) renamed(declared, plain) : plain;
  }

  /** {@code declared}, but null where {@code plain} may be: another producer may have nulls where the first had none. */
  private static DataType renamed(DataType declared, DataType plain) {
    if (declared instanceof StructType a && plain instanceof StructType b) {
      StructField[] fields = new StructField[a.size()];
      for (int i = 0; i < fields.length; i++) {
        StructField field = a.apply(i);
        DataType type = renamed(field.dataType(), b.apply(i).dataType());
        fields[i] = new StructField(field.name(), type, b.apply(i).nullable(), field.metadata());
      }
      return DataTypes.createStructType(fields);
    }
    if (declared instanceof ArrayType a && plain instanceof ArrayType b) {
      return DataTypes.createArrayType(renamed(a.elementType(), b.elementType()), b.containsNull());
    }
    if (declared instanceof MapType a && plain instanceof MapType b) {
      return DataTypes.createMapType(
          renamed(a.keyType(), b.keyType()), renamed(a.valueType(), b.valueType()), b.valueContainsNull());
    }
    return declared;
  }

  /** Whether values of {@code declared} are stored as values of {@code plain}: the same but for names of types. */
  public static boolean isStoredAs(DataType declared, DataType plain) {
    DataType stored = stored(declared);
    if (stored instanceof StructType a && plain instanceof StructType b) {
      boolean same = a.size() == b.size();
      for (int i = 0; same && i < a.size(); i++) {
        same = a.apply(i).name().equals(b.apply(i).name()) && isStoredAs(a.apply(i).dataType(), b.apply(i).dataType());
      }
      return same;
    }
    if (stored instanceof ArrayType a && plain instanceof ArrayType b) {
      return isStoredAs(a.elementType(), b.elementType());
    }
    if (stored instanceof MapType a && plain instanceof MapType b) {
      return isStoredAs(a.keyType(), b.keyType()) && isStoredAs(a.valueType(), b.valueType());
    }
    return stored.equals(plain)
        || (stored instanceof StringType && plain instanceof StringType)
        || (stored instanceof TimeType && plain instanceof TimeType)
        || (stored instanceof YearMonthIntervalType && plain instanceof YearMonthIntervalType)
        || (stored instanceof DayTimeIntervalType && plain instanceof DayTimeIntervalType);
  }

  /** A user-defined type is stored as its SQL type. */
  static DataType stored(DataType type) {
    return type instanceof UserDefinedType<?> user ? stored(user.sqlType()) : type;
  }

  private static DataType of(Field field, String path) {
    DataType type = valueType(field, path);
    if (field.getDictionary() != null && (type instanceof StructType || type instanceof VariantType)) {
      throw refused(path, "a dictionary of structs", "send the structs themselves");
    }
    return type;
  }

  private static DataType valueType(Field field, String path) {
    ArrowType type = field.getType();
    return switch (type.getTypeID()) {
      case Null -> DataTypes.NullType;
      case Bool -> DataTypes.BooleanType;
      case Int -> integer((ArrowType.Int) type);
      case FloatingPoint ->
          ((ArrowType.FloatingPoint) type).getPrecision() == FloatingPointPrecision.DOUBLE
              ? DataTypes.DoubleType
              : DataTypes.FloatType;
      case Decimal -> decimal((ArrowType.Decimal) type, path);
      case Utf8, LargeUtf8, Utf8View -> DataTypes.StringType;
      case Binary, LargeBinary, BinaryView, FixedSizeBinary -> DataTypes.BinaryType;
      case Date -> DataTypes.DateType;
      case Timestamp ->
          ((ArrowType.Timestamp) type).getTimezone() == null ? DataTypes.TimestampNTZType : DataTypes.TimestampType;
      case Time -> time((ArrowType.Time) type);
      case Duration -> DayTimeIntervalType.apply();
      case Interval ->
          switch (((ArrowType.Interval) type).getUnit()) {
            case YEAR_MONTH -> YearMonthIntervalType.apply();
            case DAY_TIME -> DayTimeIntervalType.apply();
            case MONTH_DAY_NANO -> DataTypes.CalendarIntervalType;
          };
      case List, LargeList, FixedSizeList, ListView, LargeListView -> array(field, path);
      case Map -> map(field, path);
      case Struct -> ArrowUtils.isVariantField(field) ? DataTypes.VariantType : struct(field, path);
      case RunEndEncoded -> runs(field, path);
      default -> throw refused(path, type.toString(), "cast it before sending");
    };
  }

  private static DataType integer(ArrowType.Int type) {
    return switch (type.getBitWidth() + (type.getIsSigned() ? 0 : 1)) {
      case 8 -> DataTypes.ByteType;
      case 8 + 1, 16 -> DataTypes.ShortType;
      case 16 + 1, 32 -> DataTypes.IntegerType;
      case 32 + 1, 64 -> DataTypes.LongType;
      default -> DataTypes.createDecimalType(20, 0); // unsigned, 64 bits
    };
  }

  private static DataType decimal(ArrowType.Decimal type, String path) {
    if (type.getPrecision() > DECIMAL_DIGITS_MAX || type.getScale() < 0 || type.getScale() > type.getPrecision()) {
      throw refused(path, type.toString(), "Spark has decimals of up to " + DECIMAL_DIGITS_MAX + " digits");
    }
    return DecimalType.apply(type.getPrecision(), type.getScale());
  }

  private static DataType time(ArrowType.Time type) {
    return TimeType.apply(
        switch (type.getUnit()) {
          case SECOND -> 0;
          case MILLISECOND -> 3;
          case MICROSECOND -> 6;
          case NANOSECOND -> TimeType.MAX_PRECISION();
        });
  }

  private static DataType array(Field field, String path) {
    Field element = field.getChildren().get(0);
    return DataTypes.createArrayType(of(element, path + ".element"), element.isNullable());
  }

  private static DataType map(Field field, String path) {
    List<Field> entry = field.getChildren().get(0).getChildren();
    return DataTypes.createMapType(
        of(entry.get(0), path + ".key"), of(entry.get(1), path + ".value"), entry.get(1).isNullable());
  }

  private static DataType struct(Field field, String path) {
    StructField[] fields =
        field.getChildren().stream()
            .map(f -> new StructField(f.getName(), of(f, path + "." + f.getName()), f.isNullable(), Metadata.empty()))
            .toArray(StructField[]::new);
    return DataTypes.createStructType(fields);
  }

  private static DataType runs(Field field, String path) {
    DataType type = of(field.getChildren().get(1), path);
    if (type instanceof StructType || type instanceof VariantType) {
      throw refused(path, "run-end encoded structs", "send the structs themselves");
    }
    return type;
  }

  private static LwmqException refused(String path, String type, String remedy) {
    return new LwmqException(Status.SCHEMA, "field " + path + ": Spark has no type for " + type + "; " + remedy);
  }
}
