package org.lwmq.spark.source;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.types.StructType;
import org.lwmq.spark.conf.LwmqWriteConf;

/** One planned write of a DataFrame to a stream. Driver. */
class LwmqWrite implements Write {
  final StructType schema;
  final LwmqWriteConf conf;
  private final String queryId;
  private final boolean columnsWelcome;

  LwmqWrite(StructType schema, LwmqWriteConf conf, String queryId, boolean columnsWelcome) {
    this.schema = schema;
    this.conf = conf;
    this.queryId = queryId;
    this.columnsWelcome = columnsWelcome;
  }

  /** Whether column batches may be taken as they are where the plan has them (not with columnarWrite=false). */
  final boolean columnsWelcome() {
    return columnsWelcome;
  }

  @Override
  public String description() {
    return "lwmq " + conf.uri();
  }

  @Override
  public BatchWrite toBatch() {
    return new LwmqBatchWrite(new WriteJob(schema, conf, queryId));
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return WriteMetrics.supported();
  }
}
