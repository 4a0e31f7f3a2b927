package org.lwmq.core;

import java.io.Serializable;
import java.nio.charset.StandardCharsets;

/**
 * Who and where a process is. This decides whether another process can reach it. A value, which a partition of Spark
 * carries to the executor.
 *
 * @param host name of the host
 * @param bootId of the running kernel; two hosts never have the same
 * @param netns inode of the network namespace, in which abstract socket names live
 * @param instance drawn anew by each process that loads the library, in hex
 * @param pid process number, in its own pid namespace
 * @param uid user
 */
public record Identity(String host, String bootId, long netns, String instance, long pid, long uid)
    implements Serializable {

  /** The identity of this process. */
  public static Identity here() {
    byte[][] texts = new byte[3][];
    long[] numbers = Jni.identify(texts);
    return new Identity(text(texts[0]), text(texts[1]), numbers[0], hex(texts[2]), numbers[1], numbers[2]);
  }

  static String text(byte[] utf8) {
    return new String(utf8, StandardCharsets.UTF_8);
  }

  static String hex(byte[] bytes) {
    StringBuilder out = new StringBuilder(2 * bytes.length);
    for (byte b : bytes) {
      out.append(Character.forDigit((b >> 4) & 15, 16)).append(Character.forDigit(b & 15, 16));
    }
    return out.toString();
  }

  static byte[] unhex(String hex) {
    byte[] bytes = new byte[hex.length() / 2];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
    }
    return bytes;
  }
}
