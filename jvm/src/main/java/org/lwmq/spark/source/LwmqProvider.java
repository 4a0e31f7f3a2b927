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
import org.lwmq.spark.conf.GivenOptions;
import org.lwmq.spark.conf.LwmqOptions;
import org.lwmq.spark.conf.LwmqReadConf;
import org.lwmq.spark.failure.Failures;
import org.lwmq.spark.vector.SparkTypes;

/**
 * {@code format("lwmq")}. Found through {@code META-INF/services}; lives in the driver, one per read or write.
 *
 * <p>The schema comes from the stream. A schema that the user gives is compared with it when the plan is made.
 */
public final class LwmqProvider implements TableProvider, DataSourceRegister, SessionConfigSupport, NoStreaming {
  /** What {@link #inferSchema} found out, for the table that is made next: both mean the same positions. */
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
    try {
      GivenOptions.checkTable(options);
      positions = StreamPositions.fix(LwmqReadConf.of(given(options)));
      return SparkTypes.of(positions.schema());
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  /** None that Spark would know. Asked for by a CREATE TABLE, which is where a table's options are checked. */
  @Override
  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    try {
      GivenOptions.checkTable(options);
      return new Transform[0];
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    try {
      CaseInsensitiveStringMap all = new CaseInsensitiveStringMap(properties);
      if (GivenOptions.isOfTable(all) && partitioning.length > 0) {
        throw LwmqTable.unpartitioned("a table of a stream cannot be partitioned by " + partitioning[0].describe());
      }
      Map<String, String> ofCatalog = GivenOptions.isOfTable(all) ? properties : Map.of();
      return new LwmqTable(schema, given(all), ofCatalog, positions);
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  private static CaseInsensitiveStringMap given(CaseInsensitiveStringMap options) {
    return GivenOptions.isOfTable(options) ? GivenOptions.ofTable(options) : GivenOptions.ofCall(options);
  }
}
