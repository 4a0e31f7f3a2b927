package org.lwmq.spark.batch;

import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/**
 * Publishes Spark's column batches without going through rows: one copy from the plan's vectors into the block.
 *
 * <p>Three ways, by what the batch consists of: Arrow vectors of the stream's own types are copied buffer by buffer;
 * flat columns of any kind run by run; anything else goes to {@code rows}, row by row, as do rows with a string that is
 * not UTF-8, which are refused or repaired there. Batches larger than a block are cut. Task side; one thread.
 */
final class ColumnBatches {
  private final BatchSink sink;
  private final List<BatchNode> nodes;
  private final List<Field> fields;
  private final NullRules nullRules;
  private final long batchBytes;
  private final RowSink rows;
  private final ArrowBatches arrow;
  private final FlatColumns columns; // null: not all are flat
  private long copied;

  /** {@code rows} takes what cannot stay in columns; {@code nodes} are of {@code schema}. */
  ColumnBatches(
      BatchSink sink, StructType schema, List<BatchNode> nodes, NullRules nullRules, long batchBytes, RowSink rows) {
    this.sink = sink;
    this.nodes = nodes;
    this.fields = StreamSchema.arrow(schema).getFields();
    this.nullRules = nullRules;
    this.batchBytes = batchBytes;
    this.rows = rows;
    this.arrow = new ArrowBatches(sink, nullRules);
    this.columns = nodes.stream().allMatch(ColumnCopier::copies) ? new FlatColumns(nodes) : null;
  }

  /** Publishes {@code batch}, after what came before it as rows. The batch stays the caller's. */
  void write(ColumnarBatch batch) {
    if (batch.numCols() != fields.size()) {
      throw new IllegalStateException(batch.numCols() + " columns for " + fields.size() + " fields");
    }
    if (batch.numRows() == 0) {
      return;
    }
    if (isArrow(batch)) {
      rows.flush();
      writeArrow(batch);
    } else if (columns != null) {
      rows.flush();
      writeFlat(batch);
    } else {
      rows.writeAll(batch.rowIterator());
    }
  }

  long bytesCopied() {
    return copied + arrow.bytesCopied();
  }

  private boolean isArrow(ColumnarBatch batch) {
    for (int i = 0; i < batch.numCols(); i++) {
      if (!(batch.column(i) instanceof ArrowColumnVector column)
          || !StreamSchema.sameLayout(((FieldVector) column.getValueVector()).getField(), fields.get(i))) {
        return false;
      }
    }
    return true;
  }

  private void writeArrow(ColumnarBatch batch) {
    List<FieldVector> vectors = new ArrayList<>();
    long bytes = 0;
    for (int i = 0; i < batch.numCols(); i++) {
      FieldVector vector = (FieldVector) ((ArrowColumnVector) batch.column(i)).getValueVector();
      vectors.add(vector);
      bytes += vector.getBufferSize();
    }
    VectorSchemaRoot root = new VectorSchemaRoot(vectors); // not closed: the vectors are the plan's
    root.setRowCount(batch.numRows());
    int step = rowsPerBlock(batch.numRows(), bytes);
    if (step >= batch.numRows()) {
      writeArrow(batch, 0, root);
      return;
    }
    for (int from = 0; from < batch.numRows(); from += step) {
      try (VectorSchemaRoot slice = root.slice(from, Math.min(step, batch.numRows() - from))) {
        writeArrow(batch, from, slice);
      }
    }
  }

  private void writeArrow(ColumnarBatch batch, int from, VectorSchemaRoot slice) {
    if (Utf8.areValid(slice.getFieldVectors())) {
      arrow.write(slice);
    } else {
      writeRows(batch, from, slice.getRowCount());
    }
  }

  private void writeRows(ColumnarBatch batch, int from, int n) {
    for (int i = from; i < from + n; i++) {
      rows.write(batch.getRow(i));
    }
    rows.flush();
  }

  private void writeFlat(ColumnarBatch batch) {
    int step = rowsPerBlock(batch.numRows(), columns.choose(batch, 0, batch.numRows()));
    for (int from = 0; from < batch.numRows(); from += step) {
      writePiece(batch, from, Math.min(step, batch.numRows() - from));
    }
  }

  private void writePiece(ColumnarBatch batch, int from, int n) {
    boolean written;
    try {
      written = writeFlat(batch, from, n);
    } catch (LwmqException e) {
      if (e.status() != Status.TOO_BIG || n == 1) {
        throw e;
      }
      writePiece(batch, from, n / 2);
      writePiece(batch, from + n / 2, n - n / 2);
      return;
    }
    if (!written) {
      writeRows(batch, from, n);
    }
  }

  /** False, and nothing is written, when a string is not UTF-8. */
  private boolean writeFlat(ColumnarBatch batch, int from, int n) {
    long bodyOffset = IpcMessage.bodyOffset(nodes.size(), IpcMessage.bufferCountOf(nodes));
    long block = sink.allocate(bodyOffset + columns.choose(batch, from, n));
    try {
      long body = block + bodyOffset;
      long bytes = columns.copyTo(body);
      IpcMessage message = new IpcMessage(nodes);
      for (BatchNode node : nodes) {
        if (!describe(message, node, n, body)) {
          sink.discard();
          return false;
        }
      }
      message.write(block, bodyOffset, bytes, n);
      sink.publish(bodyOffset + bytes, n);
      copied += bytes;
      return true;
    } catch (RuntimeException e) {
      sink.discard();
      throw e;
    }
  }

  /** Adds one column to the message; false when a string of it is not UTF-8. */
  private boolean describe(IpcMessage message, BatchNode node, int n, long body) {
    int k = node.index;
    message.addNode(n, columns.nulls[k]);
    if (node.kind == BatchNode.Kind.NULL) {
      return true;
    }
    nullRules.check(k, columns.nulls[k]);
    if (columns.nulls[k] > 0) {
      message.addBuffer(columns.validity[k] - body, BatchLayout.bitmapBytes(n));
    } else {
      message.addBuffer(0, 0);
    }
    if (node.kind == BatchNode.Kind.BYTES) {
      if (node.isText() && !Utf8.areValid(columns.offsets[k], n, columns.values[k])) {
        return false;
      }
      message.addBuffer(columns.offsets[k] - body, 4L * n + 4);
    }
    message.addBuffer(columns.values[k] - body, columns.bytesOf(node));
    return true;
  }

  private int rowsPerBlock(int count, long bytes) {
    if (bytes <= batchBytes) {
      return count;
    }
    long pieces = (bytes + batchBytes - 1) / batchBytes;
    return (int) Math.max(1, (count + pieces - 1) / pieces);
  }
}
