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
import org.lwmq.spark.vector.SparkTypes;

/**
 * The Arrow schema that a DataFrame's stream is declared with, and what may be appended to a stream that somebody
 * else has declared. Driver side.
 *
 * <p>Where Arrow has no words for a field's type (char, varchar, collations), Spark's go along with it; see {@link
 * SparkTypes#SPARK_FIELD}. Fields are declared nullable whatever the query promises, as with Spark's own files: the
 * next job that appends may have nulls where this one has none.
 */
public final class StreamSchema {
  /** Instants have no zone of their own; this is the name they travel under. */
  private static final String ZONE = "UTC";

  private StreamSchema() {}

  /** What a DataFrame of schema {@code schema} declares its stream as. */
  public static Schema declared(StructType schema) {
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
    return new Schema(fields);
  }

  /** The same fields in Arrow's terms, nullability kept. SCHEMA names a field that Arrow has no type for. */
  public static Schema arrow(StructType schema) {
    return new Schema(fields(schema, ""));
  }

  /** {@code path} is what the struct is called, with a dot behind it. */
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
   * SCHEMA, naming the field and both types, unless batches of {@code ours} may be appended to a stream declared
   * as {@code declared}. Nullability is no reason to refuse: only a null that really comes is.
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

  /** Whether two names mean one field, as the session has it in {@code spark.sql.caseSensitive}. */
  public static BiPredicate<String, String> sameName() {
    return SQLConf.get().caseSensitiveAnalysis() ? String::equals : String::equalsIgnoreCase;
  }

  /** Whether a vector of {@code theirs} can be copied into a batch of {@code ours} as it lies. */
  static boolean sameLayout(Field theirs, Field ours) {
    return same(theirs, ours, String::equals);
  }

  private static LwmqException refused(String uri, String why) {
    return new LwmqException(Status.SCHEMA, "this DataFrame does not fit the stream at " + uri + ": " + why);
  }

  /** Whether two fields have one layout and one meaning, whatever they are called themselves. */
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
    boolean named = ours.getType() instanceof ArrowType.Struct; // elements of lists may be called anything
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
    DataType stored = BatchNode.stored(declared);
    DataType type = stored == declared ? stored : stored.asNullable(); // asNullable looks into no user-defined type
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
    if (type instanceof TimeType) { // Spark's own mapping has it in one direction only
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
