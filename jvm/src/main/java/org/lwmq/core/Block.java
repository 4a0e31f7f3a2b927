package org.lwmq.core;

import java.nio.ByteBuffer;

/**
 * A block of the writer's own window, lent by {@link Writer#allocate}; it goes back through publish or discard, after
 * which its memory must not be touched. 64-byte aligned. One thread.
 */
public final class Block {
  final long[] fields = new long[Jni.BLOCK_LONGS];

  private final Handle writer;

  Block(Handle writer) {
    this.writer = writer;
  }

  /** Address of the first byte; 0 once given back. */
  public long address() {
    return fields[Jni.BLOCK_DATA];
  }

  /** At least what was asked for. */
  public long bytes() {
    return fields[Jni.BLOCK_BYTES];
  }

  /** The block as a direct buffer (of at most 2 GiB), valid until it is given back, or its writer closed. */
  public ByteBuffer buffer() {
    return writer.view(w -> Jni.wrap(address(), bytes()));
  }
}
