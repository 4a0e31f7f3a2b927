package org.lwmq.spark.shuffle;

import org.apache.spark.ShuffleDependency;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleOrigin;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import scala.Option;
import scala.collection.immutable.Map;

/** Spark's own exchange where ours cannot be. In the SQL tab it has the reason among its metrics. Driver. */
public final class DeclinedExchangeExec extends ShuffleExchangeExec {
  private final String reason; // null: Spark has made the copy, to compare plans
  private transient Map<String, SQLMetric> metrics;
  private transient boolean isCounted;

  /** As {@link ShuffleExchangeExec}; Spark copies a plan through this constructor. */
  public DeclinedExchangeExec(
      Partitioning outputPartitioning,
      SparkPlan child,
      ShuffleOrigin shuffleOrigin,
      Option<Object> advisoryPartitionSize,
      boolean pipelined) {
    this(outputPartitioning, child, shuffleOrigin, advisoryPartitionSize, pipelined, null);
  }

  private DeclinedExchangeExec(
      Partitioning outputPartitioning,
      SparkPlan child,
      ShuffleOrigin shuffleOrigin,
      Option<Object> advisoryPartitionSize,
      boolean pipelined,
      String reason) {
    super(outputPartitioning, child, shuffleOrigin, advisoryPartitionSize, pipelined);
    this.reason = reason;
  }

  static DeclinedExchangeExec of(ShuffleExchangeExec theirs, String reason) {
    return new DeclinedExchangeExec(theirs.outputPartitioning(), theirs.child(), theirs.shuffleOrigin(),
        theirs.advisoryPartitionSize(), theirs.pipelined(), reason);
  }

  @Override
  public String nodeName() {
    return "Exchange";
  }

  @Override
  @SuppressWarnings("unchecked") // Scala's updated() is raw to Java
  public synchronized Map<String, SQLMetric> metrics() {
    if (metrics == null) {
      metrics = super.metrics();
      if (reason != null) {
        SQLMetric one = SQLMetrics.createMetric(sparkContext(), "stays with Spark's shuffle: " + reason);
        metrics = (Map<String, SQLMetric>) metrics.updated("declined", one);
      }
    }
    return metrics;
  }

  @Override
  public synchronized ShuffleDependency<Object, InternalRow, InternalRow> shuffleDependency() {
    if (reason != null && !isCounted) { // Spark asks more than once
      isCounted = true;
      LwmqExchangeExec.show(this, "declined", 1);
    }
    return super.shuffleDependency();
  }

  @Override
  public DeclinedExchangeExec withNewChildInternal(SparkPlan newChild) {
    return new DeclinedExchangeExec(
        outputPartitioning(), newChild, shuffleOrigin(), advisoryPartitionSize(), pipelined(), reason);
  }
}
