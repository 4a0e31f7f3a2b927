package org.lwmq.spark.shuffle;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.stream.IntStream;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.shuffle.FetchFailedException;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.storage.BlockId;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.storage.ShuffleBlockId;
import org.apache.spark.util.TaskCompletionListener;
import org.lwmq.arrow.IpcBlock;
import org.lwmq.core.Batch;
import org.lwmq.core.Deadline;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Range;
import org.lwmq.core.Reader;
import org.lwmq.core.ReaderOptions;
import org.lwmq.core.Status;
import org.lwmq.spark.batch.StreamSchema;
import org.lwmq.spark.failure.Failures;
import org.lwmq.spark.vector.VectorFactory;
import scala.Product2;
import scala.Tuple2;
import scala.Tuple3;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The batches of some partitions and some map tasks, in no particular order: shown where the map tasks have left them,
 * executor by executor. The task's thread.
 *
 * <p>A batch is valid until the next one is asked for. A map output that is gone is Spark's FetchFailed, upon which the
 * scheduler computes it again; it is never read as an empty one.
 */
final class ExchangeReader implements ShuffleReader<Object, ColumnarBatch> {
  private static final String NAME = "reduce"; // one for all: what each reads is said by tasks and partitions
  /** An executor that lives is there already. */
  private static final int OPEN_MS = 5_000;

  /** One block to read, and how Spark names it. */
  private record Wanted(BlockManagerId location, ShuffleBlockId id, int mapIndex) {}

  private final ExchangeDependency dependency;
  private final StructType types;
  private final Schema schema;
  private final int[] allColumns;
  private final List<Range> partitions;
  private final TaskContext context;
  private final ShuffleReadMetricsReporter metrics;
  private final Iterator<List<Wanted>> executors; // what is wanted of each

  private List<Wanted> now; // of the executor that `reader` reads
  private Reader reader; // null: none is open
  private boolean isLocal; // it reads what this executor has
  private Batch lease; // what was shown last; null: none
  private SpillFile.Mapped fromFile; // likewise

  ExchangeReader(
      ExchangeDependency dependency,
      int startPartition,
      int endPartition,
      scala.collection.Iterator<Tuple2<BlockManagerId, scala.collection.Seq<Tuple3<BlockId, Object, Object>>>> blocks,
      TaskContext context,
      ShuffleReadMetricsReporter metrics) {
    this.dependency = dependency;
    this.types = dependency.schema();
    this.schema = StreamSchema.arrow(types);
    this.allColumns = IntStream.range(0, types.size()).toArray();
    this.partitions = IntStream.range(startPartition, endPartition)
        .mapToObj(partition -> new Range(partition, Range.EARLIEST, Range.END)).toList();
    this.context = context;
    this.metrics = metrics;
    Map<String, List<Wanted>> byExecutor = new LinkedHashMap<>();
    CollectionConverters.asJava(blocks).forEachRemaining(
        executor -> CollectionConverters.asJava(executor._2()).forEach(
            block -> byExecutor.computeIfAbsent(executor._1().executorId(), id -> new ArrayList<>()).add(new Wanted(
                executor._1(), (ShuffleBlockId) block._1(), (Integer) block._3()))));
    this.executors = byExecutor.values().iterator();
    TaskCompletionListener atEnd = ended -> close();
    context.addTaskCompletionListener(atEnd);
  }

  @Override
  public scala.collection.Iterator<Product2<Object, ColumnarBatch>> read() {
    return CollectionConverters.asScala(
        new Iterator<Product2<Object, ColumnarBatch>>() {
          private ColumnarBatch next;
          private boolean isOver;

          @Override
          public boolean hasNext() {
            if (next == null && !isOver) {
              next = advance();
              isOver = next == null;
            }
            return next != null;
          }

          @Override
          public Product2<Object, ColumnarBatch> next() {
            if (!hasNext()) {
              throw new NoSuchElementException("all batches of the exchange were read");
            }
            ColumnarBatch batch = next;
            next = null;
            return new Tuple2<>(0, batch);
          }
        });
  }

