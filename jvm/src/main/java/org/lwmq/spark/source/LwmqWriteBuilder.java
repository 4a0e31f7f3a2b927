package org.lwmq.spark.source;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.internal.StaticSQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.spark.conf.ColumnarWrite;
import org.lwmq.spark.conf.LwmqWriteConf;
import org.lwmq.spark.failure.Failures;

/** Refuses what a stream cannot do, before anything of a write has begun. Driver. */
final class LwmqWriteBuilder implements SupportsTruncate {
  private final LwmqTable table;
  private final LogicalWriteInfo info;
  private final CaseInsensitiveStringMap options;
  private boolean truncate;

  LwmqWriteBuilder(LwmqTable table, LogicalWriteInfo info, CaseInsensitiveStringMap options) {
    this.table = table;
    this.info = info;
    this.options = options;
  }

  /** Meant for complete output mode alone: there is nothing in a stream that a batch could overwrite. */
  @Override
  public WriteBuilder truncate() {
    truncate = true;
    return this;
  }

  @Override
  public Write build() {
    try {
      if (truncate) {
        throw new LwmqException(Status.UNSUPPORTED,
            table.name() + " cannot be overwritten, a stream is only appended to: say .mode(\"append\")");
      }
      LwmqWriteConf conf = LwmqWriteConf.of(options);
      if (conf.columnarWrite() == ColumnarWrite.TRUE && !isExtended()) {
        throw new LwmqException(Status.UNSUPPORTED, "option columnarWrite is true, but this session has no rule that "
            + "writes columns: make it with lwmq_spark.session(), or with spark.sql.extensions="
            + LwmqExtensions.class.getName() + "; without the option it writes rows");
      }
      return new LwmqWrite(info.schema(), conf, info.queryId());
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  /** Whether the session has {@link LwmqExtensions}, whose rule keeps columns within Spark's own write. */
  private static boolean isExtended() {
    String extensions = SparkSession.active().conf().get(StaticSQLConf.SPARK_SESSION_EXTENSIONS().key(), "");
    return extensions.contains(LwmqExtensions.class.getName());
  }
}
