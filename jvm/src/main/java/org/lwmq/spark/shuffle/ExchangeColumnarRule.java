package org.lwmq.spark.shuffle;

import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.SparkPlan;

/**
 * Applies {@link ExchangeRule} to plans without adaptive execution, and puts the inputs of our exchanges below them in all plans. Driver.
 *
 * <p>An adaptive plan has our exchanges before: Spark asks a stage whether it gives columns before it gets here.
 */
public final class ExchangeColumnarRule extends ColumnarRule {
  @Override
  public Rule<SparkPlan> preColumnarTransitions() {
    return new ExchangeRule();
  }

  @Override
  public Rule<SparkPlan> postColumnarTransitions() {
    return new Rule<>() {
      @Override
      public SparkPlan apply(SparkPlan plan) {
        return ExchangeRule.withInputs(plan);
      }
    };
  }
}
