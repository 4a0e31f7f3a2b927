package org.lwmq.spark.batch;

import java.util.List;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.VectorUnloader;
import org.apache.arrow.vector.ipc.message.ArrowFieldNode;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.spark.unsafe.Platform;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/**
 * Copies Arrow Java's vectors into a block, buffer by buffer: one copy, no encoding. Task side; one thread.
 */
final class ArrowBatches {
  private final BatchSink sink;
  private final NullRules nullRules;
  private long copied;

  ArrowBatches(BatchSink sink, NullRules nullRules) {
    this.sink = sink;
    this.nullRules = nullRules;
  }

  /** Publishes the rows of {@code root} as one batch, or as several where the window cannot hold one. */
  void write(VectorSchemaRoot root) {
    try {
      writeWhole(root);
    } catch (LwmqException e) {
      int half = root.getRowCount() / 2;
      if (e.status() != Status.TOO_BIG || half == 0) {
        throw e;
      }
      try (VectorSchemaRoot first = root.slice(0, half);
          VectorSchemaRoot second = root.slice(half)) {
        write(first);
        write(second);
      }
    }
  }

  private void writeWhole(VectorSchemaRoot root) {
    try (ArrowRecordBatch batch = new VectorUnloader(root).getRecordBatch()) {
      List<ArrowFieldNode> nodes = batch.getNodes();
      List<ArrowBuf> buffers = batch.getBuffers();
      long bodyOffset = IpcMessage.bodyOffset(nodes.size(), buffers.size());
      long bodyBytes = 0;
      for (ArrowBuf buffer : buffers) {
        bodyBytes = BatchLayout.align(bodyBytes + buffer.readableBytes());
      }
      IpcMessage message = new IpcMessage(nodes.size(), buffers.size());
      boolean refuses = false;
      for (int k = 0; k < nodes.size(); k++) {
        ArrowFieldNode node = nodes.get(k);
        refuses |= node.getNullCount() > 0 && nullRules.refuses(k);
        message.addNode(node.getLength(), node.getNullCount());
      }
      if (refuses) {
        nullRules.check(root.getFieldVectors());
      }
      long block = sink.allocate(bodyOffset + bodyBytes);
      long at = 0;
      for (ArrowBuf buffer : buffers) {
        long bytes = buffer.readableBytes();
        message.addBuffer(at, bytes);
        Platform.copyMemory(null, buffer.memoryAddress(), null, block + bodyOffset + at, bytes);
        copied += bytes;
        at = BatchLayout.align(at + bytes);
      }
      message.write(block, bodyOffset, bodyBytes, root.getRowCount());
      sink.publish(bodyOffset + bodyBytes, root.getRowCount());
    }
  }

  long bytesCopied() {
    return copied;
  }
}
