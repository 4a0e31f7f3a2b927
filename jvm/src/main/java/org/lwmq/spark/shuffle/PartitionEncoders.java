package org.lwmq.spark.shuffle;

import java.util.function.Function;
import org.apache.spark.sql.catalyst.InternalRow;
import org.lwmq.spark.batch.BatchEncoder;
import org.lwmq.spark.batch.BatchSink;

/**
 * The encoders of one map task, one for each partition that has rows. The task's thread.
 *
 * <p>Public because the generated code of a stage gives its rows to the encoders of the task that runs it, and its
 * classes live in a loader of their own.
 */
public final class PartitionEncoders implements AutoCloseable {
  private static final ThreadLocal<PartitionEncoders> CURRENT = new ThreadLocal<>();

  private final MapOutput output;
  private final Function<BatchSink, BatchEncoder> encoderOver;
  private final BatchEncoder[] encoders; // null: no row has come for the partition

  /** @param encoderOver makes the encoder of a partition */
  PartitionEncoders(MapOutput output, int partitions, Function<BatchSink, BatchEncoder> encoderOver) {
    this.output = output;
    this.encoders = new BatchEncoder[partitions];
    this.encoderOver = encoderOver;
  }

  /** Those of the task that this thread runs. Generated code calls this. */
  public static PartitionEncoders current() {
    PartitionEncoders current = CURRENT.get();
    if (current == null) {
      throw new IllegalStateException("a stage that ends in an LwmqSink runs below an LwmqExchange only");
    }
    return current;
  }

  /** Runs {@code task}, in which these are the current ones. */
  void during(Runnable task) {
    PartitionEncoders before = CURRENT.get();
    CURRENT.set(this);
    try {
      task.run();
    } finally {
      CURRENT.set(before);
    }
  }

  /** Encodes one row, which is the caller's afterwards. */
  public void write(int partition, InternalRow row) {
    of(partition).write(row);
  }

  BatchEncoder of(int partition) {
    BatchEncoder encoder = encoders[partition];
    if (encoder == null) {
      encoder = encoderOver.apply(new ExchangeSink(output, partition));
      encoders[partition] = encoder;
    }
    return encoder;
  }

  void flush() {
    for (BatchEncoder encoder : encoders) {
      if (encoder != null) {
        encoder.flush();
      }
    }
  }

  @Override
  public void close() {
    for (BatchEncoder encoder : encoders) {
      if (encoder != null) {
        encoder.close();
      }
    }
  }
}
