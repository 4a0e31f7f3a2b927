package org.lwmq.spark.batch;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.unsafe.Platform;
import org.lwmq.arrow.ArrowSchemas;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/** Keeps batches in ordinary native memory, with a fence on both sides of each block that no store may touch. */
final class MemorySink implements BatchSink {
  private static final int FENCE = 64;
  private static final byte MARK = 0x5a;

  final List<byte[]> batches = new ArrayList<>();
  final List<Long> asked = new ArrayList<>();
  /** The largest block that it lends. */
  long window = Long.MAX_VALUE;
  private long rows;
  private long memory;
  private long block;
  private long bytes;

  @Override
  public long allocate(long wanted) {
    if (block != 0) {
      throw new IllegalStateException("a block is still lent");
    }
    if (wanted > window) {
      throw new LwmqException(Status.TOO_BIG, wanted + " bytes in a window of " + window);
    }
    asked.add(wanted);
    bytes = wanted;
    memory = Platform.allocateMemory(wanted + 3 * FENCE);
    Platform.setMemory(memory, MARK, wanted + 3 * FENCE);
    block = (memory + 2 * FENCE - 1) & -FENCE;
    return block;
  }

  @Override
  public long available() {
    return bytes;
  }

  @Override
  public void publish(long used, long newRows) {
    byte[] copy = new byte[(int) used];
    Platform.copyMemory(null, block, copy, Platform.BYTE_ARRAY_OFFSET, used);
    batches.add(copy);
    rows += newRows;
    discard();
  }

  @Override
  public long rows() {
    return rows;
  }

  @Override
  public void discard() {
    if (block == 0) {
      return;
    }
    for (long at = memory; at < block; at++) {
      fence(at);
    }
    for (long at = block + bytes; at < memory + bytes + 3 * FENCE; at++) {
      fence(at);
    }
    Platform.freeMemory(memory);
    block = 0;
  }

  private void fence(long at) {
    if (Platform.getByte(null, at) != MARK) {
      throw new IllegalStateException("a store outside the block, at " + (at - block) + " of " + bytes);
    }
  }

  /** Schema and batches as one Arrow IPC stream, for a reader that is not ours. */
  byte[] stream(Schema schema) {
    byte[] head = ArrowSchemas.bytes(schema);
    int size = head.length + batches.stream().mapToInt(batch -> batch.length).sum() + 8;
    ByteBuffer out = ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
    out.put(head);
    batches.forEach(out::put);
    out.putInt(-1).putInt(0);
    return out.array();
  }

  interface BatchVisitor {
    void visit(VectorSchemaRoot batch);
  }

  /** Reads everything back with Arrow Java. */
  void read(Schema schema, BatchVisitor visitor) {
    try (BufferAllocator allocator = new RootAllocator();
        ArrowStreamReader reader =
            new ArrowStreamReader(new java.io.ByteArrayInputStream(stream(schema)), allocator)) {
      while (reader.loadNextBatch()) {
        for (FieldVector vector : reader.getVectorSchemaRoot().getFieldVectors()) {
          if (!vector.getField().toString().matches(".*(Map|Decimal)\\(.*")) { // Arrow Java's own check is wrong there
            vector.validateFull();
          }
        }
        visitor.visit(reader.getVectorSchemaRoot());
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The encapsulated message's metadata length, as it stands in batch {@code i}. */
  int metadataBytes(int i) {
    return ByteBuffer.wrap(batches.get(i)).order(ByteOrder.LITTLE_ENDIAN).getInt(4);
  }

}
