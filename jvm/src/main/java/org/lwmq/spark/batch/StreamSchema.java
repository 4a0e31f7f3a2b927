package org.lwmq.spark.batch;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiPredicate;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.sql.util.ArrowUtils;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/**
 * The Arrow schema with which a DataFrame declares its stream, and which DataFrames may append to a stream that is
 * declared already. Driver.
 *
 * <p>Where Arrow has no name for a type (char, varchar, collations), the metadata of the field carry Spark's own; see
 * {@link SparkTypes#SPARK_FIELD}. Fields are declared nullable, as in Spark's files, even if the query has no nulls:
 * the next job that appends may have some.
 */
public final class StreamSchema {
  /** Key of a stream's metadata: the name of the column whose value decides on the partition of a row. */
  private static final String PARTITION_KEY = "lwmq.partition_key";

  /** Likewise: the names of the columns whose least and greatest value lie behind each batch, each on a line. */
  private static final String BOUNDS = "lwmq.bounds";

  /** Instants have no time zone, but their Arrow type must name one. */
  private static final String ZONE = "UTC";

  private StreamSchema() {}

  /**
   * The Arrow schema with which a DataFrame of the schema {@code schema} declares its stream.
   *
   * @param partitionKey the column whose value decides on the partition of a row; null: none
   * @param bounds the columns that have bounds, with commas between them; null: none
   */
  public static Schema declared(StructType schema, String partitionKey, String bounds) {
    StructType ours = schema.asNullable();
    List<Field> fields = new ArrayList<>(arrow(ours).getFields());
    for (int i = 0; i < fields.size(); i++) {
      Field field = fields.get(i);
      if (!SparkTypes.plain(field, field.getName()).equals(ours.apply(i))) {
        Map<String, String> metadata = new HashMap<>(field.getMetadata());
        metadata.put(SparkTypes.SPARK_FIELD, new StructType(new StructField[] {ours.apply(i)}).json());
        FieldType type = new FieldType(field.isNullable(), field.getType(), field.getDictionary(), metadata);
        fields.set(i, new Field(field.getName(), type, field.getChildren()));
      }
    }
    Map<String, String> metadata = new HashMap<>();
    if (partitionKey != null) {
      metadata.put(PARTITION_KEY, partitionKey);
    }
    if (bounds != null) {
      metadata.put(BOUNDS, bounds.replace(',', '\n'));
    }
    return new Schema(fields, metadata);
  }

  /** The column whose value decides on the partition of a row: {@code pmod(hash(column), partitions)}. Null: none. */
  public static String partitionKey(Schema declared) {
    return declared.getCustomMetadata() == null ? null : declared.getCustomMetadata().get(PARTITION_KEY);
  }

  /** The columns that have bounds, with commas between them. Null: none. */
  public static String bounds(Schema declared) {
    String lines = declared.getCustomMetadata() == null ? null : declared.getCustomMetadata().get(BOUNDS);
    return lines == null ? null : lines.replace('\n', ',');
  }

  /** The same fields with their Arrow types and their nullability. SCHEMA names a field for which Arrow has no type. */
  static Schema arrow(StructType schema) {
    return new Schema(fields(schema, ""));
  }

  /** {@code path} is the name of the struct with a dot behind it; empty for the schema itself. */
  private static List<Field> fields(StructType struct, String path) {
    Set<String> names = new HashSet<>();
    List<Field> fields = new ArrayList<>();
    for (StructField field : struct.fields()) {
      if (!names.add(field.name())) {
        throw new LwmqException(Status.SCHEMA, "two fields are named " + path + field.name()
            + ": whoever reads finds fields by name, so rename one of them");
      }
      fields.add(field(field.name(), path + field.name(), field.dataType(), field.nullable()));
    }
    return fields;
  }

  /**
   * SCHEMA, naming the field and both types, unless batches of {@code ours} may be appended to a stream that was
   * declared with {@code declared}. Nullability is not compared: a null is refused when it comes.
   */
  public static void check(String uri, Schema declared, StructType ours) {
    List<Field> theirs = declared.getFields();
    List<Field> fields = arrow(ours).getFields();
    BiPredicate<String, String> names = sameName();
    for (int i = 0; i < Math.max(theirs.size(), fields.size()); i++) {
      if (i >= theirs.size()) {
        throw refused(uri, "it has no field " + ours.apply(i).name() + " " + ours.apply(i).dataType().sql());
      }
      if (i >= fields.size()) {
        throw refused(uri, "the DataFrame has no field " + theirs.get(i).getName() + " " + type(theirs.get(i)));
      }
      if (!names.test(theirs.get(i).getName(), fields.get(i).getName())) {
        throw refused(uri, "field " + i + " is " + theirs.get(i).getName() + " " + type(theirs.get(i))
            + " there and " + fields.get(i).getName() + " " + ours.apply(i).dataType().sql() + " in the DataFrame");
      }
      if (!same(theirs.get(i), fields.get(i), names)) {
        throw refused(uri, "field " + theirs.get(i).getName() + " is " + type(theirs.get(i)) + " there and "
            + type(fields.get(i)) + " (" + ours.apply(i).dataType().sql() + ") in the DataFrame");
      }
    }
  }

