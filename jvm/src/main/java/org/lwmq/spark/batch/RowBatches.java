package org.lwmq.spark.batch;

import java.util.Iterator;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/**
 * Builds batches in the memory where their readers find them. A {@link RowAppender} stores rows into a block that was
 * laid out beforehand. When the block is full, the metadata is written in front of the body.
 *
 * <p>The first batch is small: a task with few rows touches little memory, a waiting reader gets its first rows early,
 * and the sizes of strings and lists are known before a large block is laid out. A batch that fills less than half of
 * its layout, mostly the last one, is compacted first; that copy is counted.
 */
final class RowBatches implements RowSink {
  private static final long FIRST_BYTES = 256 << 10;

  private final BatchSink sink;
  private final BatchLayout layout;
  private final List<BatchNode> nodes;
  private final IpcMessage message;
  private final NullRules nullRules;
  private final long batchBytes;
  private final Supplier<RowAppender> appenders;

  private RowAppender appender; // made for the first row: a plan with columns may bring none
  private long target;
  private long block; // 0: none is lent
  private long bodyEnd;
  private long copied;

  /**
   * @param nullRules of the declared stream
   * @param batchBytes the largest block by intent
   */
  RowBatches(BatchSink sink, List<BatchNode> nodes, NullRules nullRules, long batchBytes) {
    this(sink, nodes, nullRules, batchBytes, AppenderCompiler.of(nodes));
  }

  /** The same. {@code appenders} makes those of {@code nodes}. */
  RowBatches(
      BatchSink sink, List<BatchNode> nodes, NullRules nullRules, long batchBytes, Supplier<RowAppender> appenders) {
    this.sink = sink;
    this.nodes = nodes;
    this.layout = new BatchLayout(nodes);
    this.message = new IpcMessage(nodes);
    this.nullRules = nullRules;
    this.batchBytes = batchBytes;
    this.appenders = appenders;
    this.target = Math.min(FIRST_BYTES, batchBytes);
  }

  @Override
  public void write(InternalRow row) {
    if (block == 0 || !appender.append(row)) {
      begin(row);
    }
  }

  @Override
  public void writeAll(Iterator<InternalRow> rows) {
    while (rows.hasNext()) {
      InternalRow row = block == 0 ? rows.next() : appender.appendAll(rows);
      if (row != null) {
        begin(row);
      }
    }
  }

  /**
   * Stores the rows {@code places[from]} to {@code places[to - 1]} of {@code batch}, column by column. Only for nodes that
   * {@link ColumnCopier#picks} accepts.
   */
  void write(ColumnarBatch batch, int[] places, int from, int to) {
    int next = from;
    while (next < to) {
      if (block == 0 || appender.room() == 0) {
        begin(batch.getRow(places[next++]));
        continue;
      }
      int n = Math.min(to - next, appender.room());
      for (BatchNode node : nodes) {
        int k = node.index;
        ColumnCopier.pick(node, batch.column(k), places, next, n, layout.validity[k], layout.values[k], appender.rows());
      }
      appender.added(n);
      next += n;
    }
  }

  @Override
  public void flush() {
    if (block == 0) {
      return;
    }
    int rows = appender.rows();
    if (rows == 0) {
      close();
      return;
    }
    int[] count = appender.counts(nodes);
    long[] used = appender.used();
    long bodyOffset = layout.bodyOffset();
    long body = block + bodyOffset;
    boolean push = payload(count, used) < (layout.bytes() - bodyOffset) / 2;
    message.reset();
    bodyEnd = body;
    for (BatchNode node : nodes) {
      describe(node, count[node.index], used[node.index], body, push);
    }
    long bodyBytes = BatchLayout.align(bodyEnd - body);
    message.write(block, bodyOffset, bodyBytes, rows);
    layout.learn(rows, count, used);
    block = 0;
    sink.publish(bodyOffset + bodyBytes, rows);
    target = batchBytes;
  }

  @Override
  public void beginSmall() {
    if (block == 0) {
      target = Math.min(FIRST_BYTES, batchBytes);
    }
  }

  @Override
  public long bytesCopied() {
    return copied;
  }

