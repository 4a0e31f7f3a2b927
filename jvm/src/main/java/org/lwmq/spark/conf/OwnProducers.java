package org.lwmq.spark.conf;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/**
 * The jobs of this application that write to streams, for reads of the same streams in the same application. Such a
 * read must leave slots to the job: its tasks wait for the job's rows. Driver. Thread-safe.
 */
public final class OwnProducers {
  private static final Map<String, List<OwnProducers>> OPEN = new HashMap<>();

  private final boolean isLive;
  private final boolean isPublished;
  private int tasksLeft;

  private OwnProducers(int tasks, boolean isLive, boolean isPublished) {
    this.tasksLeft = tasks;
    this.isLive = isLive;
    this.isPublished = isPublished;
  }

  /** A write of {@code tasks} tasks to {@code uri} begins. It ends with {@link #close}. */
  public static OwnProducers open(String uri, int tasks, boolean isLive) {
    return add(uri, new OwnProducers(tasks, isLive, false));
  }

  /** The driver's Python calls this when it plans to write to {@code uri} from Python workers. */
  public static void published(String uri, int tasks, boolean isLive) {
    add(uri, new OwnProducers(tasks, isLive, true));
  }

  /** All producers of the stream at {@code uri} have ended. Python workers do not tell. */
  public static synchronized void ended(String uri) {
    remove(uri, producer -> producer.isPublished);
  }

  /**
   * How many slots the jobs need that write to {@code uri}; 0: there are none. A task with live delivery may wait for
   * a reader as soon as its window is full, so all of these need slots beside the reader's. Other tasks wait for no
   * reader, and one slot is enough for them.
   */
  public static synchronized int slotsNeeded(String uri) {
    List<OwnProducers> open = OPEN.getOrDefault(TaskAddress.place(uri), List.of());
    int live = open.stream().filter(producer -> producer.isLive).mapToInt(producer -> producer.tasksLeft).sum();
    return open.isEmpty() ? 0 : Math.max(1, live);
  }

  /** One of the tasks has committed. */
  public void taskEnded() {
    synchronized (OwnProducers.class) {
      tasksLeft--;
    }
  }

  /** The write of {@code uri} is over. Twice is allowed. */
  public void close(String uri) {
    remove(uri, producer -> producer == this);
  }

  private static synchronized void remove(String uri, Predicate<OwnProducers> which) {
    OPEN.computeIfPresent(TaskAddress.place(uri), (place, open) -> open.removeIf(which) && open.isEmpty() ? null : open);
  }

  private static synchronized OwnProducers add(String uri, OwnProducers producer) {
    OPEN.computeIfAbsent(TaskAddress.place(uri), place -> new ArrayList<>()).add(producer);
    return producer;
  }
}
