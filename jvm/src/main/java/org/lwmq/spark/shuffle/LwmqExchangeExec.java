package org.lwmq.spark.shuffle;

import java.util.List;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.rdd.RDD;
import org.apache.spark.serializer.Serializer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.ShufflePartitionSpec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.UnsafeRowSerializer;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleOrigin;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * An exchange whose rows travel as Arrow batches through the memory of the executors. Puts each row where Spark's own
 * exchange would, and gives column batches. Driver.
 *
 * <p>The child may give rows or column batches, flat ones where there are several partitions. {@link ExchangeRule} decides which exchanges of a plan become one, and
 * takes out the transition that Spark inserts below.
 */
public final class LwmqExchangeExec extends ShuffleExchangeExec {
  private transient RDD<InternalRow> input;
  private transient ExchangeDependency dependency;

  /** As {@link ShuffleExchangeExec}; Spark copies a plan through this constructor. */
  public LwmqExchangeExec(
      Partitioning outputPartitioning,
      SparkPlan child,
      ShuffleOrigin shuffleOrigin,
      Option<Object> advisoryPartitionSize,
      boolean pipelined) {
    super(outputPartitioning, child, shuffleOrigin, advisoryPartitionSize, pipelined);
  }

  static LwmqExchangeExec of(ShuffleExchangeExec theirs) {
    return new LwmqExchangeExec(theirs.outputPartitioning(), theirs.child(), theirs.shuffleOrigin(),
        theirs.advisoryPartitionSize(), theirs.pipelined());
  }

  @Override
  public String nodeName() {
    return "LwmqExchange";
  }

  @Override
  public boolean supportsColumnar() {
    return true;
  }

  /** What the map tasks get: rows, or column batches whatever the type says. Spark asks more than once. */
  @Override
  @SuppressWarnings("unchecked")
  public synchronized RDD<InternalRow> inputRDD() {
    if (input == null) {
      input = child().supportsColumnar() ? (RDD<InternalRow>) (RDD<?>) child().executeColumnar() : child().execute();
    }
    return input;
  }

  private RDD<InternalRow> inputRows() {
    return child().supportsColumnar() ? new ColumnarToRowExec(child()).execute() : inputRDD();
  }

  @Override
  public synchronized ShuffleDependency<Object, InternalRow, InternalRow> shuffleDependency() {
    if (dependency == null) {
      Seq<Attribute> columns = child().output();
      Serializer unused = new UnsafeRowSerializer(columns.size(), null);
      dependency = new ExchangeDependency(
          LwmqShuffleManager.door(),
          inputRDD(),
          schemaOf(columns),
          RowPartitioner.of(outputPartitioning(), columns, this::inputRows),
          child().supportsColumnar(),
          unused,
          ShuffleExchangeExec.createShuffleWriteProcessor(metrics()),
          metrics().apply("dataSize"));
      show(this, "numPartitions", dependency.partitioner().numPartitions());
    }
    return dependency;
  }

  /** Sets a metric of {@code node} that the driver knows, and shows it in the SQL tab. */
  static void show(SparkPlan node, String name, long value) {
    SQLMetric metric = node.metrics().apply(name);
    metric.set(value);
    SQLMetrics.postDriverMetricUpdates(
        node.sparkContext(),
        node.sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY()),
        CollectionConverters.asScala(List.of(metric)).toSeq());
  }

  /** The types of {@code attributes}. Names may be equal in a plan, so the columns are numbered. */
  static StructType schemaOf(Seq<Attribute> attributes) {
    List<Attribute> all = CollectionConverters.asJava(attributes);
    StructField[] fields = new StructField[all.size()];
    for (int i = 0; i < fields.length; i++) {
      Attribute attribute = all.get(i);
      fields[i] = new StructField("c" + i, attribute.dataType(), true, attribute.metadata());
    }
    return new StructType(fields);
  }

  @Override
  public RDD<InternalRow> getShuffleRDD(ShufflePartitionSpec[] specs) {
    return new ExchangeRdd((ExchangeDependency) shuffleDependency(), metrics(), specs);
  }

  @Override
  @SuppressWarnings("unchecked")
  public RDD<ColumnarBatch> doExecuteColumnar() {
    return (RDD<ColumnarBatch>) (RDD<?>) new ExchangeRdd((ExchangeDependency) shuffleDependency(), metrics());
  }

  @Override
  public RDD<InternalRow> doExecute() {
    throw new IllegalStateException("an LwmqExchange gives column batches, and was asked for rows");
  }

  /** Not equal to Spark's exchange of the same rows: a rule that replaces one by the other would change nothing. */
  @Override
  public boolean canEqual(Object other) {
    return other instanceof LwmqExchangeExec;
  }

  @Override
  public boolean equals(Object other) {
    return canEqual(other) && super.equals(other);
  }

  @Override
  public int hashCode() {
    return 31 + super.hashCode();
  }

  @Override
  public LwmqExchangeExec withNewChildInternal(SparkPlan newChild) {
    return new LwmqExchangeExec(
        outputPartitioning(), newChild, shuffleOrigin(), advisoryPartitionSize(), pipelined());
  }
}
