package org.lwmq.spark.plugin;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/** What this executor has to tell of itself: figures, by names such as {@code exchange.used.bytes}. Thread-safe. */
public final class ExecutorGauges {
  private static final Map<String, Supplier<Map<String, Long>>> SOURCES = new ConcurrentHashMap<>();

  private ExecutorGauges() {}

  /** Adds the figures of {@code source}, whose names get {@code prefix} and a dot in front. It may be asked at any time. */
  public static void add(String prefix, Supplier<Map<String, Long>> source) {
    SOURCES.put(prefix, source);
  }

  /** Takes out the figures with {@code prefix}. */
  public static void remove(String prefix) {
    SOURCES.remove(prefix);
  }

  static Map<String, Long> figures() {
    Map<String, Long> all = new TreeMap<>();
    SOURCES.forEach((prefix, source) -> source.get().forEach((name, value) -> all.put(prefix + "." + name, value)));
    return all;
  }
}
