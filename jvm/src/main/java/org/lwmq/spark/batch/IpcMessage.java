package org.lwmq.spark.batch;

import com.google.flatbuffers.FlatBufferBuilder;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.arrow.flatbuf.Buffer;
import org.apache.arrow.flatbuf.FieldNode;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.MessageHeader;
import org.apache.arrow.flatbuf.MetadataVersion;
import org.apache.arrow.flatbuf.RecordBatch;
import org.apache.spark.unsafe.Platform;

/**
 * Writes the metadata of an encapsulated Arrow IPC record batch in front of a body that already lies in its block.
 *
 * <pre>
 *   0            4                 8
 *   | 0xFFFFFFFF | metadata bytes  | flatbuffer, padded with zeros | body
 * </pre>
 *
 * The padding is part of the metadata's length, because the format allows none between messages; it brings the body
 * to a multiple of 64. Reusable; one thread.
 */
final class IpcMessage {
  private static final int PREFIX_BYTES = 8;
  /** Tables, vtables and alignment of the two flatbuffer tables; their vectors come on top. */
  private static final int TABLES_BYTES = 256;
  private static final int ENTRY_BYTES = 16;

  private final FlatBufferBuilder builder = new FlatBufferBuilder(1024);
  private final long[] nodeLengths;
  private final long[] nodeNulls;
  private final long[] bufferOffsets;
  private final long[] bufferLengths;
  private int nodeCount;
  private int bufferCount;

  IpcMessage(int nodes, int buffers) {
    nodeLengths = new long[nodes];
    nodeNulls = new long[nodes];
    bufferOffsets = new long[buffers];
    bufferLengths = new long[buffers];
  }

  IpcMessage(List<BatchNode> nodes) {
    this(nodes.size(), bufferCountOf(nodes));
  }

  /** Where the body begins: room for the metadata in front of it, 64-byte aligned. */
  static long bodyOffset(int nodes, int buffers) {
    return BatchLayout.align(PREFIX_BYTES + TABLES_BYTES + (long) ENTRY_BYTES * (nodes + buffers));
  }

  /** Buffers that Arrow wants to see, validity always counted. */
  static int bufferCountOf(List<BatchNode> nodes) {
    int count = 0;
    for (BatchNode node : nodes) {
      count += switch (node.kind) {
        case NULL -> 0;
        case STRUCT -> 1;
        case BITS, FIXED, LIST -> 2;
        case BYTES -> 3;
      };
    }
    return count;
  }

  void reset() {
    nodeCount = 0;
    bufferCount = 0;
  }

  void addNode(long length, long nulls) {
    nodeLengths[nodeCount] = length;
    nodeNulls[nodeCount++] = nulls;
  }

  /** {@code offset} counts from the body. */
  void addBuffer(long offset, long length) {
    bufferOffsets[bufferCount] = offset;
    bufferLengths[bufferCount++] = length;
  }

  /** Writes prefix and metadata of {@code rows} rows so that they fill {@code block} up to {@code bodyOffset}. */
  void write(long block, long bodyOffset, long bodyBytes, long rows) {
    ByteBuffer metadata = build(bodyBytes, rows);
    int used = metadata.remaining();
    long space = bodyOffset - PREFIX_BYTES;
    if (used > space) {
      throw new IllegalStateException("metadata of " + used + " bytes, " + space + " were left for it");
    }
    Platform.putInt(null, block, -1);
    Platform.putInt(null, block + 4, (int) space);
    long at = block + PREFIX_BYTES;
    Platform.copyMemory(
        metadata.array(), Platform.BYTE_ARRAY_OFFSET + metadata.arrayOffset() + metadata.position(), null, at, used);
    Platform.setMemory(at + used, (byte) 0, space - used);
  }

  private ByteBuffer build(long bodyBytes, long rows) {
    builder.clear();
    RecordBatch.startNodesVector(builder, nodeCount);
    for (int i = nodeCount - 1; i >= 0; i--) {
      FieldNode.createFieldNode(builder, nodeLengths[i], nodeNulls[i]);
    }
    int nodes = builder.endVector();
    RecordBatch.startBuffersVector(builder, bufferCount);
    for (int i = bufferCount - 1; i >= 0; i--) {
      Buffer.createBuffer(builder, bufferOffsets[i], bufferLengths[i]);
    }
    int buffers = builder.endVector();
    RecordBatch.startRecordBatch(builder);
    RecordBatch.addLength(builder, rows);
    RecordBatch.addNodes(builder, nodes);
    RecordBatch.addBuffers(builder, buffers);
    int batch = RecordBatch.endRecordBatch(builder);
    Message.startMessage(builder);
    Message.addVersion(builder, MetadataVersion.V5);
    Message.addHeaderType(builder, MessageHeader.RecordBatch);
    Message.addHeader(builder, batch);
    Message.addBodyLength(builder, bodyBytes);
    builder.finish(Message.endMessage(builder));
    return builder.dataBuffer();
  }
}
