package org.lwmq.spark.conf;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import org.apache.spark.SparkConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Settings of the exchange, read from Spark's configuration. */
public final class LwmqShuffleConf {
  private static final Logger LOG = LoggerFactory.getLogger(LwmqShuffleConf.class);

  /** Window memory of an executor for outputs of map tasks, such as {@code 2g}; more goes to files. */
  public static final String MEMORY = "spark.lwmq.exchange.memory";
  /** Whether exchanges of a session are ours; it may change between queries. */
  public static final String ENABLED = "spark.lwmq.exchange.enabled";

  /** The blocks that one task fills at a time, all partitions together. */
  private static final long TASK_BYTES = 64 << 20;
  private static final long BATCH_BYTES_MAX = 2 << 20;
  private static final long BATCH_BYTES_MIN = 64 << 10;
  /** The same of the first blocks: most tasks with many partitions have few rows for each. */
  private static final long TASK_FIRST_BYTES = 2 << 20;
  private static final long FIRST_BYTES_MAX = 256 << 10;
  private static final long FIRST_BYTES_MIN = 4 << 10;
  private static final int PART_OF_HOST = 4;
  private static final String OVERHEAD = "spark.executor.memoryOverhead"; // in MiB, unless it has a unit

  private LwmqShuffleConf() {}

  /**
   * The limit in bytes: {@link #MEMORY}; else what an executor may have beside its heap; else a quarter of what the host or
   * the container has.
   */
  public static long memory(SparkConf conf) {
    long host = ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getTotalMemorySize();
    if (!conf.contains(MEMORY)) {
      return conf.contains(OVERHEAD) ? conf.getSizeAsMb(OVERHEAD) << 20 : host / PART_OF_HOST;
    }
    long memory = conf.getSizeAsBytes(MEMORY);
    if (memory > host) {
      LOG.warn("lwmq: {} is {} bytes, but this host or container has {}: nothing goes to files before that is full",
          MEMORY, memory, host);
    }
    return memory;
  }

  /** The largest batch by intent, of a task that writes {@code partitions} partitions. */
  public static long batchBytes(int partitions) {
    return Math.max(BATCH_BYTES_MIN, Math.min(BATCH_BYTES_MAX, TASK_BYTES / partitions));
  }

  /** The first batch by intent, of such a task. */
  public static long firstBytes(int partitions) {
    return Math.max(FIRST_BYTES_MIN, Math.min(FIRST_BYTES_MAX, TASK_FIRST_BYTES / partitions));
  }
}
