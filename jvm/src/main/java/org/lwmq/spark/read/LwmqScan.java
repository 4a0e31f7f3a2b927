package org.lwmq.spark.read;

import static java.util.stream.Collectors.joining;

import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportPartitioning;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.partitioning.KeyGroupedPartitioning;
import org.apache.spark.sql.connector.read.partitioning.Partitioning;
import org.apache.spark.sql.connector.read.partitioning.UnknownPartitioning;
import org.apache.spark.sql.types.StructType;
import org.lwmq.core.Filter;
import org.lwmq.spark.batch.SparkTypes;
import org.lwmq.spark.conf.LwmqReadConf;
import org.lwmq.spark.conf.StreamColumn;

/**
 * One read of certain columns of certain batches. Driver.
 *
 * <p>A value: two scans with the same columns, limit and positions are equal, so that Spark reads a stream once for a
 * self-join.
 *
 * @param columns the columns as Spark knows them
 * @param found the same columns as the stream has them
 * @param filters of the query, by which batches are passed over; Spark evaluates them again for each row
 */
record LwmqScan(
    StructType columns, StreamColumns found, int limit, List<Filter> filters, LwmqReadConf conf, StreamPositions positions)
    implements Scan, SupportsReportPartitioning, SupportsReportStatistics {

  static final int NO_LIMIT = -1;

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  public String description() {
    String skipping = filters.stream().map(Filter::column).distinct().collect(joining(", "));
    return "lwmq " + conf.uri() + (limit == NO_LIMIT ? "" : " limit " + limit)
        + (skipping.isEmpty() ? "" : ", skips batches by " + skipping);
  }

  /** All partitions are columnar. Spark need not plan them to find that out. */
  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public Batch toBatch() {
    return new LwmqBatch(this);
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return ReadMetrics.all();
  }

  /**
   * By the buckets of the partition key, if each task reads one partition whole, so that joins and aggregations by the
   * key need no exchange. A scan of an unfinished stream, or of one with a limit, has tasks that read several.
   */
  @Override
  public Partitioning outputPartitioning() {
    String key = positions.isFinished() && limit == NO_LIMIT ? positions.partitionKey() : null;
    int partitions = positions.ranges().size();
    if (key == null || columns.getFieldIndex(key).isEmpty()) {
      return new UnknownPartitioning(partitions);
    }
    return new KeyGroupedPartitioning(new Expression[] {StreamColumn.bucket(partitions, key)}, partitions);
  }

  /** For a finished stream the exact rows, and bytes in proportion to the columns; unknown while the stream grows. */
  @Override
  public Statistics estimateStatistics() {
    OptionalLong bytes = positions.bytes();
    if (bytes.isPresent()) {
      int all = SparkTypes.of(positions.schema()).defaultSize();
      int read = Math.min(columns.defaultSize(), all);
      bytes = OptionalLong.of((long) (bytes.getAsLong() * ((double) read / Math.max(all, 1))));
    }
    return new ScanStatistics(bytes, positions.rows());
  }

  private record ScanStatistics(OptionalLong sizeInBytes, OptionalLong numRows) implements Statistics {}
}