  /** Whether two names mean one column in this session. */
  public static BiPredicate<String, String> sameName() {
    return SQLConf.get().caseSensitiveAnalysis() ? String::equals : String::equalsIgnoreCase;
  }

  /** Whether the buffers of a vector of {@code theirs} can be copied unchanged into a batch of {@code ours}. */
  static boolean sameLayout(Field theirs, Field ours) {
    return same(theirs, ours, String::equals);
  }

  private static LwmqException refused(String uri, String why) {
    return new LwmqException(Status.SCHEMA, "this DataFrame does not fit the stream at " + uri + ": " + why);
  }

  /** Whether two fields have the same layout and the same meaning. Their own names are not compared. */
  private static boolean same(Field theirs, Field ours, BiPredicate<String, String> names) {
    boolean instants = theirs.getType() instanceof ArrowType.Timestamp a && ours.getType() instanceof ArrowType.Timestamp b
        && a.getUnit() == b.getUnit() && a.getTimezone() != null && b.getTimezone() != null;
    boolean maps = theirs.getType() instanceof ArrowType.Map && ours.getType() instanceof ArrowType.Map;
    if (theirs.getDictionary() != null || !(instants || maps || theirs.getType().equals(ours.getType()))) {
      return false;
    }
    List<Field> a = theirs.getChildren();
    List<Field> b = ours.getChildren();
    boolean children = a.size() == b.size();
    boolean named = ours.getType() instanceof ArrowType.Struct; // elements of lists may have any name
    for (int i = 0; children && i < a.size(); i++) {
      children = maps
          ? sameEntries(a.get(i), b.get(i), names)
          : (!named || names.test(a.get(i).getName(), b.get(i).getName())) && same(a.get(i), b.get(i), names);
    }
    return children;
  }

  private static boolean sameEntries(Field theirs, Field ours, BiPredicate<String, String> names) {
    return theirs.getChildren().size() == 2
        && same(theirs.getChildren().get(0), ours.getChildren().get(0), names)
        && same(theirs.getChildren().get(1), ours.getChildren().get(1), names);
  }

  private static String type(Field field) {
    String dictionary = field.getDictionary() == null ? "" : "dictionary of ";
    return dictionary + field.getType() + (field.getChildren().isEmpty() ? "" : field.getChildren().toString());
  }

  private static Field field(String name, String path, DataType declared, boolean nullable) {
    DataType stored = SparkTypes.stored(declared);
    DataType type = stored == declared ? stored : stored.asNullable(); // asNullable does not look into user-defined types
    if (type instanceof ArrayType array) {
      Field element = field("element", path + ".element", array.elementType(), array.containsNull());
      return new Field(name, new FieldType(nullable, ArrowType.List.INSTANCE, null), List.of(element));
    }
    if (type instanceof MapType map) {
      Field key = field("key", path + ".key", map.keyType(), false);
      Field value = field("value", path + ".value", map.valueType(), map.valueContainsNull());
      Field entries = new Field("entries", new FieldType(false, ArrowType.Struct.INSTANCE, null), List.of(key, value));
      return new Field(name, new FieldType(nullable, new ArrowType.Map(false), null), List.of(entries));
    }
    if (type instanceof StructType struct) {
      return new Field(name, new FieldType(nullable, ArrowType.Struct.INSTANCE, null), fields(struct, path + "."));
    }
    if (type instanceof TimeType) { // Spark maps it in one direction only
      return new Field(name, new FieldType(nullable, new ArrowType.Time(TimeUnit.NANOSECOND, 64), null), null);
    }
    try {
      return ArrowUtils.toArrowField(name, type, nullable, ZONE, false, Metadata.empty(), false);
    } catch (RuntimeException e) {
      throw new LwmqException(
          Status.SCHEMA, "field " + path + " of type " + type.sql() + " has no counterpart in Arrow: " + e.getMessage());
    }
  }
}
