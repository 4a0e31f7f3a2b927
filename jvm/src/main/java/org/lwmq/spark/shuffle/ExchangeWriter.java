package org.lwmq.spark.shuffle;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Iterator;
import java.util.function.Function;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.scheduler.MapStatus$;
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter;
import org.apache.spark.shuffle.ShuffleWriter;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.lwmq.spark.batch.BatchEncoder;
import org.lwmq.spark.batch.BatchSink;
import org.lwmq.spark.report.Failures;
import scala.Option;
import scala.Product2;
import scala.jdk.javaapi.CollectionConverters;

/** Writes the rows of one map task as Arrow batches, one encoder for each partition. The task's thread. */
final class ExchangeWriter extends ShuffleWriter<Object, InternalRow> {
  private final ExchangeStore store;
  private final ExchangeDependency dependency;
  private final long mapId;
  private final TaskContext context;
  private final ShuffleWriteMetricsReporter metrics;
  private final MapOutput output;
  private final BatchEncoder[] encoders; // null: no row has come for the partition
  private final Function<BatchSink, BatchEncoder> encoderOver;
  private final boolean picks;
  private long records;
  private boolean isOver; // the output is in the store, or given up

  ExchangeWriter(
      ExchangeStore store,
      ExchangeDependency dependency,
      long mapId,
      TaskContext context,
      ShuffleWriteMetricsReporter metrics) {
    this.store = store;
    this.context = context;
    this.dependency = dependency;
    this.mapId = mapId;
    this.metrics = metrics;
    int partitions = dependency.partitioner().numPartitions();
    this.output = new MapOutput(store.memory(), partitions);
    this.encoders = new BatchEncoder[partitions];
    this.picks = BatchEncoder.picks(dependency.schema());
    this.encoderOver = BatchEncoder.exact(dependency.schema(), ExchangeConf.batchBytes(partitions));
  }

  @Override
  public void write(scala.collection.Iterator<Product2<Object, InternalRow>> input) throws IOException {
    long start = System.nanoTime();
    Iterator<?> entries = CollectionConverters.asJava(input);
    Failures.run(
        () -> {
          if (dependency.inColumns()) {
            writeBatches(entries);
          } else {
            writeRows(entries);
          }
          for (BatchEncoder encoder : encoders) {
            if (encoder != null) {
              encoder.flush();
            }
          }
        });
    output.finish();
    long bytes = 0;
    for (long length : output.lengths()) {
      bytes += length;
    }
    metrics.incRecordsWritten(records);
    metrics.incBytesWritten(bytes);
    metrics.incWriteTime(System.nanoTime() - start);
    dependency.dataSize().add(bytes);
  }

  private void writeRows(Iterator<?> input) {
    RowPartitioner.Ids ids = dependency.rowPartitioner().start();
    long count = 0;
    while (input.hasNext()) {
      InternalRow row = (InternalRow) input.next();
      encoder(ids.of(row)).write(row);
      count++;
    }
    records += count;
  }

  private void writeBatches(Iterator<?> input) {
    RowPartitioner.Ids ids = dependency.rowPartitioner().start();
    while (input.hasNext()) {
      ColumnarBatch batch = (ColumnarBatch) input.next();
      if (dependency.rowPartitioner().isSingle()) {
        encoder(0).write(batch);
      } else {
        split(batch, ids);
      }
      records += batch.numRows();
    }
  }

  private void split(ColumnarBatch batch, RowPartitioner.Ids ids) {
    int[] partition = new int[batch.numRows()];
    ids.of(batch, partition);
    if (picks) {
      splitColumns(batch, partition);
    } else {
      for (int i = 0; i < partition.length; i++) {
        encoder(partition[i]).write(batch.getRow(i));
      }
    }
  }

  /** Sorts the rows of {@code batch} by partition, and copies them column by column. */
  private void splitColumns(ColumnarBatch batch, int[] partition) {
    int n = batch.numRows();
    int[] end = new int[encoders.length]; // first how many rows each partition has, then where they end
    for (int i = 0; i < n; i++) {
      end[partition[i]]++;
    }
    for (int p = 1; p < end.length; p++) {
      end[p] += end[p - 1];
    }
    int[] places = new int[n];
    int[] begin = end.clone();
    for (int i = n - 1; i >= 0; i--) {
      places[--begin[partition[i]]] = i;
    }
    for (int p = 0; p < end.length; p++) {
      if (begin[p] < end[p]) {
        encoder(p).write(batch, places, begin[p], end[p]);
      }
    }
  }

  private BatchEncoder encoder(int partition) {
    BatchEncoder encoder = encoders[partition];
    if (encoder == null) {
      encoder = encoderOver.apply(new ExchangeSink(store.memory(), output, partition, this::spillIfOver));
      encoders[partition] = encoder;
    }
    return encoder;
  }

  private void spillIfOver() {
    if (!store.memory().isOver()) {
      return;
    }
    try {
      long moved = output.spill(store::newFile);
      context.taskMetrics().incMemoryBytesSpilled(moved);
      context.taskMetrics().incDiskBytesSpilled(moved);
    } catch (IOException e) {
      throw new UncheckedIOException("the exchange's memory is full, and its batches cannot be moved to a file", e);
    }
  }

  @Override
  public Option<MapStatus> stop(boolean success) {
    if (isOver) {
      return Option.empty();
    }
    isOver = true;
    for (BatchEncoder encoder : encoders) {
      if (encoder != null) {
        encoder.close();
      }
    }
    if (!success) {
      output.release();
      return Option.empty();
    }
    store.add(dependency.shuffleId(), mapId, output);
    return Option.apply(MapStatus$.MODULE$.apply(
        SparkEnv.get().blockManager().shuffleServerId(), output.lengths(), mapId, 0));
  }

  @Override
  public long[] getPartitionLengths() {
    return output.lengths();
  }
}
