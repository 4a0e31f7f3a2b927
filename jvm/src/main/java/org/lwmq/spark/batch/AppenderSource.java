package org.lwmq.spark.batch;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.CalendarIntervalType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.VariantType;

/**
 * Writes the Java source of the {@link RowAppender} for one schema.
 *
 * <p>For each node {@code k} the class has the fields {@code vk}, {@code ok}, {@code dk} (addresses of validity,
 * offsets, values), for BYTES {@code hk} (bytes used) and {@code rk} (room), for LIST {@code nk} (elements below) and
 * {@code ck} (how many fit), and a mark {@code mk} of hk or nk at the beginning of the row. Methods:
 *
 * <pre>
 *   append(row)                  marks, then all columns; a refusal puts the marks back
 *   fastJ(row, base, start, at)  a group of columns from an UnsafeRow, whose memory is read directly
 *   slowJ(row, at)               the same columns from any other row
 *   pk(g, i, at)                 node k: value i of g becomes element `at`; false when there is no room
 *   zk(at)                       node k: element `at` becomes null, or nothing where the parent is null
 * </pre>
 *
 * Columns come in groups because HotSpot leaves methods of more than 8,000 bytes to the interpreter; a group without
 * a null in this row is stored without looking again. The row's memory is a {@code byte[]} to the generated code:
 * of an object of unknown kind HotSpot would forget, at each access, what it knows of fields.
 */
final class AppenderSource {
  static final String CLASS_NAME = "LwmqGeneratedRowAppender";

  private static final int COLUMNS_PER_METHOD = 16; // divides the 64 of a word of UnsafeRow's null bits
  private static final int MARKS_PER_METHOD = 256;

  private final List<BatchNode> nodes;
  private final StringBuilder out = new StringBuilder(8192);

  private AppenderSource(List<BatchNode> nodes) {
    this.nodes = nodes;
  }

  static String of(List<BatchNode> nodes) {
    return new AppenderSource(nodes).write();
  }

  private String write() {
    for (String name : List.of("unsafe.Platform", "unsafe.types.UTF8String", "unsafe.types.VariantVal",
        "unsafe.types.CalendarInterval", "sql.catalyst.InternalRow", "sql.catalyst.expressions.SpecializedGetters",
        "sql.catalyst.expressions.UnsafeRow", "sql.catalyst.util.ArrayData", "sql.catalyst.util.MapData")) {
      line("import org.apache.spark." + name + ";");
    }
    line("public final class " + CLASS_NAME + " extends " + RowAppender.class.getName() + " {");
    fields();
    line("public " + CLASS_NAME + "() { super(" + nodes.size() + "); }");
    loadAndSave();
    marks();
    append();
    for (BatchNode node : nodes) {
      put(node);
      zero(node);
    }
    line("}");
    return out.toString();
  }

  private void fields() {
    for (BatchNode node : nodes) {
      int k = node.index;
      line("private long v" + k + ", o" + k + ", d" + k + ";");
      if (node.kind == BatchNode.Kind.BYTES) {
        line("private long h" + k + ", r" + k + ", m" + k + ";");
      } else if (node.kind == BatchNode.Kind.LIST) {
        line("private int n" + k + ", c" + k + ", m" + k + ";");
      }
    }
  }

  private void loadAndSave() {
    line("protected void load(int[] capacity, long[] room, long[] validity, long[] offsets, long[] values) {");
    chunked("load", "int[] capacity, long[] room, long[] validity, long[] offsets, long[] values",
        "capacity, room, validity, offsets, values", node -> {
          int k = node.index;
          String code = fill("v# = validity[#]; o# = offsets[#]; d# = values[#];", k);
          if (node.kind == BatchNode.Kind.BYTES) {
            code += fill(" h# = 0; r# = room[#];", k);
          } else if (node.kind == BatchNode.Kind.LIST) {
            code += fill(" n# = 0; c# = capacity[" + node.children.get(0).index + "];", k);
          }
          return code;
        });
    line("protected void save() {");
    chunked("save", "", "", node -> switch (node.kind) {
      case BYTES -> fill("used[#] = h#;", node.index);
      case LIST -> fill("count[" + node.children.get(0).index + "] = n#;", node.index);
      default -> "";
    });
  }

