package org.lwmq.core;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The first frame of a request and of its reply, 24 bytes, little-endian; {@code native/src/wire/request_head.h} draws
 * it and tells what the numbers are for.
 *
 * @param kind {@link #REQUEST}, {@link #REPLY} or {@link #FAILURE}
 * @param asker 64 random bits of one {@link Requests}
 * @param number 1, 2, 3... of that asker
 */
record RequestHead(int kind, long asker, long number) {
  static final int REQUEST = 1;
  static final int REPLY = 2;
  static final int FAILURE = 3;

  private static final int BYTES = 24;
  private static final int MAGIC = 'l' | 'w' << 8 | 'r' << 16 | 'q' << 24;
  private static final int FORMAT = 1;

  byte[] bytes() {
    return ByteBuffer.allocate(BYTES)
        .order(ByteOrder.LITTLE_ENDIAN)
        .putInt(MAGIC)
        .put((byte) FORMAT)
        .put((byte) kind)
        .putShort((short) 0)
        .putLong(asker)
        .putLong(number)
        .array();
  }

  /** Null where the first frame is no head. */
  static RequestHead of(Message message) {
    if (message.frameCount() == 0 || message.frameBytes(0) != BYTES) {
      return null;
    }
    ByteBuffer frame = ByteBuffer.wrap(message.bytes(0)).order(ByteOrder.LITTLE_ENDIAN);
    boolean isOurs = frame.getInt() == MAGIC && frame.get() == FORMAT;
    int kind = Byte.toUnsignedInt(frame.get());
    isOurs &= frame.getShort() == 0;
    return isOurs ? new RequestHead(kind, frame.getLong(), frame.getLong()) : null;
  }
}
