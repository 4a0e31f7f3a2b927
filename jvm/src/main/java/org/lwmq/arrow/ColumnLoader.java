package org.lwmq.arrow;

import java.util.List;
import java.util.Map;
import org.apache.arrow.flatbuf.Buffer;
import org.apache.arrow.flatbuf.FieldNode;
import org.apache.arrow.flatbuf.RecordBatch;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/**
 * Deals the nodes and buffers of one record batch out to its fields, in pre-order as the format wants it, and checks
 * each: inside the body, and long enough. Used once.
 */
final class ColumnLoader {
  private static final ArrowColumn[] NONE = {};

  private final RecordBatch batch;
  private final long body;
  private final long bodyBytes;
  private final Map<Long, ArrowColumn> dictionaries;
  private final FieldNode node = new FieldNode();
  private final Buffer buffer = new Buffer();
  private int nodeAt;
  private int bufferAt;
  private int viewAt;

  ColumnLoader(RecordBatch batch, long body, long bodyBytes, Map<Long, ArrowColumn> dictionaries) {
    this.batch = batch;
    this.body = body;
    this.bodyBytes = bodyBytes;
    this.dictionaries = dictionaries;
  }

  /** The columns at the places {@code wanted}, in that order; the others are stepped over. */
  IpcBlock.Columns load(List<Field> fields, int[] wanted) {
    int rows = length(batch.length(), "the batch");
    ArrowColumn[] all = new ArrowColumn[fields.size()];
    boolean[] isWanted = new boolean[all.length];
    for (int place : wanted) {
      isWanted[place] = true;
    }
    for (int i = 0; i < all.length; i++) {
      Field field = fields.get(i);
      if (isWanted[i]) {
        all[i] = column(field, field.getName());
        if (all[i].length != rows) {
          throw corrupt("field " + field.getName() + " has " + all[i].length + " values in a batch of " + rows + " rows");
        }
      } else {
        skip(field);
      }
    }
    ArrowColumn[] columns = new ArrowColumn[wanted.length];
    for (int i = 0; i < wanted.length; i++) {
      columns[i] = all[wanted[i]];
    }
    return new IpcBlock.Columns(rows, columns);
  }

  private ArrowColumn column(Field field, String path) {
    boolean encoded = field.getDictionary() != null;
    ArrowType type = encoded ? field.getDictionary().getIndexType() : field.getType();
    BufferLayout layout = BufferLayout.of(type);
    batch.nodes(node, checked(nodeAt++, batch.nodesLength()));
    int length = length(node.length(), "field " + path);
    boolean hasNulls = node.nullCount() != 0;
    long validity = layout.hasValidity() ? take(path, hasNulls ? (length + 7L) / 8 : 0) : 0;
    int count = layout.bits().length + (layout.isView() ? viewBuffers() : 0);
    long[] buffers = new long[count];
    long[] sizes = new long[count];
    for (int i = 0; i < count; i++) {
      buffers[i] = take(path, i < layout.bits().length ? layout.bytesMin(i, length) : 0);
      sizes[i] = buffer.length();
    }
    ArrowColumn dictionary = encoded ? dictionary(field, path) : null;
    ArrowColumn[] children = encoded ? NONE : children(field, path, length);
    return new ArrowColumn(field, length, hasNulls ? validity : 0, buffers, sizes, children, dictionary);
  }

  private ArrowColumn[] children(Field field, String path, int length) {
    List<Field> fields = field.getChildren();
    if (fields.isEmpty()) {
      return NONE;
    }
    ArrowColumn[] children = new ArrowColumn[fields.size()];
    for (int i = 0; i < children.length; i++) {
      children[i] = column(fields.get(i), path + "." + fields.get(i).getName());
      long least =
          field.getType() instanceof ArrowType.FixedSizeList list
              ? (long) length * list.getListSize()
              : field.getType() instanceof ArrowType.Struct ? length : 0;
      if (children[i].length < least) {
        throw corrupt("field " + path + " needs " + least + " values below it, but " + children[i].length + " are there");
      }
    }
    if (field.getType() instanceof ArrowType.RunEndEncoded && children[0].length < children[1].length) {
      throw corrupt("field " + path + " has " + children[1].length + " runs, and where " + children[0].length + " end");
    }
    return children;
  }

  private void skip(Field field) {
    boolean encoded = field.getDictionary() != null;
    BufferLayout layout = BufferLayout.of(encoded ? field.getDictionary().getIndexType() : field.getType());
    nodeAt++;
    bufferAt += (layout.hasValidity() ? 1 : 0) + layout.bits().length + (layout.isView() ? viewBuffers() : 0);
    if (!encoded) {
      field.getChildren().forEach(this::skip);
    }
  }

  private ArrowColumn dictionary(Field field, String path) {
    ArrowColumn values = dictionaries.get(field.getDictionary().getId());
    if (values == null) {
      throw corrupt("field " + path + " is dictionary-encoded, and its dictionary did not come before the batch");
    }
    return values;
  }

  /** The address of the next buffer, which has at least {@code bytesMin} bytes; leaves it in {@link #buffer}. */
  private long take(String path, long bytesMin) {
    batch.buffers(buffer, checked(bufferAt++, batch.buffersLength()));
    long offset = buffer.offset();
    long bytes = buffer.length();
    if (offset < 0 || bytes < 0 || offset > bodyBytes || bytes > bodyBytes - offset) {
      throw corrupt("field " + path + " has a buffer at " + offset + " of " + bytes + " bytes in a body of " + bodyBytes);
    }
    if (bytes < bytesMin) {
      throw corrupt("field " + path + " has a buffer of " + bytes + " bytes where " + bytesMin + " are needed");
    }
    return body + offset;
  }

  private int viewBuffers() {
    long count = batch.variadicBufferCounts(checked(viewAt++, batch.variadicBufferCountsLength()));
    if (count < 0 || count > batch.buffersLength()) {
      throw corrupt("a view column says that it has " + count + " data buffers");
    }
    return (int) count;
  }

  private static int checked(int index, int length) {
    if (index >= length) {
      throw corrupt("a batch has " + length + " nodes, buffers or counts, but its schema needs more");
    }
    return index;
  }

  private static int length(long length, String what) {
    if (length < 0 || length >= Integer.MAX_VALUE) {
      throw corrupt(what + " says that it has " + length + " values");
    }
    return (int) length;
  }

  private static LwmqException corrupt(String text) {
    return new LwmqException(Status.CORRUPT, text);
  }
}
