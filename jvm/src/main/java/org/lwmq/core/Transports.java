package org.lwmq.core;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Which providers and filters this process has: built in, or of {@link Modules}. What an address allows: {@link Limits}. */
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

  /** Of each filter, by its name, what can be set, in a line; see {@link Channel#addFilter}. */
  public static Map<String, String> filters() {
    Map<String, String> found = new LinkedHashMap<>();
    for (byte[] name; (name = Jni.filterName(found.size())) != null; ) {
      found.put(Identity.text(name), Identity.text(Jni.filterHelp(found.size())));
    }
    return found;
  }
}
