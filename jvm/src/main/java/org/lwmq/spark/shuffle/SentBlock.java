package org.lwmq.spark.shuffle;

import io.netty.buffer.Unpooled;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.network.buffer.NioManagedBuffer;

/**
 * One partition of a map output as Spark's block transfer sends it to another executor: for each batch its length (8
 * bytes, little-endian) and its bytes. Holds the output until its last release.
 */
final class SentBlock extends ManagedBuffer {
  static final int LENGTH_BYTES = 8;

  private final MapOutput output;
  private final ByteBuffer[] parts;
  private final long size;
  private int references = 1;

  /** Takes over one reference of {@code output}. */
  SentBlock(MapOutput output, int partition) throws IOException {
    this.output = output;
    List<ByteBuffer> all = new ArrayList<>();
    long bytes = 0;
    for (MapOutput.Piece piece : output.pieces(partition)) {
      all.add(ByteBuffer.allocate(LENGTH_BYTES).order(ByteOrder.LITTLE_ENDIAN).putLong(0, piece.bytes()));
      all.add(bytes(output, piece));
      bytes += LENGTH_BYTES + piece.bytes();
    }
    this.parts = all.toArray(new ByteBuffer[0]);
    this.size = bytes;
  }

  private static ByteBuffer bytes(MapOutput output, MapOutput.Piece piece) throws IOException {
    if (piece.block() != null) {
      return MapOutput.inMemory(piece);
    }
    ByteBuffer copy = ByteBuffer.allocate(Math.toIntExact(piece.bytes()));
    output.read(piece, copy);
    return copy;
  }

  @Override
  public long size() {
    return size;
  }

  @Override
  public ByteBuffer nioByteBuffer() {
    ByteBuffer whole = ByteBuffer.allocate(Math.toIntExact(size));
    for (ByteBuffer part : parts) {
      whole.put(part.duplicate());
    }
    return whole.flip();
  }

  @Override
  public InputStream createInputStream() throws IOException {
    return new NioManagedBuffer(nioByteBuffer()).createInputStream();
  }

  @Override
  public synchronized ManagedBuffer retain() {
    references++;
    return this;
  }

  @Override
  public synchronized ManagedBuffer release() {
    if (--references == 0) {
      output.release();
    }
    return this;
  }

  @Override
  public Object convertToNetty() {
    return Unpooled.wrappedBuffer(parts.length, parts);
  }

  @Override
  public Object convertToNettyForSsl() {
    return convertToNetty();
  }
}
