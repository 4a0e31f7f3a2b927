package org.lwmq.spark.read;

import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;
import org.lwmq.spark.conf.LwmqReadConf;
import org.lwmq.spark.report.Failures;

/** Takes the columns, filters and the limit that Spark pushes down, and finds the columns in the stream. Driver. */
public final class LwmqScanBuilder
    implements SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit {
  private final String name;
  private final StructType table;
  private final LwmqReadConf conf;
  private final StreamPositions positions;
  private StructType columns;
  private BatchFilters filters = BatchFilters.NONE;
  private int limit = LwmqScan.NO_LIMIT;

  /** {@code name} is the name of the table and {@code table} has its fields. */
  public LwmqScanBuilder(String name, StructType table, LwmqReadConf conf, StreamPositions positions) {
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

  /** Takes what batches can be passed over by. Spark evaluates all filters for each row, so none is kept from it. */
  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    filters = BatchFilters.of(predicates, table, positions.schema());
    return predicates;
  }

  @Override
  public Predicate[] pushedPredicates() {
    return filters.predicates().toArray(new Predicate[0]);
  }

  /** Each task stops after {@code rows} rows. Spark applies the limit once more to what all tasks bring. */
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
    return Failures.call(
        () -> {
          StreamColumns found = StreamColumns.find(columns, table, positions.schema(), name);
          return new LwmqScan(columns, found, limit, filters.filters(), conf, positions);
        });
  }
}
