package org.lwmq.core;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * The columns by which rows find their partitions, described as the Arrow C data interface has it. Their buffers lie in
 * native memory of the caller, who vouches for the addresses. One thread.
 *
 * <pre>
 *   ArrowSchema of the struct and of each column | ArrowArray, likewise | pointers to the columns' | their buffers | formats
 * </pre>
 */
public final class KeyColumns {
  private static final int SCHEMA_WORDS = 9; // format, name, metadata, flags, children, ...
  private static final int ARRAY_WORDS = 10; // length, nulls, offset, buffers, children, ...
  private static final int BUFFERS = 3;
  private static final long NULLS_UNKNOWN = -1;

  private final ByteBuffer memory;
  private final long address;
  private final int columns;
  private final int arrays; // words that stand before them
  private final int buffers; // likewise

  /** @param formats of the columns, as the Arrow C data interface writes them */
  public KeyColumns(List<String> formats) {
    columns = formats.size();
    arrays = (1 + columns) * SCHEMA_WORDS;
    int pointers = arrays + (1 + columns) * ARRAY_WORDS;
    buffers = pointers + 2 * columns;
    int texts = Long.BYTES * (buffers + BUFFERS * columns);
    byte[] all = ("+s\0" + String.join("\0", formats) + '\0').getBytes(StandardCharsets.US_ASCII);
    memory = ByteBuffer.allocateDirect(texts + all.length).order(ByteOrder.nativeOrder());
    memory.put(texts, all);
    address = Memory.address(memory);
    set(4, columns);
    set(5, at(pointers));
    set(arrays + 4, columns);
    set(arrays + 6, at(pointers + columns));
    set(0, address + texts);
    long text = address + texts + "+s\0".length();
    for (int i = 0; i < columns; i++) {
      int schema = (1 + i) * SCHEMA_WORDS;
      set(pointers + i, at(schema));
      set(pointers + columns + i, at(array(i)));
      set(schema, text);
      set(array(i) + 3, BUFFERS);
      set(array(i) + 5, at(buffers + BUFFERS * i));
      text += formats.get(i).length() + 1;
    }
  }

  /**
   * Says where the buffers of column {@code i} lie.
   *
   * @param validity 0: no value is null
   * @param second the values, or the offsets of texts
   * @param third the bytes of texts
   */
  public void set(int i, long validity, long second, long third) {
    set(array(i) + 1, validity == 0 ? 0 : NULLS_UNKNOWN);
    set(buffers + BUFFERS * i, validity);
    set(buffers + BUFFERS * i + 1, second);
    set(buffers + BUFFERS * i + 2, third);
  }

  /**
   * Writes the partition of each of {@code rows} rows to {@code ids}, an int32 each: {@code lwmq_partition_ids}.
   * UNSUPPORTED: a column has a format that cannot be a key.
   */
  public void partitionIds(int rows, int partitions, long ids) {
    set(arrays, rows);
    for (int i = 0; i < columns; i++) {
      set(array(i), rows);
    }
    Jni.partitionIds(address, at(arrays), partitions, ids);
  }

  private int array(int column) {
    return arrays + (1 + column) * ARRAY_WORDS;
  }

  private long at(int word) {
    return address + (long) Long.BYTES * word;
  }

  private void set(int word, long value) {
    memory.putLong(Long.BYTES * word, value);
  }
}
