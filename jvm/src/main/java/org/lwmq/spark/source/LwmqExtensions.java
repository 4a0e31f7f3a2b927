package org.lwmq.spark.source;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.AppendDataExec;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * What {@code spark.sql.extensions} names (set by {@code lwmq_spark.session()}): a rule that lets a write to a stream
 * take its plan's column batches as they are, where Spark would turn them into rows. Driver.
 *
 * <p>A plan that ends in rows stays as it is. {@code columnarWrite=false} switches the rule off for one write.
 */
public final class LwmqExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectColumnar(
        new AbstractFunction1<SparkSession, ColumnarRule>() {
          @Override
          public ColumnarRule apply(SparkSession session) {
            return new KeepColumns();
          }
        });
    return BoxedUnit.UNIT;
  }

  private static final class KeepColumns extends ColumnarRule {
    @Override
    public Rule<SparkPlan> postColumnarTransitions() {
      return new KeepColumnsRule();
    }
  }

  /** Runs after Spark has put its transitions in: a write whose child is one had columns to offer. */
  private static final class KeepColumnsRule extends Rule<SparkPlan> {
    @Override
    public SparkPlan apply(SparkPlan plan) {
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
}
