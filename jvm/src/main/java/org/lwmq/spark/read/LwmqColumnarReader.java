package org.lwmq.spark.read;

import java.util.Arrays;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.TaskCompletionListener;
import org.lwmq.arrow.ArrowColumn;
import org.lwmq.arrow.ArrowSchemas;
import org.lwmq.arrow.IpcBlock;
import org.lwmq.core.Batch;
import org.lwmq.core.Reader;
import org.lwmq.spark.batch.VectorFactory;
import org.lwmq.spark.report.Failures;

/**
 * Gives Spark the batches of a stream where they lie in the window of the producer. Executor, one task thread.
 *
 * <p>A batch stays leased until Spark asks for the next one, or until its task ends in any way. It is consumed when
 * Spark asks for the next one. The last batch is consumed when the task has ended well.
 */
final class LwmqColumnarReader implements PartitionReader<ColumnarBatch> {
  private final LwmqReaderFactory read;
  private final Schema schema;
  private final int[] places; // see StreamColumns
  /** The places of the columns that are fields of the stream, in the order of the columns. */
  private final int[] wanted;
  private final StreamTask task;
  private final boolean inTask; // false in unit tests, which have no Spark task

  private Batch lease;
  private long copy;
  private ColumnarBatch current;
  private long rows;
  private long bytes;
  private long batches;
  private long bytesCopied;

  LwmqColumnarReader(LwmqReaderFactory read, LwmqInputPartition partition) {
    this.read = read;
    this.schema = ArrowSchemas.parse(read.schemaBytes());
    this.places = read.columns().places().stream().mapToInt(Integer::intValue).toArray();
    this.wanted = Arrays.stream(places).filter(place -> place != StreamColumns.METADATA).toArray();
    this.task = new StreamTask(read, partition, TaskContext.get());
    this.inTask = TaskContext.get() != null;
    if (inTask) {
      TaskCompletionListener atEnd = context -> end();
      TaskContext.get().addTaskCompletionListener(atEnd);
    }
  }

  @Override
  public boolean next() {
    return Failures.call(
        () -> {
          release();
          if (read.limit() >= 0 && rows >= read.limit()) {
            return false;
          }
          lease = task.next();
          if (lease != null) {
            current = show();
          }
          return lease != null;
        });
  }

  @Override
  public ColumnarBatch get() {
    return current;
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    Reader.Statistics ofReader = task.statistics();
    return ReadMetrics.values(
        bytes, bytesCopied, ofReader.bytesReceived(), batches, ofReader.batchesSkipped(), task.waitNs());
  }

  /**
   * Spark calls this when the rows are exhausted, perhaps long before the task ends. The reader stays open until the
   * task ends: only then is it known whether the task has ended well, and other attempts give way to one that is still
   * open.
   */
  @Override
  public void close() {
    if (inTask) {
      release();
    } else {
      end();
    }
  }

  private void end() {
    Failures.run(
        () -> {
          release();
          task.close();
        });
  }

  /** The leased batch as Spark's vectors. */
  private ColumnarBatch show() {
    long address = lease.address();
    boolean isCopied = lease.isCopy();
    if (read.conf().verify()) {
      address = copy(lease);
      isCopied = true;
    }
    IpcBlock.Columns columns = IpcBlock.read(address, lease.bytes(), lease.isStream(), schema, wanted);
    ColumnVector[] vectors = new ColumnVector[places.length];
    int next = 0;
    for (int i = 0; i < vectors.length; i++) {
      StructField column = read.columns().types().apply(i);
      if (places[i] == StreamColumns.METADATA) {
        LwmqMetadata metadata = LwmqMetadata.of(column.name());
        vectors[i] = metadata.vector(read.conf().uri(), lease, columns.rows());
      } else {
        ArrowColumn data = columns.columns()[next++];
        vectors[i] = VectorFactory.over(data, column.dataType());
        bytes += data.bytes();
        bytesCopied += isCopied ? data.bytes() : 0;
      }
    }
    rows += columns.rows();
    batches++;
    return new ColumnarBatch(vectors, columns.rows());
  }

  /** Makes a private copy of a batch, which its writer can no longer change. */
  private long copy(Batch batch) {
    copy = Platform.allocateMemory(Math.max(1, batch.bytes()));
    Platform.copyMemory(null, batch.address(), null, copy, batch.bytes());
    batch.close();
    return copy;
  }

  private void release() {
    current = null;
    if (lease != null) {
      lease.close();
      lease = null;
    }
    if (copy != 0) {
      Platform.freeMemory(copy);
      copy = 0;
    }
  }
}
