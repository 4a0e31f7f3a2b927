package org.lwmq.spark.shuffle;

import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.UnaryOperator;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.RowToColumnarExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.datasources.v2.RealTimeStreamScanExec;
import org.apache.spark.sql.execution.exchange.ENSURE_REQUIREMENTS$;
import org.apache.spark.sql.execution.exchange.REBALANCE_PARTITIONS_BY_COL$;
import org.apache.spark.sql.execution.exchange.REBALANCE_PARTITIONS_BY_NONE$;
import org.apache.spark.sql.execution.exchange.REPARTITION_BY_COL$;
import org.apache.spark.sql.execution.exchange.REPARTITION_BY_NUM$;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleOrigin;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.lwmq.core.LwmqException;
import org.lwmq.spark.batch.BatchEncoder;
import org.lwmq.spark.batch.ColumnSplitter;
import org.lwmq.spark.batch.StreamSchema;
import org.lwmq.spark.conf.LwmqShuffleConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Makes exchanges of a plan ours, where Spark's manager of shuffles is {@link LwmqShuffleManager}. An exchange that
 * stays Spark's has a reason, which the SQL tab shows, and which is logged once for each application. Driver.
 */
public final class ExchangeRule extends Rule<SparkPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(ExchangeRule.class);
  private static final Set<ShuffleOrigin> ORIGINS = Set.of(
      ENSURE_REQUIREMENTS$.MODULE$,
      REPARTITION_BY_COL$.MODULE$,
      REPARTITION_BY_NUM$.MODULE$,
      REBALANCE_PARTITIONS_BY_NONE$.MODULE$,
      REBALANCE_PARTITIONS_BY_COL$.MODULE$);
  private static final int PARTITIONS_MAX = 4096;
  /** Each target of each task needs at least a few hundred bytes for each column. */
  private static final long NODES_TIMES_PARTITIONS_MAX = 200_000;
  private static final Set<String> LOGGED = ConcurrentHashMap.newKeySet();

  @Override
  public SparkPlan apply(SparkPlan plan) {
    if (!isOn() || isRealTime(plan)) {
      return plan;
    }
    return changed(
        plan,
        node -> node.getClass() == ShuffleExchangeExec.class ? replaced((ShuffleExchangeExec) node) : node);
  }

  private static SparkPlan replaced(ShuffleExchangeExec exchange) {
    Optional<String> reason = reason(exchange);
    if (reason.isEmpty()) {
      return LwmqExchangeExec.of(exchange);
    }
    if (LOGGED.add(reason.get())) {
      LOG.warn("lwmq: an exchange stays with Spark's sort shuffle: {}", reason.get());
    }
    return DeclinedExchangeExec.of(exchange, reason.get());
  }

  /** Why the exchange on top of {@code plan} is not ours; empty: it is. Python asks. */
  public static String refusal(SparkPlan plan) {
    if (!isOn()) {
      return LwmqShuffleConf.ENABLED + " is false, or the application runs without our shuffle manager";
    }
    if (plan instanceof InMemoryTableScanExec scan) { // somebody has cached the same rows behind the same exchange
      boolean isOurs = scan.relation().cachedPlan().toString().contains("LwmqExchange");
      return isOurs ? "" : "its rows are cached already, behind Spark's own: unpersist them";
    }
    return plan instanceof ShuffleExchangeExec exchange ? reason(exchange).orElse("") : ""; // without: it has no rows
  }

  /** Real-time mode makes pipelined exchanges of all in its plans, behind this rule. */
  private static boolean isRealTime(SparkPlan plan) {
    return CollectionConverters.asJava(plan.collectLeaves()).stream()
        .anyMatch(leaf -> leaf instanceof RealTimeStreamScanExec);
  }

  private static boolean isOn() {
    return LwmqShuffleManager.isInUse() && SQLConf.get().getConfString(LwmqShuffleConf.ENABLED, "true").equals("true");
  }

  /** Why {@code exchange} stays Spark's; empty: it can be ours. */
  static Optional<String> reason(ShuffleExchangeExec exchange) {
    if (SparkEnv.get().conf().getBoolean("spark.shuffle.service.enabled", false)) {
      return Optional.of("the external shuffle service serves files, and our map outputs are in memory");
    }
    if (!SparkEnv.get().conf().get("spark.master", "local").startsWith("local")) {
      return Optional.of("executors may be on other hosts, which window memory does not reach");
    }
    if (SparkEnv.get().conf().getBoolean("spark.io.encryption.enabled", false)) {
      return Optional.of("spark.io.encryption.enabled wants encrypted files, and ours are not");
    }
    if (exchange.pipelined()) {
      return Optional.of("it is pipelined");
    }
    if (!ORIGINS.contains(exchange.shuffleOrigin())) {
      return Optional.of("a shuffle for " + exchange.shuffleOrigin());
    }
    if (!RowPartitioner.knows(exchange.outputPartitioning())) {
      return Optional.of("partitioning by " + exchange.outputPartitioning().getClass().getSimpleName());
    }
    StructType schema = LwmqExchangeExec.schemaOf(exchange.output());
    if (schema.isEmpty()) {
      return Optional.of("rows without columns");
    }
    for (StructField field : schema.fields()) {
      if (!BatchEncoder.keeps(field.dataType())) {
        return Optional.of("a column of type " + field.dataType().sql());
      }
    }
    try {
      StreamSchema.arrow(schema);
    } catch (LwmqException e) { // such as a struct with two fields of one name
      return Optional.of(e.getMessage());
    }
    int partitions = exchange.outputPartitioning().numPartitions();
    if (partitions > PARTITIONS_MAX) {
      return Optional.of(partitions + " partitions: up to " + PARTITIONS_MAX + " are possible");
    }
    long nodes = BatchEncoder.nodesOf(schema);
    if (nodes * partitions > NODES_TIMES_PARTITIONS_MAX) {
      return Optional.of(nodes + " columns for " + partitions + " partitions would make too many small batches");
    }
    return Optional.empty();
  }

  /**
   * Puts below our exchanges what their map tasks are to run. Spark puts a row-to-column transition there, because our
   * exchanges give columns: they take both. Columns with others inside them become rows where there is
   * more than one partition.
   */
  static SparkPlan withInputs(SparkPlan plan) {
    return changed(plan, node -> node instanceof LwmqExchangeExec exchange ? withInput(exchange) : node);
  }

  private static SparkPlan withInput(LwmqExchangeExec exchange) {
    SparkPlan child = exchange.child() instanceof RowToColumnarExec transition ? transition.child() : exchange.child();
    if (child instanceof LwmqSinkExec) {
      return exchange;
    }
    boolean isSingle = exchange.outputPartitioning() == SinglePartition$.MODULE$;
    if (child.supportsColumnar() && !isSingle && !ColumnSplitter.splits(LwmqExchangeExec.schemaOf(child.output()))) {
      child = new ColumnarToRowExec(child);
    }
    if (SQLConf.get().wholeStageEnabled() && LwmqSinkExec.fits(child, exchange.outputPartitioning())) {
      child = new LwmqSinkExec(child, exchange.outputPartitioning());
    }
    return child == exchange.child() ? exchange : exchange.withNewChildInternal(child);
  }

  /** {@code plan} with each node as {@code change} returns it, from the leaves up. */
  private static SparkPlan changed(SparkPlan plan, UnaryOperator<SparkPlan> change) {
    return plan.transformUp(
        new AbstractPartialFunction<SparkPlan, SparkPlan>() {
          @Override
          public boolean isDefinedAt(SparkPlan node) {
            return true;
          }

          @Override
          public SparkPlan apply(SparkPlan node) {
            return change.apply(node);
          }
        });
  }
}
