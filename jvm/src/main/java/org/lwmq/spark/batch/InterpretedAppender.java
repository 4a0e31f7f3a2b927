package org.lwmq.spark.batch;

import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.CalendarIntervalType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;

/**
 * Stores rows of any schema by walking its nodes, value by value: for schemas so wide that a generated class would pass
 * the limits of the class format ({@link AppenderCompiler}).
 */
final class InterpretedAppender extends RowAppender {
  private final List<BatchNode> nodes;
  private final BatchNode[] columns;
  private int[] capacity;
  private long[] room;
  private long[] validity;
  private long[] offsets;
  private long[] values;

  InterpretedAppender(List<BatchNode> nodes) {
    super(nodes.size());
    this.nodes = nodes;
    this.columns = nodes.stream().filter(BatchNode::isTop).toArray(BatchNode[]::new);
  }

  @Override
  protected void load(
      int[] newCapacity, long[] newRoom, long[] newValidity, long[] newOffsets, long[] newValues) {
    capacity = newCapacity;
    room = newRoom;
    validity = newValidity;
    offsets = newOffsets;
    values = newValues;
    restore();
  }

  @Override
  protected void save() {}

  @Override
  public boolean append(InternalRow row) {
    if (rows >= rowsMax) {
      return false;
    }
    for (int i = 0; i < columns.length; i++) {
      if (!put(columns[i], row, i, rows)) {
        restore();
        return false;
      }
    }
    rows++;
    return true;
  }

  @Override
  public InternalRow appendAll(Iterator<InternalRow> rowsToCome) {
    while (rowsToCome.hasNext()) {
      InternalRow row = rowsToCome.next();
      if (!append(row)) {
        return row;
      }
    }
    return null;
  }

  /** Puts the counters where whole rows end, as the offsets have it. */
  private void restore() {
    for (BatchNode node : nodes) {
      int k = node.index;
      count[k] = node.isTop() ? rows
          : node.followsParent() ? count[node.parent.index]
          : Platform.getInt(null, offsets[node.parent.index] + 4L * count[node.parent.index]);
      used[k] = node.kind == BatchNode.Kind.BYTES ? Platform.getInt(null, offsets[k] + 4L * count[k]) : 0;
    }
  }

  /** Stores value {@code i} of {@code from} as element {@code at} of {@code node}. False when there is no room. */
  private boolean put(BatchNode node, SpecializedGetters from, int i, int at) {
    int k = node.index;
    if (node.kind == BatchNode.Kind.NULL) {
      return true;
    }
    if (from.isNullAt(i)) {
      putNull(node, at);
      return true;
    }
    switch (node.kind) {
      case BITS -> orBit(values[k], at, from.getBoolean(i) ? (byte) 1 : (byte) 0);
      case FIXED -> putFixed(node, from, i, values[k] + (long) node.width * at);
      case BYTES -> {
        if (node.type instanceof BinaryType) {
          byte[] value = from.getBinary(i);
          return putBytes(k, value, Platform.BYTE_ARRAY_OFFSET, value.length, at);
        }
        UTF8String value = from.getUTF8String(i);
        return putBytes(k, value.getBaseObject(), value.getBaseOffset(), value.numBytes(), at);
      }
      case LIST -> {
        return putList(node, from, i, at);
      }
      default -> {
        return putStruct(node, from, i, at);
      }
    }
    return true;
  }

  private static void putFixed(BatchNode node, SpecializedGetters from, int i, long to) {
    if (node.type instanceof DecimalType decimal) {
      if (decimal.precision() <= 18) {
        putDecimal(to, from.getDecimal(i, decimal.precision(), decimal.scale()).toUnscaledLong());
      } else {
        putDecimal(to, from.getDecimal(i, decimal.precision(), decimal.scale()));
      }
    } else if (node.type instanceof CalendarIntervalType) {
      CalendarInterval value = from.getInterval(i);
      putInterval(to, value.months, value.days, value.microseconds);
    } else if (node.type instanceof DoubleType) {
      Platform.putDouble(null, to, from.getDouble(i));
    } else if (node.type instanceof FloatType) {
      Platform.putFloat(null, to, from.getFloat(i));
    } else if (node.type instanceof ByteType) {
      Platform.putByte(null, to, from.getByte(i));
    } else if (node.type instanceof ShortType) {
      Platform.putShort(null, to, from.getShort(i));
    } else if (node.width == Integer.BYTES) {
      Platform.putInt(null, to, from.getInt(i));
    } else {
      Platform.putLong(null, to, from.getLong(i));
    }
  }

  private boolean putBytes(int k, Object base, long start, int bytes, int at) {
    long end = used[k] + bytes;
    if (end > room[k]) {
      return false;
    }
    Platform.copyMemory(base, start, null, values[k] + used[k], bytes);
    used[k] = end;
    Platform.putInt(null, offsets[k] + 4L * at + 4, (int) end);
    return true;
  }

  private boolean putList(BatchNode node, SpecializedGetters from, int i, int at) {
    BatchNode element = node.children.get(0);
    MapData map = node.type instanceof MapType ? from.getMap(i) : null;
    ArrayData array = map == null ? from.getArray(i) : map.keyArray();
    int begin = count[element.index];
    int n = array.numElements();
    if (n > capacity[element.index] - begin) {
      return false;
    }
    for (int j = 0; j < n; j++) {
      boolean stored = map == null
          ? put(element, array, j, begin + j)
          : put(element.children.get(0), array, j, begin + j)
              && put(element.children.get(1), map.valueArray(), j, begin + j);
      if (!stored) {
        return false;
      }
    }
    count[element.index] = begin + n;
    Platform.putInt(null, offsets[node.index] + 4L * at + 4, begin + n);
    return true;
  }

  private boolean putStruct(BatchNode node, SpecializedGetters from, int i, int at) {
    if (node.type instanceof VariantType) {
      VariantVal value = from.getVariant(i);
      byte[] bytes = value.getValue();
      byte[] metadata = value.getMetadata();
      int k = node.children.get(0).index;
      return putBytes(k, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, at)
          && putBytes(k + 1, metadata, Platform.BYTE_ARRAY_OFFSET, metadata.length, at);
    }
    InternalRow struct = from.getStruct(i, node.children.size());
    for (int j = 0; j < node.children.size(); j++) {
      if (!put(node.children.get(j), struct, j, at)) {
        return false;
      }
    }
    return true;
  }

  /** A null leaves zeros behind, never what an older batch had there. */
  private void putNull(BatchNode node, int at) {
    int k = node.index;
    if (validity[k] != 0) {
      setNull(validity[k], at);
    }
    switch (node.kind) {
      case FIXED -> Platform.setMemory(values[k] + (long) node.width * at, (byte) 0, node.width);
      case BYTES -> Platform.putInt(null, offsets[k] + 4L * at + 4, (int) used[k]);
      case LIST -> Platform.putInt(null, offsets[k] + 4L * at + 4, count[node.children.get(0).index]);
      case STRUCT -> node.children.forEach(child -> putNull(child, at));
      default -> { }
    }
  }
}
