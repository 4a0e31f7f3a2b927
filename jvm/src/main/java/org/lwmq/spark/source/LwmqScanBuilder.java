package org.lwmq.spark.source;

import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructType;
import org.lwmq.core.LwmqException;
import org.lwmq.spark.conf.LwmqReadConf;
import org.lwmq.spark.failure.Failures;

/** Takes the columns and the limit that Spark pushes down, and finds these columns in the stream. Driver only. */
final class LwmqScanBuilder implements SupportsPushDownRequiredColumns, SupportsPushDownLimit {
  private final String name;
  private final StructType table;
  private final LwmqReadConf conf;
  private final StreamPositions positions;
  private StructType columns;
  private int limit = LwmqScan.NO_LIMIT;

  /** {@code name} and {@code table} are the name of the table and its fields. */
  LwmqScanBuilder(String name, StructType table, LwmqReadConf conf, StreamPositions positions) {
    this.name = name;
    this.table = table;
    this.columns = table;
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
    try {
      StreamColumns found = StreamColumns.find(columns, table, positions.schema(), name);
      return new LwmqScan(columns, found, limit, conf, positions);
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }
}
