package org.lwmq.spark.batch;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.unsafe.Platform;

/** Stores rows of {@link FlatColumns}, picked by their numbers, column by column. One thread. */
final class ColumnAppender extends BatchAppender {
  private final List<BatchNode> nodes;
  private long[] room;
  private long[] validity;
  private long[] offsets;
  private long[] values;

  ColumnAppender(List<BatchNode> nodes) {
    super(nodes.size());
    this.nodes = nodes;
  }

  /** Stores the rows {@code picked[from]} to {@code picked[to - 1]}, or as many of them as fit; answers how many. */
  int append(FlatColumns columns, int[] picked, int from, int to) {
    int end = fitting(columns, picked, from, Math.min(to, from + rowsMax - rows));
    for (BatchNode node : nodes) {
      int k = node.index;
      if (node.kind == BatchNode.Kind.NULL) {
        continue;
      }
      if (columns.validity[k] != 0) {
        nulls(columns.validity[k], picked, from, end, validity[k]);
      }
      switch (node.kind) {
        case BITS -> bits(columns.values[k], picked, from, end, values[k]);
        case FIXED -> fixed(node.width, columns.values[k], picked, from, end, values[k]);
        default -> texts(columns, k, picked, from, end);
      }
    }
    rows += end - from;
    return end - from;
  }

  @Override
  protected void load(int[] capacity, long[] newRoom, long[] newValidity, long[] newOffsets, long[] newValues) {
    room = newRoom;
    validity = newValidity;
    offsets = newOffsets;
    values = newValues;
    Arrays.fill(used, 0);
  }

  @Override
  protected void save() {}

  /** Where the first row stands whose strings have no room; {@code to}, if all have. */
  private int fitting(FlatColumns columns, int[] picked, int from, int to) {
    int end = to;
    for (BatchNode node : nodes) {
      int k = node.index;
      if (node.kind != BatchNode.Kind.BYTES || columns.valueBytes[k] <= room[k] - used[k]) {
        continue;
      }
      long left = room[k] - used[k];
      for (int i = from; i < end; i++) {
        left -= length(columns, k, picked[i]);
        if (left < 0) {
          end = i;
        }
      }
    }
    return end;
  }

  /** Of a text. A null may have bytes in Arrow, which nobody has measured. */
  private static int length(FlatColumns columns, int k, int row) {
    if (columns.validity[k] != 0 && !bit(columns.validity[k], row)) {
      return 0;
    }
    long offset = columns.offsets[k] + 4L * row;
    return Platform.getInt(null, offset + 4) - Platform.getInt(null, offset);
  }

  private static boolean bit(long bits, int at) {
    return (Platform.getByte(null, bits + (at >> 3)) >> (at & 7) & 1) != 0;
  }

  private void nulls(long source, int[] picked, int from, int end, long to) {
    for (int i = from; i < end; i++) {
      if (!bit(source, picked[i])) {
        setNull(to, rows + i - from);
      }
    }
  }

  private void bits(long source, int[] picked, int from, int end, long to) {
    for (int i = from; i < end; i++) {
      if (bit(source, picked[i])) {
        orBit(to, rows + i - from, (byte) 1);
      }
    }
  }

  private void fixed(int width, long source, int[] picked, int from, int end, long to) {
    long at = to + (long) rows * width;
    switch (width) {
      case 1 -> {
        for (int i = from; i < end; i++) {
          Platform.putByte(null, at + i - from, Platform.getByte(null, source + picked[i]));
        }
      }
      case 2 -> {
        for (int i = from; i < end; i++) {
          Platform.putShort(null, at + 2L * (i - from), Platform.getShort(null, source + 2L * picked[i]));
        }
      }
      case 4 -> {
        for (int i = from; i < end; i++) {
          Platform.putInt(null, at + 4L * (i - from), Platform.getInt(null, source + 4L * picked[i]));
        }
      }
      case 8 -> {
        for (int i = from; i < end; i++) {
          Platform.putLong(null, at + 8L * (i - from), Platform.getLong(null, source + 8L * picked[i]));
        }
      }
      default -> {
        for (int i = from; i < end; i++) {
          long value = source + 16L * picked[i];
          Platform.putLong(null, at + 16L * (i - from), Platform.getLong(null, value));
          Platform.putLong(null, at + 16L * (i - from) + 8, Platform.getLong(null, value + 8));
        }
      }
    }
  }

  private void texts(FlatColumns columns, int k, int[] picked, int from, int end) {
    long ends = offsets[k] + 4L * rows + 4;
    long at = used[k];
    for (int i = from; i < end; i++) {
      int length = length(columns, k, picked[i]);
      long value = columns.values[k] + Platform.getInt(null, columns.offsets[k] + 4L * picked[i]);
      RowAppender.copyWords(null, value, values[k] + at, length, Long.MAX_VALUE);
      at += length;
      Platform.putInt(null, ends + 4L * (i - from), (int) at);
    }
    used[k] = at;
  }
}
