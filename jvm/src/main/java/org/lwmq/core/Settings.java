package org.lwmq.core;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Values and settings as users write them. The library reads them for every language, so the same words mean the same; what
 * each text may be is said in {@code lwmq.h}, at {@code LWMQ_VALUE_*}.
 */
public final class Settings {
  private static final int BYTES = 0;
  private static final int COUNT = 2;
  private static final int FLAG = 3;
  private static final int WORD = 4;
  private static final int TAKEN_BY_STREAM = 8;

  private Settings() {}

  /**
   * A value of the setting {@code key}, such as {@code window_bytes}: bytes, nanoseconds (negative: no limit), or a count.
   * INVALID: the text says what is allowed.
   */
  public static long read(String key, String text) {
    return Jni.readSetting(Jni.utf8(key), Jni.utf8(text));
  }

  /** A size in bytes. INVALID likewise. */
  public static long bytes(String text) {
    return Jni.readValue(BYTES, null, Jni.utf8(text));
  }

  /** A whole number. INVALID likewise. */
  public static long count(String text) {
    return Jni.readValue(COUNT, null, Jni.utf8(text));
  }

  /** 1 or 0. INVALID likewise. */
  public static long flag(String text) {
    return Jni.readValue(FLAG, null, Jni.utf8(text));
  }

  /** The place of {@code text} among {@code words}, in any case. INVALID: the text says which word may be meant. */
  public static int place(String text, List<String> words) {
    return (int) Jni.readValue(WORD, joined(words), Jni.utf8(text));
  }

  /** The one of {@code words} that {@code text} may be a slip of; null: nothing is near. */
  public static String nearest(String text, List<String> words) {
    int place = Jni.nearestWord(Jni.utf8(text), joined(words));
    return place < 0 ? null : words.get(place);
  }

  /** The keys that one provider or another takes and the library does not, such as the file of a certificate. */
  public static List<String> ofProviders() {
    List<String> keys = new ArrayList<>();
    for (byte[] key; (key = Jni.providerSetting(keys.size())) != null; ) {
      keys.add(Identity.text(key));
    }
    return keys;
  }

  /** What the address of a stream says behind its question mark. ADDRESS: the text names the option, and what is allowed. */
  public static Map<String, String> ofStream(String address) {
    Map<String, String> found = new LinkedHashMap<>();
    byte[][] pair = new byte[2][];
    while (Jni.addressOption(Jni.uri(address), TAKEN_BY_STREAM, found.size(), pair)) {
      found.put(Identity.text(pair[0]), Identity.text(pair[1]));
    }
    return found;
  }

  private static byte[] joined(List<String> words) {
    return Jni.utf8(String.join(", ", words));
  }
}
