package org.lwmq.spark.shuffle;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.stream.IntStream;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
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
import org.lwmq.core.Memory;
import org.lwmq.spark.batch.StreamSchema;
import org.lwmq.spark.batch.VectorFactory;
import org.lwmq.spark.report.Failures;
import scala.Product2;
import scala.Tuple2;
import scala.Tuple3;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The batches of some partitions and some map tasks, in no particular order. Batches of the same executor are read
 * where their map task left them. Others are fetched by Spark's block transfer, while those of the same executor are
 * read. The task's thread.
 *
 * <p>A batch is valid until the next one is asked for. A map output that is gone is Spark's FetchFailed, upon which the
 * scheduler computes it again; it is never read as an empty one.
 */
final class ExchangeReader implements ShuffleReader<Object, ColumnarBatch> {
  /** One block to read, and how Spark names it. */
  record Wanted(BlockManagerId location, ShuffleBlockId id, long bytes, int mapIndex) {}

  private final ExchangeStore store;
  private final StructType types;
  private final Schema schema;
  private final int[] allColumns;
  private final TaskContext context;
  private final ShuffleReadMetricsReporter metrics;
  private final Deque<Wanted> local = new ArrayDeque<>();
  private final FetchedBlocks remote;

  // The block that is being read.
  private MapOutput held; // null: none, or a fetched one
  private Wanted wanted; // what `held` is the output of
  private Iterator<MapOutput.Piece> pieces = Collections.emptyIterator();
  private Iterator<ByteBuffer> fetched = Collections.emptyIterator();
  private ExchangeMemory.Block fromFile; // null: none

  ExchangeReader(
      ExchangeStore store,
      ExchangeDependency dependency,
      scala.collection.Iterator<Tuple2<BlockManagerId, scala.collection.Seq<Tuple3<BlockId, Object, Object>>>> blocks,
      TaskContext context,
      ShuffleReadMetricsReporter metrics) {
    this.store = store;
    this.types = dependency.schema();
    this.schema = StreamSchema.declared(types, null, null);
    this.allColumns = IntStream.range(0, types.size()).toArray();
    this.context = context;
    this.metrics = metrics;
    List<Wanted> far = new ArrayList<>();
    String here = SparkEnv.get().executorId();
    CollectionConverters.asJava(blocks).forEachRemaining(
        executor -> CollectionConverters.asJava(executor._2()).forEach(
            block -> (executor._1().executorId().equals(here) ? local : far).add(new Wanted(
                executor._1(), (ShuffleBlockId) block._1(), (Long) block._2(), (Integer) block._3()))));
    this.remote = new FetchedBlocks(far, store.memory(), context, metrics);
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
              next = Failures.call(ExchangeReader.this::advance);
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
    while (!pieces.hasNext() && !fetched.hasNext()) {
      if (!open()) {
        close();
        return null;
      }
    }
    ByteBuffer bytes = pieces.hasNext() ? bytes(pieces.next()) : fetched.next();
    IpcBlock.Columns columns =
        IpcBlock.read(Memory.address(bytes), bytes.remaining(), false, schema, allColumns);
    ColumnVector[] vectors = new ColumnVector[allColumns.length];
    for (int i = 0; i < vectors.length; i++) {
      vectors[i] = VectorFactory.over(columns.columns()[i], types.apply(i).dataType());
    }
    metrics.incRecordsRead(columns.rows());
    return new ColumnarBatch(vectors, columns.rows());
  }

  private ByteBuffer bytes(MapOutput.Piece piece) {
    if (piece.block() != null) {
      return MapOutput.inMemory(piece);
    }
    free();
    fromFile = store.memory().allocate(piece.bytes());
    ByteBuffer bytes = Memory.wrap(fromFile.address(), piece.bytes());
    try {
      held.read(piece, bytes);
    } catch (IOException e) {
      throw FetchedBlocks.failed(wanted, "it cannot be read from its file: " + e.getMessage(), e);
    }
    return bytes;
  }

  /** Opens the next block. False: there is none. */
  private boolean open() {
    release();
    remote.request();
    wanted = local.poll();
    if (wanted == null) {
      Iterator<ByteBuffer> next = remote.next();
      fetched = next == null ? Collections.emptyIterator() : next;
      return next != null;
    }
    held = store.find(wanted.id.shuffleId(), wanted.id.mapId());
    if (held == null) {
      throw FetchedBlocks.failed(wanted, "its output is no longer in this executor", null);
    }
    metrics.incLocalBlocksFetched(1);
    metrics.incLocalBytesRead(held.lengths()[wanted.id.reduceId()]);
    pieces = held.pieces(wanted.id.reduceId()).iterator();
    return true;
  }

  private void free() {
    if (fromFile != null) {
      store.memory().free(fromFile);
      fromFile = null;
    }
  }

  private void release() {
    free();
    pieces = Collections.emptyIterator();
    if (held != null) {
      held.release();
      held = null;
    }
  }

  private void close() {
    release();
    remote.close();
    context.taskMetrics().mergeShuffleReadMetrics();
  }
}
