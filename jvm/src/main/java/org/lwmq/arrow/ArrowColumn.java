package org.lwmq.arrow;

import org.apache.arrow.vector.types.pojo.Field;

/**
 * Where one column of a batch lies, as addresses. Every buffer lies inside its block and is long enough for
 * {@link #length} values; what the buffers <em>say</em> (offsets, indices, views) is unchecked and may change while it
 * is read. Valid as long as the batch is leased. Immutable.
 */
public final class ArrowColumn {
  /** With a dictionary, the field's type is the type of the dictionary's values. */
  public final Field field;
  public final int length;
  /** Address of the validity bits; 0 when no value is null. */
  public final long validity;
  /** Addresses of the buffers after validity, in the order of the Arrow format. */
  public final long[] buffers;
  /** How long each of them is. */
  public final long[] sizes;
  public final ArrowColumn[] children;
  /** The values that the column's indices point to; null when it holds its values itself. */
  public final ArrowColumn dictionary;

  ArrowColumn(
      Field field, int length, long validity, long[] buffers, long[] sizes, ArrowColumn[] children,
      ArrowColumn dictionary) {
    this.field = field;
    this.length = length;
    this.validity = validity;
    this.buffers = buffers;
    this.sizes = sizes;
    this.children = children;
    this.dictionary = dictionary;
  }

  /** Bytes of all buffers of the column and its children. */
  public long bytes() {
    long bytes = validity == 0 ? 0 : (length + 7L) / 8;
    for (long size : sizes) {
      bytes += size;
    }
    for (ArrowColumn child : children) {
      bytes += child.bytes();
    }
    return dictionary == null ? bytes : bytes + dictionary.bytes();
  }
}
