package org.lwmq.core;

import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * What the processes of this machine do with lwmq: their statistics pages, as {@code lwmq top} reads them. Those of our own
 * user are found; root finds everybody's. They do nothing for it and do not notice, also when they hang. One thread at a
 * time (INVALID for a second one); any thread closes.
 */
public final class Observer implements AutoCloseable {
  private final Handle handle = new Handle(this, Jni.observerCreate(), "observer", o -> Jni.observerDestroy(o));

  /** What a process has; as in {@code lwmq.h}, in its order. */
  public enum Kind {
    WRITER,
    READER,
    ENDPOINT,
    CHANNEL,
    /** A send queue of a channel. */
    QUEUE,
    /** The times that a filter has measured since it was added. */
    LATENCY,
    LISTENER
  }

  /**
   * One writer, reader, endpoint, channel, send queue or listener; or the times that a filter has measured.
   *
   * @param address cut if it is longer than 159 bytes
   * @param name of a reader or a job: its name; of a channel of a listener: the number of its client; of a queue: its number
   *     on the channel; of times: the filter with its settings
   * @param isConnected to a peer
   * @param isServer it binds
   * @param isClosed a closed reader whose batches are still held; a closing writer that waits until everything is read; times
   *     of a filter that was removed
   * @param isStalled its endpoint lives but does not answer
   * @param waitingNs how long a writer has been waiting for room, or a reader for a batch
   * @param unmovedNs time since the writer wrote, or the reader was lent, its last batch; 0: none yet
   * @param figures the counters of all kinds by the names that {@code lwmq.h} gives them; 0 if the kind does not have one
   * @param tookNs of times: their sum
   * @param took how many times took at most {@code 64 << i} ns and longer than those counted before; the last element counts
   *     all longer ones
   */
  public record Entry(
      Kind kind, Instant opened, String address, String name, boolean isConnected, boolean isServer, boolean isClosed,
      boolean isStalled, long waitingNs, long unmovedNs, Map<String, Long> figures, long tookNs, List<Long> took) {
    /** INVALID: there is no such counter. */
    public long figure(String name) {
      Long figure = figures.get(name);
      if (figure == null) {
        throw new LwmqException(Status.INVALID, "there is no counter '" + name + "', but " + figures.keySet());
      }
      return figure;
    }
  }

  /**
   * A process that uses lwmq.
   *
   * @param isKnown this library can read its page; if not, nothing that follows is known
   * @param library the version of its library
   * @param unlisted how many of its writers, readers, endpoints and channels found no place on its page
   * @param statistics as {@link Memory#statistics}
   */
  public record Process(
      long pid, long uid, int pageVersion, boolean isKnown, String library, long unlisted, Map<String, Long> statistics,
      List<Entry> entries) {}

  /** Everybody as of now, in the order of pids. Waits for nobody. */
  public List<Process> look() {
    return handle.call(
        o -> {
          long count = Jni.observerLook(o);
          List<Process> processes = new ArrayList<>();
          for (long i = 0; i < count; i++) {
            processes.add(process(o, i));
          }
          return processes;
        });
  }

  private static Process process(long observer, long number) {
    byte[][] library = new byte[1][];
    long[] n = Jni.observerProcess(observer, number, library);
    List<Entry> entries = new ArrayList<>();
    byte[][] texts = new byte[2][];
    for (long i = 0; i < n[Jni.PROCESS_ENTRIES]; i++) {
      long[] of = Jni.observerEntry(observer, number, i, texts);
      long kind = of[Jni.ENTRY_KIND] - 1;
      if (kind >= 0 && kind < Kind.values().length) { // else of a later version, or nonsense
        entries.add(entry(Kind.values()[(int) kind], of, texts));
      }
    }
    return new Process(
        n[Jni.PROCESS_PID],
        n[Jni.PROCESS_UID],
        (int) n[Jni.PROCESS_PAGE_VERSION],
        n[Jni.PROCESS_KNOWN] != 0,
        Identity.text(library[0]),
        n[Jni.PROCESS_UNLISTED],
        Counters.OF_PROCESS.named(n, Jni.PROCESS_COUNTERS),
        List.copyOf(entries));
  }

  private static Entry entry(Kind kind, long[] numbers, byte[][] texts) {
    long flags = numbers[Jni.ENTRY_FLAGS]; // LWMQ_ENTRY_CONNECTED ..., from the lowest bit
    long opened = numbers[Jni.ENTRY_OPENED_NS];
    return new Entry(
        kind,
        Instant.ofEpochSecond(opened / 1_000_000_000L, opened % 1_000_000_000L),
        Identity.text(texts[0]),
        Identity.text(texts[1]),
        (flags & 1) != 0,
        (flags & 2) != 0,
        (flags & 4) != 0,
        (flags & 8) != 0,
        numbers[Jni.ENTRY_WAITING_NS],
        numbers[Jni.ENTRY_UNMOVED_NS],
        Counters.OF_ENTRY.named(numbers, Jni.ENTRY_COUNTERS),
        numbers[Jni.ENTRY_TOOK_NS],
        Arrays.stream(numbers, Jni.ENTRY_TOOK, Jni.ENTRY_COUNTERS).boxed().toList());
  }

  @Override
  public void close() {
    handle.close();
  }

  @Override
  public String toString() {
    return handle.isOpen() ? "Observer" : "Observer closed";
  }
}