  /** The next batch; null: there are no more. */
  private ColumnarBatch advance() {
    letGo();
    context.killTaskIfInterrupted();
    try {
      while (true) {
        if (reader == null && !openNext()) {
          context.taskMetrics().mergeShuffleReadMetrics();
          return null;
        }
        long began = System.nanoTime();
        lease = reader.next(deadline());
        metrics.incFetchWaitTime((System.nanoTime() - began) / 1_000_000);
        if (lease != null) {
          return show();
        }
        reader.close();
        reader = null;
      }
    } catch (LwmqException e) {
      if (e.status() == Status.INTERRUPTED) {
        throw Failures.spark(e);
      }
      throw failed(now.get(0), e.getMessage(), e);
    }
  }

  private boolean openNext() {
    if (!executors.hasNext()) {
      return false;
    }
    now = executors.next();
    BlockManagerId location = now.get(0).location;
    List<Long> maps = now.stream().map(wanted -> wanted.id.mapId()).distinct().toList();
    reader = Reader.open(
        ExchangeStreams.address(dependency, location.executorId()),
        ReaderOptions.ofTasks(NAME, partitions, ExchangeStreams.JOB, maps),
        Deadline.after(OPEN_MS).cancelledBy(context::isInterrupted));
    isLocal = location.executorId().equals(SparkEnv.get().executorId());
    if (isLocal) {
      metrics.incLocalBlocksFetched(now.size());
    } else {
      metrics.incRemoteBlocksFetched(now.size());
    }
    return true;
  }

  private ColumnarBatch show() {
    long address = lease.address();
    long bytes = lease.bytes();
    if (SpillFile.isReference(address, bytes)) {
      try {
        fromFile = SpillFile.map(address, bytes);
      } catch (IOException e) {
        throw failed(now.get(0), "a batch cannot be read from its file: " + e.getMessage(), e);
      }
      address = fromFile.address();
      bytes = fromFile.bytes();
    }
    if (isLocal) { // as far as Spark knows: of its own executor
      metrics.incLocalBytesRead(bytes);
    } else {
      metrics.incRemoteBytesRead(bytes);
    }
    IpcBlock.Columns columns = IpcBlock.read(address, bytes, false, schema, allColumns);
    ColumnVector[] vectors = new ColumnVector[allColumns.length];
    for (int i = 0; i < vectors.length; i++) {
      vectors[i] = VectorFactory.over(columns.columns()[i], types.apply(i).dataType(), fromFile == null ? lease : fromFile);
    }
    metrics.incRecordsRead(columns.rows());
    return new ColumnarBatch(vectors, columns.rows());
  }

  private void letGo() {
    if (lease != null) {
      lease.close();
      lease = null;
    }
    if (fromFile != null) {
      fromFile.close();
      fromFile = null;
    }
  }

  private void close() {
    letGo();
    if (reader != null) {
      reader.close();
      reader = null;
    }
  }

  private Deadline deadline() {
    return Deadline.never().cancelledBy(context::isInterrupted);
  }

  /** For Spark's scheduler, which computes the map outputs of that executor again. Never returns. */
  private static RuntimeException failed(Wanted block, String why, Exception cause) {
    String text = "lwmq: no output of map task " + block.id.mapId() + " in shuffle " + block.id.shuffleId()
        + " from executor " + block.location.executorId() + ": " + why;
    FetchFailedException failure = new FetchFailedException(block.location, block.id.shuffleId(), block.id.mapId(),
        block.mapIndex, block.id.reduceId(), text, cause);
    ExchangeReader.<RuntimeException>raise(failure);
    return new IllegalStateException(failure);
  }

  /** FetchFailedException is a checked exception, and Spark's iterators declare none. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> void raise(Throwable failure) throws E {
    throw (E) failure;
  }
}
