package org.lwmq.spark.source;

import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructType;
import org.lwmq.spark.conf.LwmqReadConf;

/** Takes the columns and the limit that Spark pushes down. Driver only. */
final class LwmqScanBuilder implements SupportsPushDownRequiredColumns, SupportsPushDownLimit {
  private final LwmqReadConf conf;
  private final StreamPositions positions;
  private StructType columns;
  private int limit = LwmqScan.NO_LIMIT;

  LwmqScanBuilder(StructType columns, LwmqReadConf conf, StreamPositions positions) {
    this.columns = columns;
    this.conf = conf;
    this.positions = positions;
  }

  @Override
  public void pruneColumns(StructType required) {
    columns = required;
  }

  /** Each task stops after {@code rows}; Spark still cuts what the tasks bring together. */
  @Override
  public boolean pushLimit(int rows) {
    limit = rows;
    return true;
  }

  @Override
  public boolean isPartiallyPushed() {
    return true;
  }

  @Override
  public Scan build() {
    return new LwmqScan(columns, limit, conf, positions);
  }
}