  private void marks() {
    line("private void mark() {");
    chunked("mark", "", "", node -> counter(node) == null ? "" : fill("m# = " + counter(node) + ";", node.index));
    line("private void restore() {");
    chunked("restore", "", "", node -> counter(node) == null ? "" : fill(counter(node) + " = m#;", node.index));
  }

  private static String counter(BatchNode node) {
    return switch (node.kind) {
      case BYTES -> "h" + node.index;
      case LIST -> "n" + node.index;
      default -> null;
    };
  }

  private interface Code {
    String of(BatchNode node);
  }

  /** Closes a method that was begun, with the code of all nodes, or with calls of methods for parts of them. */
  private void chunked(String name, String parameters, String arguments, Code code) {
    List<String> lines = new ArrayList<>();
    for (BatchNode node : nodes) {
      String text = code.of(node);
      if (!text.isEmpty()) {
        lines.add(text);
      }
    }
    if (lines.size() <= MARKS_PER_METHOD) {
      lines.forEach(this::line);
      line("}");
      return;
    }
    int parts = (lines.size() + MARKS_PER_METHOD - 1) / MARKS_PER_METHOD;
    for (int j = 0; j < parts; j++) {
      line(name + "Part" + j + "(" + arguments + ");");
    }
    line("}");
    for (int j = 0; j < parts; j++) {
      line("private void " + name + "Part" + j + "(" + parameters + ") {");
      int end = Math.min(lines.size(), (j + 1) * MARKS_PER_METHOD);
      lines.subList(j * MARKS_PER_METHOD, end).forEach(this::line);
      line("}");
    }
  }

  private void append() {
    List<BatchNode> columns = nodes.stream().filter(BatchNode::isTop).toList();
    int nullBytes = UnsafeRow.calculateBitSetWidthInBytes(columns.size());
    StringBuilder fast = new StringBuilder("true");
    StringBuilder slow = new StringBuilder("true");
    for (int first = 0, j = 0; first < columns.size(); first += COLUMNS_PER_METHOD, j++) {
      int end = Math.min(columns.size(), first + COLUMNS_PER_METHOD);
      fast.append(" && fast").append(j).append("(row, base, start, at)");
      slow.append(" && slow").append(j).append("(row, at)");
      fastGroup(columns, first, end, j, nullBytes);
      line("private boolean slow" + j + "(InternalRow row, int at) {");
      for (int i = first; i < end; i++) {
        line("if (!p" + columns.get(i).index + "(row, " + i + ", at)) return false;");
      }
      line("return true; }");
    }
    line("private boolean fast(UnsafeRow row, byte[] base, long start, int at) { return " + fast + "; }");
    line("private boolean slow(InternalRow row, int at) { return " + slow + "; }");
    line("public boolean append(InternalRow row) {");
    line("int at = rows; if (at >= rowsMax) return false;");
    line("mark();");
    line("boolean stored;");
    line("if (row instanceof UnsafeRow) {");
    line("UnsafeRow unsafe = (UnsafeRow) row; Object base = unsafe.getBaseObject();");
    line("stored = base instanceof byte[] ? fast(unsafe, (byte[]) base, unsafe.getBaseOffset(), at)");
    line(" : fast(unsafe, copyOf(unsafe), Platform.BYTE_ARRAY_OFFSET, at);");
    line("} else { stored = slow(row, at); }");
    line("if (stored) { rows = at + 1; return true; }");
    line("restore(); return false; }");
    line("public InternalRow appendAll(java.util.Iterator rowsToCome) {");
    line("while (rowsToCome.hasNext()) {");
    line("InternalRow row = (InternalRow) rowsToCome.next(); if (!append(row)) return row; }");
    line("return null; }");
  }

