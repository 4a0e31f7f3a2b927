package org.lwmq.spark.write;

import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.AppendDataExec;

/**
 * Lets a write to a stream take the column batches of its plan as they are, where Spark would turn them into rows
 * first. A plan that ends in rows stays as it is. The option {@code columnarWrite=false} switches the rule off for one
 * write. Driver.
 */
public final class ColumnarWriteRule extends ColumnarRule {
  /** Spark has inserted its transitions by then: a write whose child is ColumnarToRow has columns to offer. */
  @Override
  public Rule<SparkPlan> postColumnarTransitions() {
    return new Rule<>() {
      @Override
      public SparkPlan apply(SparkPlan plan) {
        return keepColumns(plan);
      }
    };
  }

  private static SparkPlan keepColumns(SparkPlan plan) {
    if (plan instanceof AppendDataExec append
        && append.write() instanceof LwmqWrite write
        && write.columnsWelcome()
        && append.query() instanceof ColumnarToRowExec transition) {
      AppendDataExec inColumns = append.withNewChildInternal(new ColumnBatchesExec(transition.child()));
      write.countRowsIn(inColumns.numOutputRowsMetric());
      return inColumns;
    }
    return plan;
  }
}
