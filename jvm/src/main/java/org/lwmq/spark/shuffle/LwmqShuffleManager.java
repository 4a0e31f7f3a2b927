package org.lwmq.spark.shuffle;

import java.util.Map;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.shuffle.BaseShuffleHandle;
import org.apache.spark.shuffle.IndexShuffleBlockResolver;
import org.apache.spark.shuffle.ShuffleHandle;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter;
import org.apache.spark.shuffle.ShuffleWriter;
import org.apache.spark.shuffle.sort.SortShuffleManager;
import org.lwmq.spark.plugin.ExecutorGauges;

/**
 * Spark's shuffle manager ({@code spark.shuffle.manager}) for exchanges of Arrow batches: the map tasks of an {@link
 * LwmqExchangeExec} keep them in the memory of their executor, and reduce tasks read them there. Every other shuffle is
 * Spark's own sort shuffle. Driver and executors.
 */
public final class LwmqShuffleManager extends SortShuffleManager {
  private final ExchangeStore store;
  private final ExchangeResolver resolver;

  /** Spark calls this, by the name of the class. */
  public LwmqShuffleManager(SparkConf conf) {
    super(conf);
    this.store = new ExchangeStore(conf);
    this.resolver = new ExchangeResolver(conf, store);
    ExecutorGauges.add("exchange", store.memory()::figures);
  }

  /** Whether the application runs with this manager. */
  static boolean isInUse() {
    return SparkEnv.get() != null && SparkEnv.get().blockingShuffleManager() instanceof LwmqShuffleManager;
  }

  /** Bytes of this process: used, kept for later, and taken from the system since the start. Empty without this manager. */
  public static Map<String, Long> memory() {
    return isInUse()
        ? ((LwmqShuffleManager) SparkEnv.get().blockingShuffleManager()).store.memory().figures()
        : Map.of();
  }

  @Override
  public <K, V, C> ShuffleHandle registerShuffle(int shuffleId, ShuffleDependency<K, V, C> dependency) {
    return dependency instanceof ExchangeDependency
        ? new BaseShuffleHandle<>(shuffleId, dependency)
        : super.registerShuffle(shuffleId, dependency);
  }

  @Override
  @SuppressWarnings("unchecked")
  public <K, V> ShuffleWriter<K, V> getWriter(
      ShuffleHandle handle, long mapId, TaskContext context, ShuffleWriteMetricsReporter metrics) {
    ExchangeDependency ours = dependency(handle);
    return ours == null
        ? super.getWriter(handle, mapId, context, metrics)
        : (ShuffleWriter<K, V>) new ExchangeWriter(store, ours, mapId, context, metrics);
  }

  @Override
  @SuppressWarnings("unchecked")
  public <K, C> ShuffleReader<K, C> getReader(
      ShuffleHandle handle,
      int startMapIndex,
      int endMapIndex,
      int startPartition,
      int endPartition,
      TaskContext context,
      ShuffleReadMetricsReporter metrics) {
    ExchangeDependency ours = dependency(handle);
    if (ours == null) {
      return super.getReader(handle, startMapIndex, endMapIndex, startPartition, endPartition, context, metrics);
    }
    var blocks = SparkEnv.get().mapOutputTracker().getMapSizesByExecutorId(
        handle.shuffleId(), startMapIndex, endMapIndex, startPartition, endPartition);
    return (ShuffleReader<K, C>) new ExchangeReader(store, ours, blocks, context, metrics);
  }

  @Override
  public boolean unregisterShuffle(int shuffleId) {
    store.remove(shuffleId);
    return super.unregisterShuffle(shuffleId);
  }

  @Override
  public IndexShuffleBlockResolver shuffleBlockResolver() {
    return resolver;
  }

  @Override
  public void stop() {
    super.stop();
    ExecutorGauges.remove("exchange");
    store.close();
  }

  private static ExchangeDependency dependency(ShuffleHandle handle) {
    return handle instanceof BaseShuffleHandle<?, ?, ?> base && base.dependency() instanceof ExchangeDependency ours
        ? ours
        : null;
  }
}