  /** Columns {@code first} to {@code end} of an UnsafeRow: what lies there as bytes is taken as bytes. */
  private void fastGroup(List<BatchNode> columns, int first, int end, int j, int nullBytes) {
    long mask = 0;
    for (int i = first; i < end; i++) {
      mask |= columns.get(i).nullable ? 1L << (i & 63) : 0;
    }
    line("private boolean fast" + j + "(UnsafeRow row, byte[] base, long start, int at) {");
    line("long f = start + " + nullBytes + "L; long safe = Platform.BYTE_ARRAY_OFFSET + base.length - "
        + RowAppender.WORDS_AT_ONCE + "L;");
    if (mask != 0) {
      line("long nulls = Platform.getLong(base, start + " + 8 * (first >> 6) + "L) & " + mask + "L;");
      line("if (nulls != 0L) return nulls" + j + "(row, base, start, f, safe, nulls, at);");
    }
    for (int i = first; i < end; i++) {
      fastColumn(columns.get(i), i, false);
    }
    line("return true; }");
    if (mask != 0) {
      line("private boolean nulls" + j
          + "(UnsafeRow row, byte[] base, long start, long f, long safe, long nulls, int at) {");
      for (int i = first; i < end; i++) {
        fastColumn(columns.get(i), i, columns.get(i).nullable);
      }
      line("return true; }");
    }
  }

  private void fastColumn(BatchNode node, int i, boolean nullable) {
    int k = node.index;
    String word = "Platform.getLong(base, f + " + 8L * i + "L)";
    String store;
    if (node.kind == BatchNode.Kind.BYTES) {
      store = "long w = " + word + "; int s = (int) w; long h = h#; if (h + s > r#) return false;"
          + " copyWords(base, start + (w >> 32), d# + h, s, safe); h# = h + s;"
          + " Platform.putInt(null, o# + 4L * at + 4, (int) (h + s));";
    } else if (node.type instanceof DecimalType decimal) {
      store = decimal.precision() <= 18
          ? "putDecimal(d# + 16L * at, " + word + ");"
          : "long w = " + word + "; putDecimal(d# + 16L * at, base, start + (w >> 32), (int) w);";
    } else if (node.kind == BatchNode.Kind.BITS) {
      store = "orBit(d#, at, Platform.getByte(base, f + " + 8L * i + "L));";
    } else if (node.kind == BatchNode.Kind.FIXED && node.width <= Long.BYTES) {
      String java = switch (node.width) {
        case 1 -> "Byte";
        case 2 -> "Short";
        case 4 -> "Int";
        default -> "Long";
      };
      store = "Platform.put" + java + "(null, d# + " + node.width + "L * at, Platform.get" + java + "(base, f + "
          + 8L * i + "L));";
    } else {
      line("if (!p" + k + "(row, " + i + ", at)) return false;");
      return;
    }
    String code = nullable
        ? "if ((nulls & " + (1L << (i & 63)) + "L) != 0L) z#(at); else { " + store + " }"
        : "{ " + store + " }";
    line(fill(code, k));
  }

  private void put(BatchNode node) {
    int k = node.index;
    line("private boolean p" + k + "(SpecializedGetters g, int i, int at) {");
    if (node.nullable && node.kind != BatchNode.Kind.NULL) {
      line("if (g.isNullAt(i)) { z" + k + "(at); return true; }");
    }
    line(fill(store(node, "g").replace("@", "i"), k));
    line("return true; }");
  }

  /** Code that stores value @ of {@code g}, not null, as element {@code at} of node #. */
  private String store(BatchNode node, String g) {
    return switch (node.kind) {
      case NULL -> "";
      case BITS -> "orBit(d#, at, " + g + ".getBoolean(@) ? (byte) 1 : (byte) 0);";
      case FIXED -> storeFixed(node, g);
      case BYTES -> node.type instanceof BinaryType
          ? "byte[] b = " + g + ".getBinary(@); " + storeBytes("b", "Platform.BYTE_ARRAY_OFFSET", "b.length")
          : "UTF8String u = " + g + ".getUTF8String(@); "
              + storeBytes("u.getBaseObject()", "u.getBaseOffset()", "u.numBytes()");
      case LIST -> storeList(node, g);
      case STRUCT -> storeStruct(node, g);
    };
  }

