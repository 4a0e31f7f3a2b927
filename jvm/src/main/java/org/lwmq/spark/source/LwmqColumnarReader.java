package org.lwmq.spark.source;

import java.util.Arrays;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;
import org.lwmq.arrow.ArrowColumn;
import org.lwmq.arrow.ArrowSchemas;
import org.lwmq.arrow.IpcBlock;
import org.lwmq.core.Batch;
import org.lwmq.core.LwmqException;
import org.lwmq.spark.failure.Failures;
import org.lwmq.spark.vector.VectorFactory;

/**
 * Shows Spark the batches of a stream where they lie in the producer's window. Executor; one thread at a time reads, and any
 * thread ends it.
 *
 * <p>A batch stays leased until Spark asks for the next one, or its task ends, whichever way. It is consumed when the
 * next one is asked for; the last one, when the task has ended well.
 *
 * <p>Who reads need not be the task's thread: what feeds a process ({@code pipe}, {@code TRANSFORM}) reads on another one,
 * and may turn a batch into rows while the task ends. Whoever ends it then waits for at most a slice of the wait for a batch,
 * and leaves the batch to its reader: the memory lives as long as somebody has a vector over it.
 */
final class LwmqColumnarReader implements PartitionReader<ColumnarBatch> {
  private final LwmqReaderFactory read;
  private final Schema schema;
  private final int[] places; // as in StreamColumns
  /** The places that are fields, in the order of the columns. */
  private final int[] wanted;
  private final StreamTask task;
  private final boolean inTask; // of Spark; not in a test

  // Guarded by this.
  private Thread reader; // the last one
  private Batch lease;
  private PrivateCopy copy;
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
  public synchronized boolean next() {
    try {
      reader = Thread.currentThread();
      release();
      if (read.limit() >= 0 && rows >= read.limit()) {
        return false;
      }
      lease = task.next();
      if (lease != null) {
        current = show();
      }
      return lease != null;
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  @Override
  public synchronized ColumnarBatch get() {
    return current;
  }

  @Override
  public synchronized CustomTaskMetric[] currentMetricsValues() {
    return ReadMetrics.values(bytes, bytesCopied, batches, task.waitNs());
  }

  /**
   * Spark calls it when the rows are exhausted, long before the task may end. The conversation goes on until then: only
   * at its end is it known whether the task has ended well, and other attempts give way to one that lives.
   */
  @Override
  public void close() {
    if (inTask) {
      letGo();
    } else {
      end();
    }
  }

  private void end() {
    task.stop(); // who waits for a batch in next
    try {
      endStopped();
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  private synchronized void endStopped() {
    letGo();
    task.close();
  }

  /** For any thread: what another one that lives reads is left to it, and to the cleaners. */
  private synchronized void letGo() {
    if (reader == Thread.currentThread() || (reader != null && !reader.isAlive())) {
      release();
    }
  }

  /** Spark's view of the leased batch. */
  private ColumnarBatch show() {
    long address = lease.address();
    boolean isCopied = lease.isCopy();
    Object owner = lease; // of the memory
    if (read.conf().verify()) {
      copy = new PrivateCopy(lease);
      lease.close();
      address = copy.address();
      isCopied = true;
      owner = copy;
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
        vectors[i] = VectorFactory.over(data, column.dataType(), owner);
        bytes += data.bytes();
        bytesCopied += isCopied ? data.bytes() : 0;
      }
    }
    rows += columns.rows();
    batches++;
    return new ColumnarBatch(vectors, columns.rows());
  }

  private void release() {
    current = null;
    if (lease != null) {
      lease.close();
      lease = null;
    }
    if (copy != null) {
      copy.close();
      copy = null;
    }
  }
}
