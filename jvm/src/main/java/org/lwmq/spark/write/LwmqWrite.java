package org.lwmq.spark.write;

import java.util.function.Consumer;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.StructType;
import org.lwmq.spark.conf.ColumnarWrite;
import org.lwmq.spark.conf.LwmqWriteConf;
import org.lwmq.spark.conf.StreamColumn;
import org.lwmq.spark.conf.TaskAddress;

/**
 * One planned write of a DataFrame to a stream. Driver.
 *
 * <p>A stream with a partition key gets its rows as {@code repartition(partitions, key)} deals them out: task i of the
 * write has the rows of partition i, and no other.
 */
final class LwmqWrite implements RequiresDistributionAndOrdering {
  private final StructType schema;
  private final LwmqWriteConf conf;
  private final String queryId;
  private final Consumer<String> ownReads;
  private SQLMetric rows; // null: Spark counts them

  LwmqWrite(StructType schema, LwmqWriteConf conf, String queryId, Consumer<String> ownReads) {
    this.schema = schema;
    this.conf = conf;
    this.queryId = queryId;
    this.ownReads = ownReads;
  }

  /** Whether column batches are taken as they are where the plan has them. The option columnarWrite can forbid it. */
  boolean columnsWelcome() {
    return conf.columnarWrite() != ColumnarWrite.FALSE;
  }

  /**
   * Keeps {@code metric}, the number of rows, right for a write in column form, where Spark counts each batch as one
   * row.
   */
  void countRowsIn(SQLMetric metric) {
    rows = metric;
  }

  @Override
  public Distribution requiredDistribution() {
    return conf.partitionKey() == null
        ? Distributions.unspecified()
        : Distributions.clustered(new Expression[] {StreamColumn.reference(conf.partitionKey())});
  }

  @Override
  public int requiredNumPartitions() {
    return conf.partitionKey() == null ? 0 : conf.partitionCount();
  }

  @Override
  public SortOrder[] requiredOrdering() {
    return new SortOrder[0];
  }

  @Override
  public String description() {
    return "lwmq " + conf.uri();
  }

  @Override
  public BatchWrite toBatch() {
    return new LwmqBatchWrite(new WriteJob(schema, conf, queryId), () -> ownReads.accept(TaskAddress.told(conf.uri())), rows);
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return WriteMetrics.all();
  }
}