  private static String storeFixed(BatchNode node, String g) {
    DataType type = node.type;
    if (type instanceof DecimalType decimal) {
      String value = g + ".getDecimal(@, " + decimal.precision() + ", " + decimal.scale() + ")";
      return "putDecimal(d# + 16L * at, " + value + (decimal.precision() <= 18 ? ".toUnscaledLong());" : ");");
    }
    if (type instanceof CalendarIntervalType) {
      return "CalendarInterval x = " + g + ".getInterval(@);"
          + " putInterval(d# + 16L * at, x.months, x.days, x.microseconds);";
    }
    String java = type instanceof ByteType ? "Byte"
        : type instanceof ShortType ? "Short"
        : type instanceof FloatType ? "Float"
        : type instanceof DoubleType ? "Double"
        : node.width == 4 ? "Int" : "Long";
    return "Platform.put" + java + "(null, d# + " + node.width + "L * at, " + g + ".get" + java + "(@));";
  }

  private static String storeBytes(String base, String from, String bytes) {
    return "int s = " + bytes + "; if (h# + s > r#) return false;"
        + " Platform.copyMemory(" + base + ", " + from + ", null, d# + h#, s); h# += s;"
        + " Platform.putInt(null, o# + 4L * at + 4, (int) h#);";
  }

  private static String storeList(BatchNode node, String g) {
    BatchNode element = node.children.get(0);
    boolean map = node.type instanceof MapType;
    String open = map
        ? "MapData m = " + g + ".getMap(@); ArrayData a = m.keyArray(); ArrayData b = m.valueArray();"
        : "ArrayData a = " + g + ".getArray(@);";
    String one = map
        ? "if (!p" + element.children.get(0).index + "(a, j, n + j) || !p" + element.children.get(1).index
            + "(b, j, n + j)) return false;"
        : "if (!p" + element.index + "(a, j, n + j)) return false;";
    return open + " int e = a.numElements(); int n = n#; if (e > c# - n) return false;"
        + " for (int j = 0; j < e; j++) { " + one + " } n# = n + e;"
        + " Platform.putInt(null, o# + 4L * at + 4, n + e);";
  }

  private static String storeStruct(BatchNode node, String g) {
    if (node.type instanceof VariantType) {
      int value = node.children.get(0).index;
      int metadata = node.children.get(1).index;
      return "VariantVal x = " + g + ".getVariant(@);"
          + " { byte[] b = x.getValue(); " + fill(storeBytes("b", "Platform.BYTE_ARRAY_OFFSET", "b.length"), value)
          + " } { byte[] b = x.getMetadata(); "
          + fill(storeBytes("b", "Platform.BYTE_ARRAY_OFFSET", "b.length"), metadata) + " }";
    }
    StringBuilder code = new StringBuilder("InternalRow s = " + g + ".getStruct(@, " + node.children.size() + ");");
    for (int i = 0; i < node.children.size(); i++) {
      code.append(" if (!p").append(node.children.get(i).index).append("(s, ").append(i).append(", at)) return false;");
    }
    return code.toString();
  }

  /** A null leaves zeros behind, never what an older batch had there. */
  private void zero(BatchNode node) {
    int k = node.index;
    line("private void z" + k + "(int at) {");
    if (node.nullable && node.kind != BatchNode.Kind.NULL) {
      line(fill("setNull(v#, at);", k));
    }
    switch (node.kind) {
      case FIXED -> line(fill(zeroFixed(node.width), k));
      case BYTES -> line(fill("Platform.putInt(null, o# + 4L * at + 4, (int) h#);", k));
      case LIST -> line(fill("Platform.putInt(null, o# + 4L * at + 4, n#);", k));
      case STRUCT -> node.children.forEach(child -> line("z" + child.index + "(at);"));
      default -> { }
    }
    line("}");
  }

  private static String zeroFixed(int width) {
    return switch (width) {
      case 1 -> "Platform.putByte(null, d# + at, (byte) 0);";
      case 2 -> "Platform.putShort(null, d# + 2L * at, (short) 0);";
      case 4 -> "Platform.putInt(null, d# + 4L * at, 0);";
      case 8 -> "Platform.putLong(null, d# + 8L * at, 0L);";
      default -> "Platform.putLong(null, d# + 16L * at, 0L); Platform.putLong(null, d# + 16L * at + 8, 0L);";
    };
  }

  private static String fill(String code, int k) {
    return code.replace("#", Integer.toString(k));
  }

  private void line(String code) {
    out.append(code).append('\n');
  }
}
