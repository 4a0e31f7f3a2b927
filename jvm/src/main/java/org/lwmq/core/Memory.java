package org.lwmq.core;

import java.nio.ByteBuffer;
import java.util.Map;

/** Views and private copies of native memory. The caller vouches for the addresses: a wrong one ends the JVM. */
public final class Memory {
  private Memory() {}

  /**
   * A direct buffer over memory that outlives every use of the buffer; little-endian is for the caller to set. TOO_BIG: more
   * than 2 GiB - 1.
   */
  public static ByteBuffer wrap(long address, long bytes) {
    return Jni.wrap(address, bytes);
  }

  /** Where a direct buffer lies. INVALID: it is on the heap, which moves. */
  public static long address(ByteBuffer direct) {
    if (!direct.isDirect()) {
      throw new LwmqException(Status.INVALID, "a buffer on the heap has no address: take a direct one");
    }
    return Jni.address(direct);
  }

  /** Copies {@code bytes} bytes: what is to be checked must not change between check and use. */
  public static byte[] copy(long address, int bytes) {
    byte[] copy = new byte[bytes];
    Jni.copyOut(address, copy, bytes);
    return copy;
  }

  /** What remains in {@code buffer}, whose position stays. */
  static byte[] copy(ByteBuffer buffer) {
    ByteBuffer part = buffer.duplicate(); // once: its position and its limit belong to whoever has it
    byte[] copy = new byte[part.remaining()];
    part.get(copy);
    return copy;
  }

  /** The largest amount of window memory that this process may hold; 0 restores the default. INVALID: below 0. */
  public static void limitWindows(long bytesMax) {
    Arguments.notNegative("bytesMax", bytesMax);
    Jni.setWindowMemory(bytesMax);
  }

  /** The counters of this process since it loaded the library, by their names in {@code lwmq_statistics}. */
  public static Map<String, Long> statistics() {
    return Counters.OF_PROCESS.named(Jni.statistics(), 0);
  }
}
