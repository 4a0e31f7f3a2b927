package org.lwmq.core;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The providers and filters of this process, built in or from {@link Modules}. {@link Limits} say what an address
 * allows.
 */
public final class Transports {
  private Transports() {}

  /** The schemes of addresses, such as {@code ipc}. */
  public static List<String> providers() {
    List<String> names = new ArrayList<>();
    for (byte[] name; (name = Jni.providerName(names.size())) != null; ) {
      names.add(Identity.text(name));
    }
    return names;
  }

  /** Whether a provider takes addresses of this scheme; this one may still be malformed. */
  public static boolean take(String address) {
    return Jni.hasProvider(Jni.uri(address));
  }

  /**
   * Gives this process the key of the listener {@code name} of addresses such as {@code tcps://host:port/name} that bring
   * no credentials.
   *
   * @param key {@code identity:key}, the key in hexadecimal, which is shown in no error text
   */
  public static void setKey(String name, String key) {
    Jni.setKey(Jni.utf8(name), Jni.utf8(key));
  }

  /** The filters by name, with a line that says what can be set; see {@link Channel#addFilter}. */
  public static Map<String, String> filters() {
    Map<String, String> found = new LinkedHashMap<>();
    for (byte[] name; (name = Jni.filterName(found.size())) != null; ) {
      found.put(Identity.text(name), Identity.text(Jni.filterHelp(found.size())));
    }
    return found;
  }
}
