package org.lwmq.spark.shuffle;

import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.UnaryOperator;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.RowToColumnarExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
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
import org.lwmq.spark.batch.BatchEncoder;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.runtime.AbstractPartialFunction;

/**
 * Makes exchanges of a plan ours, where Spark's manager of shuffles is {@link LwmqShuffleManager}. An exchange that
 * stays Spark's has a reason, which is logged once for each application. Driver.
 */
public final class ExchangeRule extends Rule<SparkPlan> {
  private static final Logger LOG = LoggerFactory.getLogger(ExchangeRule.class);
  private static final Set<ShuffleOrigin> ORIGINS = Set.of(
      ENSURE_REQUIREMENTS$.MODULE$,
      REPARTITION_BY_COL$.MODULE$,
      REPARTITION_BY_NUM$.MODULE$,
      REBALANCE_PARTITIONS_BY_NONE$.MODULE$,
      REBALANCE_PARTITIONS_BY_COL$.MODULE$);
  /** Each target of each task needs at least a few hundred bytes for each column. */
  private static final long NODES_TIMES_PARTITIONS_MAX = 200_000;
  private static final Set<String> LOGGED = ConcurrentHashMap.newKeySet();

  @Override
  public SparkPlan apply(SparkPlan plan) {
    if (!isOn()) {
      return plan;
    }
    return changed(
        plan,
        node -> node instanceof ShuffleExchangeExec exchange && !(node instanceof LwmqExchangeExec)
            ? replaced(exchange)
            : node);
  }

  private static SparkPlan replaced(ShuffleExchangeExec exchange) {
    Optional<String> reason = reason(exchange);
    if (reason.isEmpty()) {
      return LwmqExchangeExec.of(exchange);
    }
    if (LOGGED.add(reason.get())) {
      LOG.info("lwmq: an exchange stays with Spark's sort shuffle: {}", reason.get());
    }
    return exchange;
  }

  /** Why the exchange on top of {@code plan} is not ours; empty: it is. Python asks. */
  public static String refusal(SparkPlan plan) {
    if (!isOn()) {
      return ExchangeConf.ENABLED + " is false, or the application runs without our shuffle manager";
    }
    if (plan instanceof InMemoryTableScanExec scan) { // somebody has cached the same rows behind the same exchange
      boolean isOurs = scan.relation().cachedPlan().toString().contains("LwmqExchange");
      return isOurs ? "" : "its rows are cached already, behind Spark's own: unpersist them";
    }
    return plan instanceof ShuffleExchangeExec exchange ? reason(exchange).orElse("") : "there is no exchange in its plan";
  }

  private static boolean isOn() {
    return LwmqShuffleManager.isInUse() && SQLConf.get().getConfString(ExchangeConf.ENABLED, "true").equals("true");
  }

  /** Why {@code exchange} stays Spark's; empty: it can be ours. */
  static Optional<String> reason(ShuffleExchangeExec exchange) {
    if (SparkEnv.get().conf().getBoolean("spark.shuffle.service.enabled", false)) {
      return Optional.of("the external shuffle service serves files, and our map outputs are in memory");
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
    int partitions = exchange.outputPartitioning().numPartitions();
    long nodes = BatchEncoder.nodesOf(schema);
    if (nodes * partitions > NODES_TIMES_PARTITIONS_MAX) {
      return Optional.of(nodes + " columns for " + partitions + " partitions would make too many small batches");
    }
    return Optional.empty();
  }

  /** Takes out the row-to-column transitions that Spark inserts below our exchanges, which take rows as well. */
  static SparkPlan withoutTransitions(SparkPlan plan) {
    return changed(
        plan,
        node -> node instanceof LwmqExchangeExec exchange && exchange.child() instanceof RowToColumnarExec transition
            ? exchange.withNewChildInternal(transition.child())
            : node);
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