  @Override
  public void close() {
    if (block != 0) {
      block = 0;
      sink.discard();
    }
  }

  /** Publishes the rows so far, and begins the next batch with {@code row}, which did not fit or is the first one. */
  private void begin(InternalRow row) {
    flush();
    if (appender == null) {
      appender = appenders.get();
    }
    layout.plan(target, row);
    block = allocate();
    layout.bind(block, sink.available());
    appender.bind(layout);
    if (!appender.append(row)) {
      throw new IllegalStateException("a row that was measured does not fit " + layout.bytes() + " bytes");
    }
  }

  private long allocate() {
    while (true) {
      try {
        return sink.allocate(layout.bytes());
      } catch (LwmqException e) {
        if (e.status() != Status.TOO_BIG || !layout.halve()) {
          throw e;
        }
      }
    }
  }

  /** How many bytes the batch would have if it were compacted. */
  private long payload(int[] count, long[] used) {
    double bytes = 0;
    for (BatchNode node : nodes) {
      bytes += BatchLayout.payload(node, count[node.index], used[node.index]);
    }
    return (long) bytes;
  }

  private void describe(BatchNode node, int n, long used, long body, boolean push) {
    int k = node.index;
    if (node.kind == BatchNode.Kind.NULL) {
      message.addNode(n, n);
      return;
    }
    long nulls = node.nullable ? n - Bits.ones(layout.validity[k], n) : 0;
    if (nulls > 0 && nullRules.refuses(k)) {
      boolean inStruct = !node.isTop() && node.parent.nullable && node.followsParent();
      nullRules.check(k, inStruct ? Bits.onesAlone(layout.validity[node.parent.index], layout.validity[k], n) : nulls);
      nulls = 0; // the remaining ones lie in structs that are null themselves
    }
    message.addNode(n, nulls);
    buffer(layout.validity[k], nulls > 0 ? BatchLayout.bitmapBytes(n) : 0, body, push);
    switch (node.kind) {
      case BITS -> buffer(layout.values[k], BatchLayout.bitmapBytes(n), body, push);
      case FIXED -> buffer(layout.values[k], (long) n * node.width, body, push);
      case BYTES -> {
        if (node.isText() && !Utf8.areValid(layout.offsets[k], n, layout.values[k])) {
          throw notUtf8(node, n);
        }
        buffer(layout.offsets[k], 4L * n + 4, body, push);
        buffer(layout.values[k], used, body, push);
      }
      case LIST -> buffer(layout.offsets[k], 4L * n + 4, body, push);
      default -> { }
    }
  }

  /** An error that names the first string of {@code node} that is not UTF-8, and its row. */
  private LwmqException notUtf8(BatchNode node, int n) {
    long offsets = layout.offsets[node.index];
    int at = 0;
    while (at < n - 1 && Utf8.areValid(offsets + 4L * at, 1, layout.values[node.index])) {
      at++;
    }
    int begin = Platform.getInt(null, offsets + 4L * at);
    byte[] bytes = new byte[Platform.getInt(null, offsets + 4L * at + 4) - begin];
    Platform.copyMemory(null, layout.values[node.index] + begin, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    int row = at;
    for (BatchNode below = node; !below.isTop(); below = below.parent) {
      if (!below.followsParent()) { // an element of a list: find the list
        int element = row;
        row = 0;
        while (Platform.getInt(null, layout.offsets[below.parent.index] + 4L * row + 4) <= element) {
          row++;
        }
      }
    }
    return Utf8Rows.refused(node.path, sink.rows() + row, bytes);
  }

  /** Adds a buffer to the message: where it lies, or with {@code push} moved up to the buffer before it. */
  private void buffer(long address, long bytes, long body, boolean push) {
    if (bytes == 0) {
      message.addBuffer(bodyEnd - body, 0);
      return;
    }
    long at = address;
    if (push) {
      at = bodyEnd;
      if (at != address) {
        Platform.copyMemory(null, address, null, at, bytes);
        copied += bytes;
      }
    }
    message.addBuffer(at - body, bytes);
    bodyEnd = BatchLayout.align(at + bytes);
  }
}
