package org.lwmq.spark.shuffle;

import java.lang.management.ManagementFactory;
import org.apache.spark.SparkConf;

/** Settings of the exchange, read from Spark's configuration. */
final class ExchangeConf {
  /** Native memory of an executor for outputs of map tasks, such as {@code 2g}; more goes to files. */
  static final String MEMORY = "spark.lwmq.exchange.memory";
  /** Whether exchanges of a session are ours; it may change between queries. */
  static final String ENABLED = "spark.lwmq.exchange.enabled";

  /** The blocks that one task fills at a time, all partitions together. */
  static final long TASK_BYTES = 64 << 20;
  private static final long BATCH_BYTES_MAX = 2 << 20;
  private static final long BATCH_BYTES_MIN = 32 << 10;
  private static final int PART_OF_HOST = 4;

  private ExchangeConf() {}

  /** The limit in bytes; without a setting a quarter of what the host or the container has. */
  static long memory(SparkConf conf) {
    var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    return conf.getSizeAsBytes(MEMORY, system.getTotalMemorySize() / PART_OF_HOST + "b");
  }

  /** The largest batch by intent, of a task that writes {@code partitions} partitions. */
  static long batchBytes(int partitions) {
    return Math.max(BATCH_BYTES_MIN, Math.min(BATCH_BYTES_MAX, TASK_BYTES / partitions));
  }
}
