package org.lwmq.spark.batch;

import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/**
 * Looks at each string of each row before it is stored: what is not UTF-8 is repaired, as Spark's
 * {@code make_valid_utf8} does it, or refused. In front of sinks that cannot do it by whole batches. Task side; one
 * thread.
 */
final class Utf8Rows implements RowSink {
  private final RowSink sink;
  private final StructType schema;
  private final boolean repairs;
  private final Map<DataType, Boolean> known = new IdentityHashMap<>();
  private long rows;

  /** Takes {@code sink}. */
  Utf8Rows(RowSink sink, StructType schema, boolean repairs) {
    this.sink = sink;
    this.schema = schema;
    this.repairs = repairs;
  }

  @Override
  public void write(InternalRow row) {
    sink.write(valid(row));
    rows++;
  }

  @Override
  public void writeAll(Iterator<InternalRow> input) {
    while (input.hasNext()) {
      write(input.next());
    }
  }

  @Override
  public void flush() {
    sink.flush();
  }

  @Override
  public long bytesCopied() {
    return sink.bytesCopied();
  }

  @Override
  public void close() {
    sink.close();
  }

  /** {@code row} itself where all is well. */
  private InternalRow valid(InternalRow row) {
    return hasText(schema) ? (InternalRow) valid(schema, row, "") : row;
  }

  private Object valid(DataType declared, Object value, String path) {
    DataType type = BatchNode.stored(declared);
    if (value == null || !hasText(type)) {
      return value;
    }
    if (type instanceof StructType struct) {
      return validStruct(struct, (InternalRow) value, path);
    }
    if (type instanceof ArrayType array) {
      return validArray(array.elementType(), (ArrayData) value, path + ".element");
    }
    if (type instanceof MapType map) {
      ArrayData keys = ((MapData) value).keyArray();
      ArrayData values = ((MapData) value).valueArray();
      ArrayData validKeys = validArray(map.keyType(), keys, path + ".key");
      ArrayData validValues = validArray(map.valueType(), values, path + ".value");
      return validKeys == keys && validValues == values ? value : new ArrayBasedMapData(validKeys, validValues);
    }
    UTF8String text = (UTF8String) value;
    if (Utf8.isValid(text.getBaseObject(), text.getBaseOffset(), text.numBytes())) {
      return text;
    }
    if (!repairs) {
      throw refused(path, rows, text.getBytes());
    }
    return text.makeValid();
  }

  private InternalRow validStruct(StructType struct, InternalRow row, String path) {
    Object[] values = new Object[struct.size()];
    boolean same = true;
    for (int i = 0; i < values.length; i++) {
      StructField field = struct.fields()[i];
      if (!row.isNullAt(i) && hasText(field.dataType())) {
        Object value = row.get(i, BatchNode.stored(field.dataType()));
        values[i] = valid(field.dataType(), value, path.isEmpty() ? field.name() : path + "." + field.name());
        same &= values[i] == value;
      }
    }
    if (same) {
      return row;
    }
    for (int i = 0; i < values.length; i++) {
      DataType type = struct.fields()[i].dataType();
      if (!row.isNullAt(i) && !hasText(type)) {
        values[i] = row.get(i, BatchNode.stored(type));
      }
    }
    return new GenericInternalRow(values);
  }

  private ArrayData validArray(DataType element, ArrayData array, String path) {
    if (!hasText(element)) {
      return array;
    }
    DataType stored = BatchNode.stored(element);
    Object[] values = new Object[array.numElements()];
    boolean same = true;
    for (int i = 0; i < values.length; i++) {
      if (!array.isNullAt(i)) {
        Object value = array.get(i, stored);
        values[i] = valid(stored, value, path);
        same &= values[i] == value;
      }
    }
    return same ? array : new GenericArrayData(values);
  }

  private boolean hasText(DataType declared) {
    Boolean has = known.get(declared);
    if (has == null) {
      DataType type = BatchNode.stored(declared);
      has = BatchNode.isText(type)
          || type instanceof ArrayType array && hasText(array.elementType())
          || type instanceof MapType map && (hasText(map.keyType()) || hasText(map.valueType()))
          || type instanceof StructType struct && hasText(struct.fields());
      known.put(declared, has);
    }
    return has;
  }

  private boolean hasText(StructField[] fields) {
    for (StructField field : fields) {
      if (hasText(field.dataType())) {
        return true;
      }
    }
    return false;
  }

  /** INVALID, of a string in row {@code row} of its task, counted from 0. */
  static LwmqException refused(String path, long row, byte[] bytes) {
    StringBuilder shown = new StringBuilder();
    for (int i = 0; i < Math.min(bytes.length, 16); i++) {
      shown.append(String.format(" %02X", bytes[i]));
    }
    return new LwmqException(Status.INVALID, "the string in " + path + " of row " + row
        + " of its task is not UTF-8: " + bytes.length + " bytes," + shown + (bytes.length > 16 ? " ..." : "")
        + "; cast it to binary, repair it with make_valid_utf8, or write with option invalidUtf8=replace");
  }
}
