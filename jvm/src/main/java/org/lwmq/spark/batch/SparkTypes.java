package org.lwmq.spark.batch;

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
import org.apache.spark.sql.types.MetadataBuilder;
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
import scala.Option;

/**
 * Spark's types for Arrow types. Accepts more than Spark's own mapping, wherever nothing is lost: unsigned integers
 * become the next wider type, half floats become floats, times and durations of any unit become those of Spark,
 * dictionaries and run-end encoded columns become the type of their values.
 *
 * <p>Every field is nullable, as in Spark's file sources: Spark would rely on NOT NULL, and a batch may have nulls
 * where its stream declares none. A field for which Spark has no type is void, so that the other fields can be read. It
 * is a SCHEMA error to ask for it.
 */
public final class SparkTypes {
  /**
   * Key of a field's metadata. A Spark job stores its own field there, as the JSON of a schema that has this field
   * alone, where Arrow's type does not say everything: char, varchar, collations, ranges of intervals, user-defined
   * types.
   */
  static final String SPARK_FIELD = "spark.field";

  private static final int DECIMAL_DIGITS_MAX = 38;

  private SparkTypes() {}

  /** The schema of a stream. A field that a Spark job has declared gets back the type that the job gave it. */
  public static StructType of(Schema arrow) {
    StructField[] fields = plain(arrow.getFields(), "");
    for (int i = 0; i < fields.length; i++) {
      String json = arrow.getFields().get(i).getMetadata().get(SPARK_FIELD);
      fields[i] = json == null ? fields[i] : refined(json, fields[i]);
    }
    return new StructType(fields);
  }

  /** The type for {@code field} by its Arrow type alone. SCHEMA, naming {@code path}, where Spark has none. */
  public static DataType of(Field field, String path) {
    DataType type = valueType(field, path);
    if (field.getDictionary() != null && (type instanceof StructType || type instanceof VariantType)) {
      throw refused(path, "a dictionary of structs", "send the structs themselves");
    }
    return type;
  }

  /**
   * The field for {@code field} by its Arrow type alone. SCHEMA, naming {@code path}, where Spark has no type for it.
   */
  static StructField plain(Field field, String path) {
    return new StructField(field.getName(), of(field, path), true, Metadata.empty());
  }

  /** Void for a field without a type of Spark; SCHEMA when no field has one. {@code parent} is put before the names. */
  private static StructField[] plain(List<Field> fields, String parent) {
    StructField[] plain = new StructField[fields.size()];
    LwmqException first = null;
    int readable = 0;
    for (int i = 0; i < plain.length; i++) {
      String name = fields.get(i).getName();
      try {
        plain[i] = plain(fields.get(i), parent + name);
        readable++;
      } catch (LwmqException e) {
        Metadata comment = new MetadataBuilder().putString("comment", e.getMessage()).build();
        plain[i] = new StructField(name, DataTypes.NullType, true, comment);
        first = first == null ? e : first;
      }
    }
    if (first != null && readable == 0) {
      throw first;
    }
    return plain;
  }

  private static StructField refined(String json, StructField plain) {
    try {
      return refined(((StructType) DataType.fromJson(json)).apply(0), plain);
    } catch (RuntimeException e) { // written by another version, or the class of a user-defined type is missing
      return plain;
    }
  }

  private static StructField refined(StructField declared, StructField plain) {
    return new StructField(plain.name(), refined(declared.dataType(), plain.dataType()), true, declared.metadata());
  }

  /** {@code plain} with those parts of {@code declared} whose values are stored in the same way. */
  private static DataType refined(DataType declared, DataType plain) {
    if (declared instanceof StructType a && plain instanceof StructType b) {
      StructField[] fields = b.fields().clone();
      for (int i = 0; i < fields.length; i++) {
        Option<Object> at = a.getFieldIndex(fields[i].name());
        fields[i] = at.isEmpty() ? fields[i] : refined(a.apply((int) at.get()), fields[i]);
      }
      return DataTypes.createStructType(fields);
    }
    if (declared instanceof ArrayType a && plain instanceof ArrayType b) {
      return DataTypes.createArrayType(refined(a.elementType(), b.elementType()));
    }
    if (declared instanceof MapType a && plain instanceof MapType b) {
      return DataTypes.createMapType(refined(a.keyType(), b.keyType()), refined(a.valueType(), b.valueType()));
    }
    return isStoredAs(declared, plain) ? declared : plain;
  }

  /** Whether values of {@code declared} are stored in the same way as values of {@code plain}. */
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

  /** What a value of a user-defined type is stored as: its SQL type. Any other type is stored as it is. */
  static DataType stored(DataType type) {
    return type instanceof UserDefinedType<?> user ? stored(user.sqlType()) : type;
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
    return DataTypes.createArrayType(of(element, path + ".element"));
  }

  private static DataType map(Field field, String path) {
    List<Field> entry = field.getChildren().get(0).getChildren();
    return DataTypes.createMapType(of(entry.get(0), path + ".key"), of(entry.get(1), path + ".value"));
  }

  private static DataType struct(Field field, String path) {
    Set<String> names = new HashSet<>();
    for (Field child : field.getChildren()) {
      if (!names.add(child.getName())) {
        throw refused(path, "a struct with two fields named " + child.getName(), "rename one of them");
      }
    }
    return DataTypes.createStructType(plain(field.getChildren(), path + "."));
  }

  private static DataType runs(Field field, String path) {
    DataType type = of(field.getChildren().get(1), path);
    if (type instanceof StructType || type instanceof VariantType) {
      throw refused(path, "run-end encoded structs", "send the structs themselves");
    }
    return type;
  }

  private static LwmqException refused(String path, String type, String remedy) {
    return new LwmqException(Status.SCHEMA, "field " + path + ": Spark has no type for " + type + "; " + remedy
        + ", or select the other columns");
  }
}
