package org.lwmq.core;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The names of the counters, which the native library lists, for numbers that cross in the same order. */
enum Counters {
  OF_PROCESS,
  OF_ENTRY;

  private final List<String> names = new ArrayList<>();

  Counters() {
    for (byte[] name; (name = Jni.counterName(names.size(), ordinal() == 0)) != null; ) {
      names.add(Identity.text(name));
    }
  }

  /** The numbers from {@code at} on, by name and in order. */
  Map<String, Long> named(long[] numbers, int at) {
    Map<String, Long> named = new LinkedHashMap<>();
    for (String name : names) {
      named.put(name, numbers[at + named.size()]);
    }
    return Collections.unmodifiableMap(named);
  }
}
