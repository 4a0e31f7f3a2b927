package org.lwmq.spark.shuffle;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Writes the Java source of the {@link StageRow} for the variables of one generated stage. Column {@code i} has the
 * fields {@code vi} and, if it can be null, {@code ni}. The getters are switches, of which nothing is left once HotSpot
 * has inlined them where a constant column is asked for.
 */
final class StageRowSource {
  /** Spark's getter for a type of its generated code, with the parameters behind the column. */
  private static final Map<String, String> GETTERS = Map.ofEntries(
      Map.entry("boolean", "getBoolean(int i"),
      Map.entry("byte", "getByte(int i"),
      Map.entry("short", "getShort(int i"),
      Map.entry("int", "getInt(int i"),
      Map.entry("long", "getLong(int i"),
      Map.entry("float", "getFloat(int i"),
      Map.entry("double", "getDouble(int i"),
      Map.entry("Decimal", "getDecimal(int i, int precision, int scale"),
      Map.entry("UTF8String", "getUTF8String(int i"),
      Map.entry("byte[]", "getBinary(int i"),
      Map.entry("VariantVal", "getVariant(int i"),
      Map.entry("InternalRow", "getStruct(int i, int fields"),
      Map.entry("ArrayData", "getArray(int i"),
      Map.entry("MapData", "getMap(int i"));

  /** A column: its type in generated code, and whether it can be null. */
  record Column(String javaType, boolean nullable) {}

  private StageRowSource() {}

  /** Whether a column whose type in generated code is {@code javaType} can be in a row. */
  static boolean knows(String javaType) {
    return GETTERS.containsKey(javaType) || javaType.equals("Object"); // of a column without a value
  }

  static String of(String className, List<Column> columns) {
    StringBuilder out = new StringBuilder();
    out.append("private final class ").append(className).append(" extends ").append(StageRow.class.getName())
        .append(" {\n");
    StringBuilder nulls = new StringBuilder();
    Map<String, StringBuilder> cases = new TreeMap<>(); // by type
    for (int i = 0; i < columns.size(); i++) {
      Column column = columns.get(i);
      out.append(column.javaType).append(" v").append(i).append(";\n");
      cases.computeIfAbsent(column.javaType, type -> new StringBuilder())
          .append("case ").append(i).append(": return v").append(i).append(";\n");
      if (column.nullable) {
        out.append("boolean n").append(i).append(";\n");
        nulls.append("case ").append(i).append(": return n").append(i).append(";\n");
      }
    }
    out.append("public int numFields() { return ").append(columns.size()).append("; }\n");
    out.append("public boolean isNullAt(int i) { switch (i) {\n").append(nulls).append("default: return false; } }\n");
    cases.forEach((type, code) -> {
      String getter = GETTERS.get(type);
      if (getter != null) {
        out.append("public ").append(type).append(' ').append(getter).append(") { switch (i) {\n").append(code)
            .append("default: throw new IllegalArgumentException(); } }\n");
      }
    });
    return out.append("}\n").toString();
  }
}
