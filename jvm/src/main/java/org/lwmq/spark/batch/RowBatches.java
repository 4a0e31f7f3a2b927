package org.lwmq.spark.batch;

import java.util.Iterator;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.Platform;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/**
 * Builds batches where their readers will find them: rows are stored by a generated {@link RowAppender}, or out of
 * columns by a {@link ColumnAppender}, into a block that was laid out beforehand, and when the block is full its metadata is written in front of it.
 *
 * <p>The first batch is a small one, and those behind it grow: a task with few rows then touches little memory, a waiting
 * reader gets something soon, and the sizes of strings and lists are known before a large block is laid out. A batch that filled less than
 * half of its layout (mostly the last one) is pushed together first; that copy is counted.
 */
final class RowBatches implements RowSink {
  private static final long FIRST_BYTES = 256 << 10;
  private static final int GROWTH = 16;

  private final BatchSink sink;
  private final BatchLayout layout;
  private final List<BatchNode> nodes;
  private final IpcMessage message;
  private final NullRules nullRules;
  private final long batchBytes;
  private final Supplier<RowAppender> appenders;

  private RowAppender appender; // made for the first row: where a plan has columns, none may come
  private ColumnAppender columns; // null: no columns have come
  private BatchAppender current; // of the block that is lent now
  private long target;
  private long block; // 0 while none is lent
  private long bodyEnd;
  private long copied;

  /**
   * @param nullRules of the stream that was declared
   * @param batchBytes the largest block by intent
   */
  RowBatches(BatchSink sink, List<BatchNode> nodes, NullRules nullRules, long batchBytes) {
    this(sink, nodes, nullRules, FIRST_BYTES, batchBytes, AppenderCompiler.of(nodes));
  }

  /** The same; {@code appenders} makes those of {@code nodes}, and the first block has {@code firstBytes} by intent. */
  RowBatches(
      BatchSink sink,
      List<BatchNode> nodes,
      NullRules nullRules,
      long firstBytes,
      long batchBytes,
      Supplier<RowAppender> appenders) {
    this.sink = sink;
    this.nodes = nodes;
    this.layout = new BatchLayout(nodes);
    this.message = new IpcMessage(nodes);
    this.nullRules = nullRules;
    this.batchBytes = batchBytes;
    this.appenders = appenders;
    this.target = Math.min(firstBytes, batchBytes);
  }

  @Override
  public void write(InternalRow row) {
    if (!fills(appender) || !appender.append(row)) {
      begin(row);
    }
  }

  @Override
  public void writeAll(Iterator<InternalRow> rows) {
    while (rows.hasNext()) {
      InternalRow row = fills(appender) ? appender.appendAll(rows) : rows.next();
      if (row != null) {
        begin(row);
      }
    }
  }

  /** Stores the rows {@code picked[from]} to {@code picked[to - 1]} of {@code source}. */
  void write(FlatColumns source, int[] picked, int from, int to) {
    if (columns == null) {
      columns = new ColumnAppender(nodes);
    }
    int at = from;
    if (fills(columns)) {
      at += columns.append(source, picked, at, to);
    }
    while (at < to) {
      begin(columns, source.row(picked[at]));
      int stored = columns.append(source, picked, at, to);
      if (stored == 0) {
        throw tooSmall();
      }
      at += stored;
    }
  }

  @Override
  public void flush() {
    if (block == 0) {
      return;
    }
    int rows = current.rows();
    if (rows == 0) {
      close();
      return;
    }
    int[] count = current.counts(nodes);
    long[] used = current.used();
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
    target = Math.min(GROWTH * target, batchBytes);
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

  /** Publishes what there is, and begins the next batch with {@code row}, which was refused or is the first. */
  private void begin(InternalRow row) {
    if (appender == null) {
      appender = appenders.get();
    }
    begin(appender, row);
    if (!appender.append(row)) {
      throw tooSmall();
    }
  }

  /** Publishes what there is, and begins the next batch, in which {@code next} stores {@code first} and more rows. */
  private void begin(BatchAppender next, InternalRow first) {
    flush();
    layout.plan(target, first);
    block = allocate();
    layout.bind(block, sink.available());
    current = next;
    current.bind(layout);
  }

  private boolean fills(BatchAppender appender) {
    return block != 0 && current == appender;
  }

  private IllegalStateException tooSmall() {
    return new IllegalStateException("a row that was measured does not fit " + layout.bytes() + " bytes");
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

  /** Bytes that the batch would have without holes. */
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
      nulls = 0; // those that are left belong to structs that are null themselves
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

  /** Names the first string of {@code node} that is not UTF-8, and its row. */
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
      if (!below.followsParent()) { // the element of a list: which list is it in?
        int element = row;
        row = 0;
        while (Platform.getInt(null, layout.offsets[below.parent.index] + 4L * row + 4) <= element) {
          row++;
        }
      }
    }
    return Utf8Rows.refused(node.path, sink.rows() + row, bytes);
  }

  /** Adds a buffer to the message, where it lies or, pushed together, after the one before it. */
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
