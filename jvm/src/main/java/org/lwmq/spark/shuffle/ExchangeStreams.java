package org.lwmq.spark.shuffle;

import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.storage.TempShuffleBlockId;
import org.lwmq.arrow.ArrowSchemas;
import org.lwmq.core.Deadline;
import org.lwmq.core.Delivery;
import org.lwmq.core.Job;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Memory;
import org.lwmq.core.Retain;
import org.lwmq.core.Role;
import org.lwmq.core.Status;
import org.lwmq.core.Writer;
import org.lwmq.core.WriterOptions;
import org.lwmq.spark.batch.StreamSchema;
import org.lwmq.spark.conf.LwmqShuffleConf;
import scala.Tuple2;

/**
 * The streams in which this executor keeps the outputs of its map tasks: one for each shuffle, all behind one address. A
 * partition of the stream is a partition of the shuffle. A map task is a task of the stream's one job, under its map id,
 * and its batches become visible together when it commits. Thread-safe.
 */
final class ExchangeStreams {
  /** The job of each stream, which its map tasks belong to. */
  static final String JOB = "maps";

  private static final int OPEN_MS = 30_000;
  private static final int RETRY_MS = 10;
  private static final long STAGING_BYTES = 1L << 40; // the bound is ours: see tryReserve
  /** Windows have more bytes than the batches in them, and each output and each of its readers has a page. */
  private static final long WINDOWS_BEYOND = 1L << 30;
  private static final int ENDED_MAX = 1_000;

  private final String door = UUID.randomUUID().toString();
  private final long limit;
  private final AtomicLong reserved = new AtomicLong();
  private final Map<Integer, Kept> shuffles = new HashMap<>();
  private final Map<Integer, Long> ended = new LinkedHashMap<>() { // shuffle, and its last map task here
    @Override
    protected boolean removeEldestEntry(Map.Entry<Integer, Long> eldest) {
      return size() > ENDED_MAX;
    }
  };

  /** What is kept of one shuffle. */
  private static final class Kept {
    private final Job job;
    private final List<File> files = new ArrayList<>();
    private long bytes;
    private long lastMapId;

    Kept(Job job) {
      this.job = job;
    }
  }

  ExchangeStreams(SparkConf conf) {
    this.limit = LwmqShuffleConf.memory(conf);
    Memory.limitWindows(2 * limit + WINDOWS_BEYOND);
  }

  /** What the addresses of an application have in common: made by its driver, as its name may not be its own. */
  String door() {
    return door;
  }

  /** The stream of a shuffle in the executor {@code executorId}. */
  static String address(ExchangeDependency dependency, String executorId) {
    return "ipc://exchange-" + dependency.door() + "-" + executorId + "?stream=shuffle-" + dependency.shuffleId();
  }

  /** What a map task gets whose shuffle has ended. */
  static LwmqException hasEnded(int shuffle) {
    return new LwmqException(Status.CLOSED, "shuffle " + shuffle + " has ended");
  }

  /**
   * Opens the writer of a map task. CLOSED: the shuffle has ended after the task began. A query that runs again makes map
   * outputs for a shuffle that has ended before, with tasks of higher numbers.
   */
  Writer openWriter(ExchangeDependency dependency, long mapId) {
    int shuffle = dependency.shuffleId();
    String address = address(dependency, SparkEnv.get().executorId());
    byte[] schema = ArrowSchemas.bytes(StreamSchema.arrow(dependency.schema()));
    WriterOptions options = WriterOptions.client()
        .withJob(JOB, 0)
        .withTask((int) mapId, 0)
        .withDelivery(Delivery.TASK)
        .withStream(dependency.partitioner().numPartitions(), Retain.ALL, 1)
        .withMemory(0, 0, STAGING_BYTES);
    synchronized (this) {
      if (mapId <= ended.getOrDefault(shuffle, -1L)) {
        throw hasEnded(shuffle);
      }
      Kept kept = shuffles.get(shuffle);
      if (kept == null) {
        kept = new Kept(openJob(address, schema, options.withRole(Role.AUTO)));
        shuffles.put(shuffle, kept);
      }
      kept.lastMapId = Math.max(kept.lastMapId, mapId);
    }
    return Writer.open(address, schema, options, Deadline.after(OPEN_MS));
  }

  /** Waits for the end of the stream of a former run, which readers of that run may still hold. */
  private static Job openJob(String address, byte[] schema, WriterOptions options) {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(OPEN_MS);
    while (true) {
      try {
        return Job.open(address, schema, options, Deadline.after(OPEN_MS));
      } catch (LwmqException e) {
        if (e.status() != Status.INVALID || System.nanoTime() - end > 0) {
          throw e;
        }
      }
      LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(RETRY_MS));
    }
  }

  /** False: the limit does not leave {@code bytes}. What was reserved goes back through {@link #release}, or is kept. */
  boolean tryReserve(long bytes) {
    if (reserved.addAndGet(bytes) <= limit) {
      return true;
    }
    reserved.addAndGet(-bytes);
    return false;
  }

  void release(long bytes) {
    reserved.addAndGet(-bytes);
  }

  /**
   * Keeps what a map task has committed until its shuffle ends: {@code bytes} that are reserved, and its file, if any.
   * False: the shuffle has ended.
   */
  synchronized boolean keep(int shuffle, long bytes, File file) {
    Kept kept = shuffles.get(shuffle);
    if (kept == null) {
      return false;
    }
    kept.bytes += bytes;
    if (file != null) {
      kept.files.add(file);
    }
    return true;
  }

  /** Ends the stream of {@code shuffle}, and gives its memory and its files back. */
  void remove(int shuffle) {
    Kept kept;
    synchronized (this) {
      kept = shuffles.remove(shuffle);
      if (kept == null) {
        return;
      }
      ended.put(shuffle, kept.lastMapId);
    }
    try {
      kept.job.close();
    } finally {
      kept.files.forEach(ExchangeStreams::delete);
      release(kept.bytes);
    }
  }

  /** A new file in one of Spark's local directories, which Spark removes when the executor ends. */
  static File newFile() {
    Tuple2<TempShuffleBlockId, File> made = SparkEnv.get().blockManager().diskBlockManager().createTempShuffleBlock();
    return made._2();
  }

  static void delete(File file) {
    if (file != null) {
      file.delete();
    }
  }

  /** Bytes of window memory that hold outputs of map tasks. */
  long usedBytes() {
    return reserved.get();
  }

  /** The most that they may be. */
  long limitBytes() {
    return limit;
  }

  void close() {
    List<Integer> all;
    synchronized (this) {
      all = List.copyOf(shuffles.keySet());
    }
    all.forEach(this::remove);
  }
}
