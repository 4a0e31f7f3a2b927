package org.lwmq.spark.shuffle;

import java.util.Map;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext$;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.shuffle.BaseShuffleHandle;
import org.apache.spark.shuffle.ShuffleHandle;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter;
import org.apache.spark.shuffle.ShuffleWriter;
import org.apache.spark.shuffle.sort.SortShuffleManager;
import org.lwmq.spark.plugin.ExecutorGauges;
import org.lwmq.spark.plugin.LwmqPlugin;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Spark's shuffle manager ({@code spark.shuffle.manager}) for exchanges of Arrow batches: the map tasks of an {@link
 * LwmqExchangeExec} keep them in the memory of their executor, and reduce tasks read them there. Every other shuffle is
 * Spark's own sort shuffle. Driver and executors.
 */
public final class LwmqShuffleManager extends SortShuffleManager {
  private static final Logger LOG = LoggerFactory.getLogger(LwmqShuffleManager.class);
  private static final String GAUGES = "exchange";

  private final ExchangeStreams streams;

  /** Spark calls this, by the name of the class. */
  public LwmqShuffleManager(SparkConf conf) {
    super(conf);
    this.streams = new ExchangeStreams(conf);
    if (conf.get("spark.executor.id", "").equals(SparkContext$.MODULE$.DRIVER_IDENTIFIER())
        && !conf.get("spark.plugins", "").contains(LwmqPlugin.class.getName())) {
      LOG.warn("lwmq: the memory of exchanges is not among the driver's metrics: spark.plugins has no {}",
          LwmqPlugin.class.getName());
    }
    ExecutorGauges.add(GAUGES, () -> Map.of("used.bytes", streams.usedBytes(), "limit.bytes", streams.limitBytes()));
  }

  /** Whether the application runs with this manager. */
  static boolean isInUse() {
    return SparkEnv.get() != null && SparkEnv.get().blockingShuffleManager() instanceof LwmqShuffleManager;
  }

  /** Bytes of window memory in which this executor keeps outputs of map tasks; 0 without this manager. */
  public static long usedBytes() {
    return isInUse() ? inUse().streams.usedBytes() : 0;
  }

  /** See {@link ExchangeStreams#door}. Driver, where {@link #isInUse}. */
  static String door() {
    return inUse().streams.door();
  }

  private static LwmqShuffleManager inUse() {
    return (LwmqShuffleManager) SparkEnv.get().blockingShuffleManager();
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
        : (ShuffleWriter<K, V>) new ExchangeWriter(streams, ours, mapId, context, metrics);
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
    return (ShuffleReader<K, C>) new ExchangeReader(ours, startPartition, endPartition, blocks, context, metrics);
  }

  @Override
  public boolean unregisterShuffle(int shuffleId) {
    streams.remove(shuffleId);
    return super.unregisterShuffle(shuffleId);
  }

  @Override
  public void stop() {
    super.stop();
    ExecutorGauges.remove(GAUGES);
    streams.close();
  }

  private static ExchangeDependency dependency(ShuffleHandle handle) {
    return handle instanceof BaseShuffleHandle<?, ?, ?> base && base.dependency() instanceof ExchangeDependency ours
        ? ours
        : null;
  }
}
