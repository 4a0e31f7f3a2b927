package org.lwmq.spark.shuffle;

import java.io.File;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.storage.TempShuffleBlockId;
import scala.Tuple2;

/** The outputs of all map tasks of this executor, until their shuffles end. Thread-safe. */
final class ExchangeStore {
  private final ExchangeMemory memory;
  private final Map<Integer, Map<Long, MapOutput>> shuffles = new HashMap<>();
  private final BitSet ended = new BitSet(); // by number of the shuffle

  ExchangeStore(SparkConf conf) {
    this.memory = new ExchangeMemory(ExchangeConf.memory(conf));
  }

  ExchangeMemory memory() {
    return memory;
  }

  /** A new file in one of Spark's local directories, which Spark removes when the executor ends. */
  File newFile() {
    Tuple2<TempShuffleBlockId, File> made = SparkEnv.get().blockManager().diskBlockManager().createTempShuffleBlock();
    return made._2();
  }

  /**
   * Takes the finished output of the map task {@code mapId}, and its reference. A task may end after its shuffle: then
   * nobody will read the output, and it is released.
   */
  synchronized void add(int shuffle, long mapId, MapOutput output) {
    if (ended.get(shuffle)) {
      output.release();
    } else {
      shuffles.computeIfAbsent(shuffle, id -> new HashMap<>()).put(mapId, output);
    }
  }

  /** The output, retained for the caller; null: there is none, or its shuffle has ended. */
  synchronized MapOutput find(int shuffle, long mapId) {
    Map<Long, MapOutput> outputs = shuffles.get(shuffle);
    MapOutput output = outputs == null ? null : outputs.get(mapId);
    return output != null && output.tryRetain() ? output : null;
  }

  /** Releases the outputs of {@code shuffle}. */
  void remove(int shuffle) {
    Map<Long, MapOutput> outputs;
    synchronized (this) {
      outputs = shuffles.remove(shuffle);
      ended.set(shuffle);
    }
    if (outputs != null) {
      outputs.values().forEach(MapOutput::release);
    }
  }

  synchronized boolean has(int shuffle) {
    return shuffles.containsKey(shuffle);
  }

  void close() {
    Integer[] all;
    synchronized (this) {
      all = shuffles.keySet().toArray(new Integer[0]);
    }
    for (Integer shuffle : all) {
      remove(shuffle);
    }
    memory.close();
  }
}
