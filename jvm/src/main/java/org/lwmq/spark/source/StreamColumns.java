package org.lwmq.spark.source;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.spark.vector.SparkTypes;

/**
 * The columns that a scan asks for, found among the fields of its stream: by name, in any order, of structs any part.
 * Made in the driver, travels to the executors. A value.
 *
 * @param types as Spark asks for them, in its order, but fields of structs have the names that the stream gives them
 * @param places of each column among the stream's fields; {@link #METADATA} for one that every stream has
 */
record StreamColumns(StructType types, List<Integer> places) implements Serializable {
  static final int METADATA = -1;

  /**
   * SCHEMA, naming the field, where the stream has none of that name, one of another type, or one for which Spark has
   * no type.
   *
   * @param table fields of the table; a column that is none of them is a metadata column
   * @param name of the stream, for people
   */
  static StreamColumns find(StructType asked, StructType table, Schema stream, String name) {
    return find(asked, table, stream, new Finder(name, SQLConf.get().caseSensitiveAnalysis(), false));
  }

  /** SCHEMA as {@link #find}, but void may stand for what Spark has no type for: it is not asked for yet. */
  static void check(StructType table, Schema stream, String name) {
    find(table, table, stream, new Finder(name, SQLConf.get().caseSensitiveAnalysis(), true));
  }

  private static StreamColumns find(StructType asked, StructType table, Schema stream, Finder finder) {
    Function<StructField, Integer> placeOf = finder.among(stream.getFields(), "");
    List<Integer> places = new ArrayList<>();
    StructField[] types = asked.fields().clone();
    for (int i = 0; i < types.length; i++) {
      int place = METADATA;
      if (table.getFieldIndex(types[i].name()).isDefined()) {
        place = placeOf.apply(types[i]);
        types[i] = finder.found(types[i], stream.getFields().get(place), types[i].name());
      }
      places.add(place);
    }
    return new StreamColumns(new StructType(types), List.copyOf(places));
  }

  private record Finder(String stream, boolean caseSensitive, boolean voidIsAnything) {

    /** Finds names among {@code fields}, which are those of {@code parent}, a path with a dot, or "". */
    Function<StructField, Integer> among(List<Field> fields, String parent) {
      Map<String, List<Integer>> exact = new HashMap<>();
      Map<String, List<Integer>> folded = new HashMap<>();
      for (int i = 0; i < fields.size(); i++) {
        exact.computeIfAbsent(fields.get(i).getName(), name -> new ArrayList<>()).add(i);
        folded.computeIfAbsent(folded(fields.get(i).getName()), name -> new ArrayList<>()).add(i);
      }
      return asked -> {
        List<Integer> places = exact.getOrDefault(asked.name(), folded.get(folded(asked.name())));
        if (places == null) {
          throw refused("the schema given has a field " + parent + asked.name() + " " + asked.dataType().sql()
              + ", but " + (parent.isEmpty() ? "" : parent.substring(0, parent.length() - 1) + " in ") + stream
              + " has only " + String.join(", ", fields.stream().map(Field::getName).toList()));
        }
        if (places.size() > 1) {
          throw refused("field " + parent + asked.name() + " may be each of the fields "
              + String.join(", ", places.stream().map(i -> i + " (" + fields.get(i).getName() + ")").toList()) + " in "
              + stream + ": rename one of them, or set spark.sql.caseSensitive where they differ in case");
        }
        return places.get(0);
      };
    }

    private String folded(String name) {
      return caseSensitive ? name : name.toLowerCase(Locale.ROOT);
    }

    StructField found(StructField asked, Field field, String path) {
      return new StructField(field.getName(), type(asked.dataType(), field, path), true, asked.metadata());
    }

    /** {@code asked}, with the names that {@code field} and those below it have. */
    private DataType type(DataType asked, Field field, String path) {
      if (voidIsAnything && asked instanceof NullType) {
        return asked;
      }
      List<Field> below = field.getChildren();
      DataType there = SparkTypes.of(field, path);
      if (field.getType() instanceof ArrowType.RunEndEncoded) {
        return type(asked, below.get(1), path);
      }
      if (asked instanceof StructType struct && there instanceof StructType) {
        StructField[] fields = new StructField[struct.size()];
        Function<StructField, Integer> place = among(below, path + ".");
        for (int i = 0; i < fields.length; i++) {
          StructField child = struct.apply(i);
          fields[i] = found(child, below.get(place.apply(child)), path + "." + child.name());
        }
        return new StructType(fields);
      }
      if (asked instanceof ArrayType array && there instanceof ArrayType) {
        return DataTypes.createArrayType(type(array.elementType(), below.get(0), path + ".element"));
      }
      if (asked instanceof MapType map && there instanceof MapType) {
        List<Field> entry = below.get(0).getChildren();
        return DataTypes.createMapType(
            type(map.keyType(), entry.get(0), path + ".key"), type(map.valueType(), entry.get(1), path + ".value"));
      }
      if (!SparkTypes.isStoredAs(asked, there)) {
        throw refused("field " + path + " is " + there.sql() + " in " + stream + ", but " + asked.sql()
            + " in the schema given");
      }
      return asked;
    }

    private static LwmqException refused(String text) {
      return new LwmqException(Status.SCHEMA, text);
    }
  }
}
