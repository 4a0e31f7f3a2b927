package org.lwmq.spark.source;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.StructType;
import org.lwmq.spark.conf.ColumnarWrite;
import org.lwmq.spark.conf.LwmqWriteConf;

/** One planned write of a DataFrame to a stream. Driver. */
final class LwmqWrite implements Write {
  private final StructType schema;
  private final LwmqWriteConf conf;
  private final String queryId;
  private SQLMetric rows; // null where Spark counts them itself

  LwmqWrite(StructType schema, LwmqWriteConf conf, String queryId) {
    this.schema = schema;
    this.conf = conf;
    this.queryId = queryId;
  }

  /** Whether column batches may be taken as they are where the plan has them (not with columnarWrite=false). */
  boolean columnsWelcome() {
    return conf.columnarWrite() != ColumnarWrite.FALSE;
  }

  /**
   * For a write in column form, of which Spark counts what it hands over, batches, as rows: sets {@code metric}, its
   * number of rows, right.
   */
  void countRowsIn(SQLMetric metric) {
    rows = metric;
  }

  @Override
  public String description() {
    return "lwmq " + conf.uri();
  }

  @Override
  public BatchWrite toBatch() {
    return new LwmqBatchWrite(conf.uri(), new WriteJob(schema, conf, queryId), rows);
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return WriteMetrics.all();
  }
}
