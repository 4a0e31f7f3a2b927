package org.lwmq.spark.shuffle;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.SparkPlan;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** Makes exchanges of a session's plans ours ({@code spark.sql.extensions}). Driver. */
public final class ExchangeExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    // Adaptive plans: Spark asks a stage whether it gives columns before it gets to the columnar rules.
    extensions.injectQueryStagePrepRule(
        new AbstractFunction1<SparkSession, Rule<SparkPlan>>() {
          @Override
          public Rule<SparkPlan> apply(SparkSession session) {
            return new ExchangeRule();
          }
        });
    extensions.injectColumnar(
        new AbstractFunction1<SparkSession, ColumnarRule>() {
          @Override
          public ColumnarRule apply(SparkSession session) {
            return new ExchangeColumnarRule();
          }
        });
    return BoxedUnit.UNIT;
  }
}
