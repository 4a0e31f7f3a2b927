package org.lwmq.spark.source;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.plans.logical.AddColumns;
import org.apache.spark.sql.catalyst.plans.logical.AlterTableCommand;
import org.apache.spark.sql.catalyst.plans.logical.DropColumns;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.RenameColumn;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceColumns;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.AppendDataExec;
import org.lwmq.core.Status;
import org.lwmq.spark.failure.Failures;
import scala.Function1;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * What {@code spark.sql.extensions} names (set by {@code lwmq_spark.session()}). Driver.
 *
 * <p>One rule lets a write to a stream take its plan's column batches as they are, where Spark would turn them into rows. A
 * plan that ends in rows stays as it is. {@code columnarWrite=false} switches the rule off for one write. Another one
 * refuses to change the columns of a table.
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
    extensions.injectCheckRule(
        new AbstractFunction1<SparkSession, Function1<LogicalPlan, BoxedUnit>>() {
          @Override
          public Function1<LogicalPlan, BoxedUnit> apply(SparkSession session) {
            return new ColumnsStay();
          }
        });
    return BoxedUnit.UNIT;
  }

  /** Spark's catalog would change the columns of a table, and the table would not fit its stream any more. */
  private static final class ColumnsStay extends AbstractFunction1<LogicalPlan, BoxedUnit> {
    @Override
    public BoxedUnit apply(LogicalPlan plan) {
      boolean changesColumns = plan instanceof AddColumns || plan instanceof ReplaceColumns || plan instanceof DropColumns
          || plan instanceof RenameColumn;
      if (changesColumns
          && ((AlterTableCommand) plan).table() instanceof ResolvedTable resolved
          && resolved.table() instanceof LwmqTable table) {
        throw Failures.spark(Status.UNSUPPORTED, "the columns of " + table.name() + " are those of its stream, which the first "
            + "producer has declared: DROP TABLE, which leaves the stream, and CREATE TABLE with the columns that it has");
      }
      return BoxedUnit.UNIT;
    }
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
