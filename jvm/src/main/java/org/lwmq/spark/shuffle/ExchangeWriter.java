package org.lwmq.spark.shuffle;

import java.io.IOException;
import java.util.Iterator;
import java.util.function.ToIntFunction;
import java.util.stream.LongStream;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.scheduler.MapStatus$;
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter;
import org.apache.spark.shuffle.ShuffleWriter;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;
import org.lwmq.core.LwmqException;
import org.lwmq.spark.batch.BatchEncoder;
import org.lwmq.spark.batch.ColumnSplitter;
import org.lwmq.spark.conf.LwmqShuffleConf;
import org.lwmq.spark.failure.Failures;
import scala.Option;
import scala.Product2;
import scala.jdk.javaapi.CollectionConverters;

/** Writes the rows of one map task as Arrow batches, one encoder for each partition. The task's thread. */
final class ExchangeWriter extends ShuffleWriter<Object, InternalRow> {
  /** Our bytes for each byte of Spark's files with lz4: the mean over the exchanges of TPC-H; of large ones 1.9 to 3.3. */
  private static final double COMPRESSION = 2.5;

  private final ExchangeDependency dependency;
  private final long mapId;
  private final ShuffleWriteMetricsReporter metrics;
  private final MapOutput output;
  private PartitionEncoders encoders; // null: they could not be made
  private boolean isOver; // the output is committed, or given up

  ExchangeWriter(
      ExchangeStreams streams,
      ExchangeDependency dependency,
      long mapId,
      TaskContext context,
      ShuffleWriteMetricsReporter metrics) {
    this.dependency = dependency;
    this.mapId = mapId;
    this.metrics = metrics;
    int partitions = dependency.partitioner().numPartitions();
    try {
      this.output = new MapOutput(streams, dependency, mapId, context);
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
    TaskCompletionListener atEnd = ended -> stop(false); // Spark does not stop us behind an Error
    context.addTaskCompletionListener(atEnd);
    this.encoders = new PartitionEncoders(
        output,
        partitions,
        BatchEncoder.exact(
            dependency.schema(), LwmqShuffleConf.firstBytes(partitions), LwmqShuffleConf.batchBytes(partitions)));
  }

  @Override
  public void write(scala.collection.Iterator<Product2<Object, InternalRow>> input) throws IOException {
    long start = System.nanoTime();
    try {
      encoders.during(() -> writeAll(CollectionConverters.asJava(input)));
      encoders.flush();
      output.commit();
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
    long bytes = 0;
    for (long length : output.lengths()) {
      bytes += length;
    }
    metrics.incRecordsWritten(output.rows());
    metrics.incBytesWritten(bytes);
    metrics.incWriteTime(System.nanoTime() - start);
    dependency.dataSize().add(bytes);
  }

  /** Takes what comes. Below an {@link LwmqSinkExec} nothing does: asking for the first row has written all of them. */
  private void writeAll(Iterator<?> input) {
    if (!input.hasNext()) {
      return;
    }
    ToIntFunction<InternalRow> partitionOf = dependency.rowPartitioner().start();
    int partitions = output.lengths().length;
    if (!dependency.inColumns()) {
      input.forEachRemaining(row -> encoders.write(partitionOf.applyAsInt((InternalRow) row), (InternalRow) row));
    } else if (partitions == 1) {
      input.forEachRemaining(batch -> encoders.of(0).write((ColumnarBatch) batch));
    } else {
      int[] keys = dependency.rowPartitioner().hashedColumns();
      try (ColumnSplitter splitter =
          new ColumnSplitter(dependency.schema(), partitions, keys, partitionOf, encoders::of)) {
        input.forEachRemaining(batch -> splitter.write((ColumnarBatch) batch));
      }
    }
  }

  @Override
  public Option<MapStatus> stop(boolean success) {
    if (isOver) {
      return Option.empty();
    }
    isOver = true;
    if (encoders != null) {
      encoders.close();
    }
    output.close();
    if (!success) {
      return Option.empty();
    }
    return Option.apply(MapStatus$.MODULE$.apply(
        SparkEnv.get().blockManager().shuffleServerId(), lengthsAsCompressed(), mapId, 0));
  }

  /** Adaptive execution merges and splits partitions by limits that users give for compressed files. */
  private long[] lengthsAsCompressed() {
    long[] lengths = output.lengths();
    return SparkEnv.get().conf().getBoolean("spark.shuffle.compress", true)
        ? LongStream.of(lengths).map(bytes -> (long) Math.ceil(bytes / COMPRESSION)).toArray()
        : lengths;
  }

  @Override
  public long[] getPartitionLengths() {
    return output.lengths();
  }
}
