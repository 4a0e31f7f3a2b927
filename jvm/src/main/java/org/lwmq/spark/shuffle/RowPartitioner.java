package org.lwmq.spark.shuffle;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.Supplier;
import java.util.function.ToIntFunction;
import java.util.stream.IntStream;
import org.apache.spark.Partitioner;
import org.apache.spark.RangePartitioner;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.codegen.LazilyGeneratedOrdering;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.RangePartitioning;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.internal.SQLConf;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/**
 * How the rows of an exchange find their partitions: with Spark's own expressions, or where these are the hash of columns
 * with the library's, so that every partition holds the rows that Spark's exchange would put there. Made in the driver; {@link #start} in a task.
 */
final class RowPartitioner implements Serializable {
  private final Seq<Expression> keys; // without any: there is one partition
  private final Seq<Attribute> input;
  private final Partitioner ranges; // null: the key is the partition's id
  private final int partitions;
  private final int[] hashedColumns;

  private RowPartitioner(
      Seq<Expression> keys, Seq<Attribute> input, Partitioner ranges, int partitions, int[] hashedColumns) {
    this.keys = keys;
    this.input = input;
    this.ranges = ranges;
    this.partitions = partitions;
    this.hashedColumns = hashedColumns;
  }

  /** Whether {@link #of} knows {@code partitioning}. */
  static boolean knows(Partitioning partitioning) {
    return partitioning.getClass() == HashPartitioning.class
        || partitioning == SinglePartition$.MODULE$
        || partitioning instanceof RangePartitioning;
  }

  /**
   * Reads a sample of {@code rows} where their ranges need bounds, in a job of its own, as Spark's exchange does.
   *
   * @param input the columns of the rows
   */
  static RowPartitioner of(Partitioning partitioning, Seq<Attribute> input, Supplier<RDD<InternalRow>> rows) {
    if (partitioning instanceof HashPartitioning hash) {
      return new RowPartitioner(
          seq(List.of(hash.partitionIdExpression())), input, null, hash.numPartitions(), placesOf(hash, input));
    }
    if (partitioning instanceof RangePartitioning range) {
      List<SortOrder> order = CollectionConverters.asJava(range.ordering());
      Seq<Expression> keys = seq(order.stream().map(SortOrder::child).toList());
      Partitioner ranges = ranges(range.numPartitions(), order, keys, input, rows.get());
      return new RowPartitioner(keys, input, ranges, ranges.numPartitions(), new int[0]);
    }
    return new RowPartitioner(seq(List.of()), input, null, 1, new int[0]);
  }

  /** The places of the keys in {@code input}; empty: not all of them are columns. */
  private static int[] placesOf(HashPartitioning hash, Seq<Attribute> input) {
    List<ExprId> columns = CollectionConverters.asJava(input).stream().map(Attribute::exprId).toList();
    int[] places = CollectionConverters.asJava(hash.expressions()).stream()
        .mapToInt(key -> key instanceof Attribute column ? columns.indexOf(column.exprId()) : -1)
        .toArray();
    return IntStream.of(places).anyMatch(place -> place < 0) ? new int[0] : places;
  }

  private static Partitioner ranges(
      int partitions, List<SortOrder> order, Seq<Expression> keys, Seq<Attribute> input, RDD<InternalRow> rows) {
    FlatMapFunction<Iterator<InternalRow>, Tuple2<InternalRow, Object>> toKeys =
        part -> {
          UnsafeProjection key = UnsafeProjection.create(keys, input);
          return CollectionConverters.asJava(
              CollectionConverters.asScala(part).map(row -> new Tuple2<>((InternalRow) key.apply(row).copy(), null)));
        };
    List<SortOrder> ofKeys = new ArrayList<>();
    for (int i = 0; i < order.size(); i++) {
      SortOrder one = order.get(i);
      Expression key = new BoundReference(i, one.dataType(), one.nullable());
      ofKeys.add(one.copy(key, one.direction(), one.nullOrdering(), one.sameOrderExpressions()));
    }
    return new RangePartitioner<InternalRow, Object>(
        partitions,
        rows.toJavaRDD().mapPartitions(toKeys).rdd(),
        true,
        SQLConf.get().rangeExchangeSampleSizePerPartition(),
        new LazilyGeneratedOrdering(seq(ofKeys)),
        ClassTag$.MODULE$.apply(InternalRow.class));
  }

  /** How many there are: of ranges fewer than were asked for, where a sample has fewer different keys. */
  int partitions() {
    return partitions;
  }

  /** The columns whose hash is the key; empty: it is found row by row. */
  int[] hashedColumns() {
    return hashedColumns;
  }

  private boolean isSingle() {
    return keys.isEmpty();
  }

  /** Tells the partition of each row. For one thread. */
  ToIntFunction<InternalRow> start() {
    if (isSingle()) {
      return row -> 0;
    }
    UnsafeProjection key = UnsafeProjection.create(keys, input);
    return ranges == null ? row -> key.apply(row).getInt(0) : row -> ranges.getPartition(key.apply(row));
  }

  private static <T> Seq<T> seq(List<T> list) {
    return CollectionConverters.asScala(list).toSeq();
  }
}
