package org.lwmq.core;

import java.nio.ByteBuffer;

/** A buffer of the transport itself, lent by a raw {@link Channel}. One thread. */
public final class TransportBuffer {
  static final int DATA = 0;
  static final int BYTES = 1;

  /** Data, bytes, and four of the library's. */
  final long[] fields = new long[6];

  private final Handle channel;
  private final boolean isReceived;
  private boolean isLent = true;

  TransportBuffer(Handle channel, boolean isReceived) {
    this.channel = channel;
    this.isReceived = isReceived;
  }

  /** Room when obtained, what arrived when received. */
  public long bytes() {
    return fields[BYTES];
  }

  /** The memory itself; valid until the buffer goes back, or the channel is closed. TOO_BIG: more than 2 GiB - 1. */
  public ByteBuffer data() {
    return data(0, bytes());
  }

  /** The {@code bytes} bytes at {@code offset} of it, of a large one piece by piece. */
  public ByteBuffer data(long offset, long bytes) {
    check();
    if (offset < 0 || bytes < 0 || offset > fields[BYTES] - bytes) {
      throw new LwmqException(
          Status.INVALID, bytes + " bytes at " + offset + " of a buffer of " + fields[BYTES]);
    }
    ByteBuffer data = channel.view(c -> Jni.wrap(fields[DATA] + offset, bytes));
    return isReceived ? data.asReadOnlyBuffer() : data;
  }

  /** The buffer goes back; INVALID for one that did already, or that goes the wrong way. */
  void use(boolean received) {
    check();
    if (received != isReceived) {
      throw new LwmqException(Status.INVALID, "a buffer that was received is disposed of, one that was obtained is sent");
    }
    isLent = false;
  }

  @Override
  public String toString() {
    String way = isReceived ? "received" : "to send";
    String state = isLent ? fields[BYTES] + " bytes" : "given back";
    return "TransportBuffer " + way + " of " + channel.what() + ", " + state;
  }

  private void check() {
    if (!isLent) {
      throw new LwmqException(Status.INVALID, "this buffer went back already");
    }
  }
}
