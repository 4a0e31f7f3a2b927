package org.lwmq.spark.shuffle;

import org.apache.spark.PartitionIdPassthrough;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.rdd.RDD;
import org.apache.spark.serializer.Serializer;
import org.apache.spark.shuffle.ShuffleWriteProcessor;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.StructType;
import scala.None$;
import scala.Option;
import scala.Product2;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Tells {@link LwmqShuffleManager} that a shuffle is ours, and its tasks what its rows are. Made in the driver.
 *
 * <p>The RDD has plain rows or column batches, and no pairs: Spark hands its iterator to the writer as it is.
 */
final class ExchangeDependency extends ShuffleDependency<Object, InternalRow, InternalRow> {
  private final String door;
  private final StructType schema;
  private final RowPartitioner rowPartitioner;
  private final boolean inColumns;
  private final SQLMetric dataSize;

  /**
   * @param door see {@link ExchangeStreams#door}
   * @param input rows, or column batches if {@code inColumns}
   * @param schema of the input, with names that differ
   * @param serializer which nothing uses, and Spark demands
   */
  ExchangeDependency(
      String door,
      RDD<?> input,
      StructType schema,
      RowPartitioner rowPartitioner,
      boolean inColumns,
      Serializer serializer,
      ShuffleWriteProcessor processor,
      SQLMetric dataSize) {
    super(pairs(input), new PartitionIdPassthrough(rowPartitioner.partitions()), serializer, none(), none(), false, processor,
        tag(Integer.class), tag(InternalRow.class), tag(InternalRow.class));
    this.door = door;
    this.schema = schema;
    this.rowPartitioner = rowPartitioner;
    this.inColumns = inColumns;
    this.dataSize = dataSize;
  }

  String door() {
    return door;
  }

  StructType schema() {
    return schema;
  }

  RowPartitioner rowPartitioner() {
    return rowPartitioner;
  }

  /** Whether the map tasks get column batches; otherwise rows. */
  boolean inColumns() {
    return inColumns;
  }

  /** The SQL metric "data size", by which Spark chooses joins. */
  SQLMetric dataSize() {
    return dataSize;
  }

  @SuppressWarnings("unchecked")
  private static RDD<Product2<Object, InternalRow>> pairs(RDD<?> input) {
    return (RDD<Product2<Object, InternalRow>>) input;
  }

  @SuppressWarnings("unchecked")
  private static <T> Option<T> none() {
    return (Option<T>) None$.MODULE$;
  }

  @SuppressWarnings("unchecked")
  private static <T> ClassTag<T> tag(Class<?> type) {
    return (ClassTag<T>) (ClassTag<?>) ClassTag$.MODULE$.apply(type);
  }
}
