package org.lwmq.spark.source;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.SessionConfigSupport;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.spark.batch.SparkTypes;
import org.lwmq.spark.conf.GivenOptions;
import org.lwmq.spark.conf.LwmqOptions;
import org.lwmq.spark.conf.LwmqReadConf;
import org.lwmq.spark.read.StreamPositions;
import org.lwmq.spark.report.Failures;

/**
 * The data source {@code format("lwmq")}. Spark finds it through {@code META-INF/services} and makes one for each read
 * or write. Driver.
 *
 * <p>The schema comes from the stream. If the user gives one, it is compared with that of the stream when the read is
 * planned.
 */
public final class LwmqProvider implements TableProvider, DataSourceRegister, SessionConfigSupport {
  /** The positions that {@link #inferSchema} has fixed. The table that is made next has the same. */
  private StreamPositions positions;

  @Override
  public String shortName() {
    return LwmqOptions.FORMAT;
  }

  @Override
  public String keyPrefix() {
    return LwmqOptions.FORMAT;
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return Failures.call(
        () -> {
          GivenOptions.checkTable(options);
          positions = StreamPositions.fix(LwmqReadConf.of(given(options)));
          return SparkTypes.of(positions.schema());
        });
  }

  /**
   * None, because partitions of a stream have no columns. Spark asks in a CREATE TABLE, so its options are checked
   * here.
   */
  @Override
  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    return Failures.call(
        () -> {
          GivenOptions.checkTable(options);
          return new Transform[0];
        });
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return Failures.call(
        () -> {
          CaseInsensitiveStringMap all = new CaseInsensitiveStringMap(properties);
          if (GivenOptions.isOfTable(all) && partitioning.length > 0) {
            throw new LwmqException(
                Status.UNSUPPORTED, "a table of a stream cannot be partitioned by " + partitioning[0].describe()
                    + ": a stream has partitions without names, as many as its option partitions says");
          }
          Map<String, String> ofCatalog = GivenOptions.isOfTable(all) ? properties : Map.of();
          return new LwmqTable(schema, given(all), ofCatalog, positions);
        });
  }

  private static CaseInsensitiveStringMap given(CaseInsensitiveStringMap options) {
    return GivenOptions.isOfTable(options) ? GivenOptions.ofTable(options) : GivenOptions.ofCall(options);
  }
}
