package org.lwmq.spark.shuffle;

import org.apache.spark.Partition;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.CoalescedMapperPartitionSpec;
import org.apache.spark.sql.execution.CoalescedPartitionSpec;
import org.apache.spark.sql.execution.PartialMapperPartitionSpec;
import org.apache.spark.sql.execution.PartialReducerPartitionSpec;
import org.apache.spark.sql.execution.ShufflePartitionSpec;
import org.apache.spark.sql.execution.ShuffledRowRDD;
import org.apache.spark.sql.execution.ShuffledRowRDDPartition;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLShuffleReadMetricsReporter;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Product2;
import scala.collection.Iterator;
import scala.collection.immutable.Map;

/** The reduce side of an exchange. Its elements are column batches, whatever its declared type says. */
final class ExchangeRdd extends ShuffledRowRDD {
  private final Map<String, SQLMetric> metrics;

  /** Of the partitions that {@code specs} put together. */
  ExchangeRdd(ExchangeDependency exchange, Map<String, SQLMetric> metrics, ShufflePartitionSpec[] specs) {
    super(exchange, metrics, specs);
    this.metrics = metrics;
  }

  /** Of all partitions, one by one. */
  ExchangeRdd(ExchangeDependency exchange, Map<String, SQLMetric> metrics) {
    super(exchange, metrics);
    this.metrics = metrics;
  }

  @Override
  public Iterator<InternalRow> compute(Partition split, TaskContext context) {
    ShufflePartitionSpec spec = ((ShuffledRowRDDPartition) split).spec();
    if (spec instanceof CoalescedPartitionSpec some) {
      return read(0, Integer.MAX_VALUE, some.startReducerIndex(), some.endReducerIndex(), context);
    }
    if (spec instanceof PartialReducerPartitionSpec some) {
      int partition = some.reducerIndex();
      return read(some.startMapIndex(), some.endMapIndex(), partition, partition + 1, context);
    }
    if (spec instanceof PartialMapperPartitionSpec some) {
      return read(some.mapIndex(), some.mapIndex() + 1, some.startReducerIndex(), some.endReducerIndex(), context);
    }
    if (spec instanceof CoalescedMapperPartitionSpec some) {
      return read(some.startMapIndex(), some.endMapIndex(), 0, some.numReducers(), context);
    }
    throw new IllegalStateException("an exchange cannot read " + spec);
  }

  @SuppressWarnings("unchecked")
  private Iterator<InternalRow> read(int startMap, int endMap, int start, int end, TaskContext context) {
    var reporter =
        new SQLShuffleReadMetricsReporter(context.taskMetrics().createTempShuffleReadMetrics(), metrics);
    ShuffleReader<Object, ColumnarBatch> reader = SparkEnv.get().shuffleManagerFor(dependency()).getReader(
        dependency().shuffleHandle(), startMap, endMap, start, end, context, reporter);
    return (Iterator<InternalRow>) (Iterator<?>) reader.read().map(Product2::_2);
  }
}
