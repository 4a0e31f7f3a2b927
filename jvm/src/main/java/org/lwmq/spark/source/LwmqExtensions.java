package org.lwmq.spark.source;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.internal.StaticSQLConf;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.spark.conf.ColumnarWrite;
import org.lwmq.spark.conf.LwmqWriteConf;
import org.lwmq.spark.shuffle.ExchangeColumnarRule;
import org.lwmq.spark.shuffle.ExchangeRule;
import org.lwmq.spark.write.ColumnarWriteRule;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * What we add to a Spark session whose {@code spark.sql.extensions} names this class, as that of
 * {@code lwmq_spark.session()} does: {@link ColumnarWriteRule} and {@link ExchangeRule}. Driver.
 */
public final class LwmqExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectColumnar(always(new ColumnarWriteRule()));
    extensions.injectColumnar(always(new ExchangeColumnarRule()));
    extensions.injectQueryStagePrepRule(always(new ExchangeRule()));
    return BoxedUnit.UNIT;
  }

  private static <T> AbstractFunction1<SparkSession, T> always(T rule) {
    return new AbstractFunction1<>() {
      @Override
      public T apply(SparkSession session) {
        return rule;
      }
    };
  }

  /** UNSUPPORTED where {@code conf} insists on column batches and the active session does not have this extension. */
  static void check(LwmqWriteConf conf) {
    String name = LwmqExtensions.class.getName();
    String extensions = SparkSession.active().conf().get(StaticSQLConf.SPARK_SESSION_EXTENSIONS().key(), "");
    if (conf.columnarWrite() == ColumnarWrite.TRUE && !extensions.contains(name)) {
      throw new LwmqException(Status.UNSUPPORTED, "option columnarWrite is true, but this session has no rule that "
          + "writes columns: make it with lwmq_spark.session(), or with spark.sql.extensions=" + name
          + "; without the option it writes rows");
    }
  }
}
