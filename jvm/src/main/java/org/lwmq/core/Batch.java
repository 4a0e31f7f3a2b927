package org.lwmq.core;

/**
 * A lease on one record batch that lies in its writer's window. Whoever keeps addresses into it keeps it open;
 * {@link #close} ends the lease, from any thread, also after the reader was closed, and never waits.
 */
public final class Batch implements AutoCloseable {
  private final Handle handle;
  private final long[] fields;

  /** Keeps {@code fields}. */
  Batch(long[] fields) {
    this.fields = fields;
    this.handle = new Handle(this, fields[Jni.BATCH_HANDLE], "batch", b -> Jni.batchRelease(b));
  }

  /** Address of the first byte, 64-byte aligned; read-only memory. CLOSED after close. */
  public long address() {
    handle.check();
    return fields[Jni.BATCH_DATA];
  }

  public long bytes() {
    return fields[Jni.BATCH_BYTES];
  }

  public long rows() {
    return fields[Jni.BATCH_ROWS];
  }

  /** Sequence number in its partition. */
  public long seq() {
    return fields[Jni.BATCH_SEQ];
  }

  /** When it was published, nanoseconds since 1970. */
  public long timestampNs() {
    return fields[Jni.BATCH_TIMESTAMP_NS];
  }

  public int partition() {
    return (int) fields[Jni.BATCH_PARTITION];
  }

  /** Whether the block is a whole IPC stream rather than one message. */
  public boolean isStream() {
    return (fields[Jni.BATCH_FLAGS] & Writer.IPC_STREAM) != 0;
  }

  /** Whether this is a private copy, made because this reader held half of the window, or its part of that. */
  public boolean isCopy() {
    return fields[Jni.BATCH_COPIED] != 0;
  }

  public long writerPid() {
    return fields[Jni.BATCH_WRITER_PID];
  }

  /** Address of the mapped segment that holds the batch, for proofs that nothing was copied. */
  public long windowAddress() {
    return fields[Jni.BATCH_WINDOW_DATA];
  }

  public long windowBytes() {
    return fields[Jni.BATCH_WINDOW_BYTES];
  }

  @Override
  public void close() {
    handle.close();
  }
}
