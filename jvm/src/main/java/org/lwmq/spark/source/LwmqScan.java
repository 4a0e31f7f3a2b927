package org.lwmq.spark.source;

import java.util.OptionalLong;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.StructType;
import org.lwmq.spark.conf.LwmqReadConf;
import org.lwmq.spark.vector.SparkTypes;

/**
 * One read of certain columns of certain batches. Driver only.
 *
 * <p>A value: two scans of the same columns, limit and positions are equal, so that Spark reads once what a self-join
 * needs twice.
 *
 * @param columns the columns as Spark knows them
 * @param found the same columns as the stream has them
 */
record LwmqScan(StructType columns, StreamColumns found, int limit, LwmqReadConf conf, StreamPositions positions)
    implements Scan, SupportsReportStatistics {

  static final int NO_LIMIT = -1;

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  public String description() {
    return "lwmq " + conf.uri() + (limit == NO_LIMIT ? "" : " limit " + limit);
  }

  /** Always; saying so spares Spark planning the partitions just to ask. */
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

  /** Exact for a finished stream, in proportion to the columns; unknown while it grows. */
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
