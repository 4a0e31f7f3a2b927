package org.lwmq.spark.source;

import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.Platform;

/**
 * Builds batches where their readers will find them: rows are stored by a generated {@link RowAppender} into a block
 * that was laid out beforehand, and when the block is full its metadata is written in front of it.
 *
 * <p>The first batch is a small one: a task with few rows then touches little memory, a waiting reader gets something
 * soon, and the sizes of strings and lists are known before a large block is laid out. A batch that filled less than
 * half of its layout (mostly the last one) is pushed together first; that copy is counted.
 */
final class RowBatches implements RowSink {
  private static final long FIRST_BYTES = 256 << 10;

  private final BatchSink sink;
  private final BatchLayout layout;
  private final List<BatchNode> nodes;
  private final RowAppender appender;
  private final IpcMessage message;
  private final NullRules nullRules;
  private final long batchBytes;

  private long target;
  private long block; // 0 while none is lent
  private long bodyEnd;
  private long copied;

  /**
   * @param nullRules of the stream that was declared
   * @param batchBytes the largest block by intent
   */
  RowBatches(BatchSink sink, List<BatchNode> nodes, NullRules nullRules, long batchBytes) {
    this.sink = sink;
    this.nodes = nodes;
    this.layout = new BatchLayout(nodes);
    this.appender = AppenderCompiler.create(nodes);
    this.message = new IpcMessage(nodes);
    this.nullRules = nullRules;
    this.batchBytes = batchBytes;
    this.target = Math.min(FIRST_BYTES, batchBytes);
  }

  @Override
  public void write(InternalRow row) {
    if (block == 0) {
      begin();
    }
    if (!appender.append(row)) {
      makeRoomFor(row);
    }
  }

  @Override
  public void writeAll(Iterator<InternalRow> rows) {
    while (rows.hasNext()) {
      if (block == 0) {
        begin();
      }
      InternalRow refused = appender.appendAll(rows);
      if (refused != null) {
        makeRoomFor(refused);
      }
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
    layout.learn(count, used);
    block = 0;
    sink.publish(bodyOffset + bodyBytes, rows);
    target = batchBytes;
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

  private void begin() {
    layout.plan(target);
    long address = sink.allocate(layout.bytes());
    block = address;
    layout.bind(address, sink.available());
    appender.bind(layout);
  }

  /** Publishes the batch that is full and stores {@code row} first in the next one, enlarged where it has to be. */
  private void makeRoomFor(InternalRow row) {
    do {
      if (appender.rows() > 0) {
        flush();
      } else {
        layout.enlarge(appender.fullNode(), appender.fullNeed());
        close();
      }
      begin();
    } while (!appender.append(row));
  }

  /** Bytes that the batch would have without holes. */
  private long payload(int[] count, long[] used) {
    long bytes = 0;
    for (BatchNode node : nodes) {
      long n = count[node.index];
      bytes += node.nullable ? BatchLayout.bitmapBytes(n) : 0;
      bytes += switch (node.kind) {
        case BITS -> BatchLayout.bitmapBytes(n);
        case FIXED -> n * node.width;
        case BYTES -> 4 * n + 4 + used[node.index];
        case LIST -> 4 * n + 4;
        default -> 0;
      };
    }
    return bytes;
  }

  private void describe(BatchNode node, int n, long used, long body, boolean push) {
    int k = node.index;
    if (node.kind == BatchNode.Kind.NULL) {
      message.addNode(n, n);
      return;
    }
    long nulls = node.nullable ? n - Bits.ones(layout.validity[k], n) : 0;
    nullRules.check(k, nulls);
    message.addNode(n, nulls);
    buffer(layout.validity[k], nulls > 0 ? BatchLayout.bitmapBytes(n) : 0, body, push);
    switch (node.kind) {
      case BITS -> buffer(layout.values[k], BatchLayout.bitmapBytes(n), body, push);
      case FIXED -> buffer(layout.values[k], (long) n * node.width, body, push);
      case BYTES -> {
        buffer(layout.offsets[k], 4L * n + 4, body, push);
        buffer(layout.values[k], used, body, push);
      }
      case LIST -> buffer(layout.offsets[k], 4L * n + 4, body, push);
      default -> { }
    }
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
