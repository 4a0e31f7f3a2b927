package org.lwmq.spark.batch;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * A range of rows of a column batch, copied as Arrow buffers to one piece of memory. All columns are flat: see {@link
 * ColumnCopier#copies}. Task side; one thread.
 *
 * <pre>
 *   address, 64-byte aligned
 *   | column 0: validity, if a row is null | offsets | values | column 1: ... |     each buffer 64-byte aligned
 * </pre>
 */
final class FlatColumns {
  final List<BatchNode> nodes;
  /** Addresses, by column; 0 where the column has no such buffer. */
  final long[] validity;
  final long[] offsets;
  final long[] values;
  /** By column. */
  final long[] nulls;
  /** Of the values, by BYTES column. */
  final long[] valueBytes;

  private ColumnarBatch batch;
  private int from;
  private int rows;

  FlatColumns(List<BatchNode> nodes) {
    int n = nodes.size();
    this.nodes = nodes;
    this.validity = new long[n];
    this.offsets = new long[n];
    this.values = new long[n];
    this.nulls = new long[n];
    this.valueBytes = new long[n];
  }

  int rows() {
    return rows;
  }

  /** Chooses {@code n} rows from row {@code first} on; answers the most bytes that {@link #copyTo} needs for them. */
  long choose(ColumnarBatch chosen, int first, int n) {
    batch = chosen;
    from = first;
    rows = n;
    long bytes = 0;
    for (BatchNode node : nodes) {
      int k = node.index;
      if (node.kind == BatchNode.Kind.NULL) {
        continue;
      }
      bytes += BatchLayout.align(BatchLayout.bitmapBytes(n));
      if (node.kind == BatchNode.Kind.BYTES) {
        valueBytes[k] = ColumnCopier.valueBytes(node, batch.column(k), from, n);
        bytes += BatchLayout.align(4L * n + 4) + BatchLayout.align(valueBytes[k]);
      } else {
        bytes += BatchLayout.align(bytesOf(node));
      }
    }
    return bytes;
  }

  /** Copies the rows that were chosen to {@code address}; answers how many bytes they have there. */
  long copyTo(long address) {
    long at = address;
    for (BatchNode node : nodes) {
      int k = node.index;
      ColumnVector column = batch.column(k);
      validity[k] = 0;
      if (node.kind == BatchNode.Kind.NULL) {
        nulls[k] = rows;
        continue;
      }
      nulls[k] = column.hasNull() ? ColumnCopier.validity(column, from, rows, at) : 0;
      if (nulls[k] > 0) {
        validity[k] = at;
        at += BatchLayout.align(BatchLayout.bitmapBytes(rows));
      }
      if (node.kind == BatchNode.Kind.BYTES) {
        offsets[k] = at;
        at += BatchLayout.align(4L * rows + 4);
      }
      values[k] = at;
      switch (node.kind) {
        case BITS -> ColumnCopier.bits(column, from, rows, at);
        case FIXED -> ColumnCopier.fixed(node, column, from, rows, at);
        default -> ColumnCopier.bytes(node, column, from, rows, offsets[k], at, valueBytes[k]);
      }
      at += BatchLayout.align(bytesOf(node));
    }
    return at - address;
  }

  /** The row {@code i} of those that were chosen. Valid until the next call. */
  InternalRow row(int i) {
    return batch.getRow(from + i);
  }

  /** Of the values of a column, without the empty bytes behind them. */
  long bytesOf(BatchNode node) {
    return switch (node.kind) {
      case BITS -> BatchLayout.bitmapBytes(rows);
      case FIXED -> (long) rows * node.width;
      default -> valueBytes[node.index];
    };
  }
}
