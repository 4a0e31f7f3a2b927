package org.lwmq.core;

import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

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

  /** What is counted of an entry; {@code lwmq_entry_view} says what each is of which kind, and has them in this order. */
  public enum Figure {
    WAITING_NS,
    UNMOVED_NS,
    PARTITIONS,
    BATCHES,
    ROWS,
    BYTES,
    WINDOW_BYTES,
    WINDOW_USED_BYTES,
    UNREAD_BATCHES,
    KEPT_BATCHES,
    KEPT_BYTES,
    LEASED_BATCHES,
    LEASED_BYTES,
    READERS,
    WRITERS,
    PEER_PID,
    MESSAGES_SENT,
    MESSAGES_RECEIVED,
    BYTES_SENT,
    BYTES_RECEIVED,
    MESSAGES_QUEUED,
    MESSAGES_LOST,
    READERS_STALLED,
    READERS_EXPELLED,
    STALLED_PID,
    MESSAGES_POSTED,
    MESSAGES_DISCARDED,
    PRIORITY,
    TOOK_NS,
    MESSAGES_REPLACED,
    RECEIVE_QUEUED,
    DUPLICATES_DROPPED,
    CLIENTS_ACCEPTED,
    CLIENTS_WAITING,
    CLIENTS_REFUSED
  }

  private static final int TOOK = 32;

  /**
   * One writer, reader, endpoint, channel, send queue or listener; or the times that a filter has measured.
   *
   * @param address cut where it is longer than 159 bytes
   * @param name of a reader, a job; of a channel of a listener: the number of its client; of a queue: its number on the
   *     channel; of times: the filter with its settings
   * @param isConnected to a peer
   * @param isServer it binds
   * @param isClosed a reader whose batches are still held; a writer that waits to be read to its end; times of a filter that
   *     was removed
   * @param isStalled the endpoint that it waits for lives and does not answer
   * @param took how many times took {@code 64 << i} ns at most, and longer than those before; the last: longer still
   */
  public record Entry(
      Kind kind, Instant opened, String address, String name, boolean isConnected, boolean isServer, boolean isClosed,
      boolean isStalled, List<Long> figures, List<Long> took) {
    /** 0 where its kind has none. */
    public long figure(Figure figure) {
      return figures.get(figure.ordinal());
    }
  }

  /**
   * A process that uses lwmq.
   *
   * @param isKnown its page has the version of ours; else nothing behind it is known
   * @param unlisted how much of what it has found no place on its page
   * @param library its version
   */
  public record Process(
      long pid, long uid, int pageVersion, boolean isKnown, String library, long unlisted, Memory.Statistics statistics,
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
        Memory.Statistics.of(Arrays.copyOfRange(n, Jni.PROCESS_STATISTICS, n.length)),
        List.copyOf(entries));
  }

  private static Entry entry(Kind kind, long[] numbers, byte[][] texts) {
    long flags = numbers[Jni.ENTRY_FLAGS]; // LWMQ_ENTRY_CONNECTED ..., from the lowest bit
    long opened = numbers[Jni.ENTRY_OPENED_NS];
    int tookAt = Jni.ENTRY_FIGURES + Figure.TOOK_NS.ordinal() + 1;
    List<Long> all = Arrays.stream(numbers).boxed().toList();
    List<Long> figures = new ArrayList<>(all.subList(Jni.ENTRY_FIGURES, tookAt));
    figures.addAll(all.subList(tookAt + TOOK, all.size()));
    return new Entry(
        kind,
        Instant.ofEpochSecond(opened / 1_000_000_000L, opened % 1_000_000_000L),
        Identity.text(texts[0]),
        Identity.text(texts[1]),
        (flags & 1) != 0,
        (flags & 2) != 0,
        (flags & 4) != 0,
        (flags & 8) != 0,
        List.copyOf(figures),
        List.copyOf(all.subList(tookAt, tookAt + TOOK)));
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
