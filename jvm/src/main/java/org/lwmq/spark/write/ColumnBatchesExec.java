package org.lwmq.spark.write;

import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Hands the column batches of {@code child} to Spark's write tasks, which know rows only: each as one {@link
 * BatchCarrier}. {@link ColumnarWriteRule} puts it below a write to a stream and nowhere else, because no other node
 * understands its rows. Driver.
 */
final class ColumnBatchesExec extends SparkPlan {
  private final SparkPlan child;

  ColumnBatchesExec(SparkPlan child) {
    this.child = child;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    FlatMapFunction<java.util.Iterator<ColumnarBatch>, InternalRow> carry = CarrierIterator::new;
    return child.executeColumnar().toJavaRDD().mapPartitions(carry).rdd();
  }

  /** One carrier per batch. The batch belongs to the plan and is valid until the next one is asked for. */
  private record CarrierIterator(java.util.Iterator<ColumnarBatch> batches)
      implements java.util.Iterator<InternalRow> {
    @Override
    public boolean hasNext() {
      return batches.hasNext();
    }

    @Override
    public InternalRow next() {
      return new BatchCarrier(batches.next());
    }
  }

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public Partitioning outputPartitioning() {
    return child.outputPartitioning();
  }

  @Override
  public Seq<SparkPlan> children() {
    return CollectionConverters.asScala(java.util.List.of(child)).toSeq();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    return new ColumnBatchesExec(newChildren.head());
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int n) {
    return child;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof ColumnBatchesExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof ColumnBatchesExec exec && child.equals(exec.child);
  }

  @Override
  public int hashCode() {
    return 31 + child.hashCode();
  }
}
