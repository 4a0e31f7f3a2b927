package org.lwmq.spark.source;

import java.util.EnumSet;
import java.util.Objects;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.spark.conf.LwmqOptions;
import org.lwmq.spark.conf.LwmqReadConf;
import org.lwmq.spark.vector.SparkTypes;
import scala.Option;

/**
 * A stream as a table: for reading, certain batches of it; for writing, its end. Lives in the driver.
 *
 * <p>Asks the endpoint only for reading, and only once: every scan of this table means the same batches.
 */
final class LwmqTable implements SupportsRead, SupportsWrite, SupportsMetadataColumns {
  private final StructType schema;
  private final CaseInsensitiveStringMap options;
  private StreamPositions positions;

  /**
   * @param schema of the stream, as inferred, as the user gave it, or of the DataFrame to write
   * @param positions null where they are not known yet
   */
  LwmqTable(StructType schema, CaseInsensitiveStringMap options, StreamPositions positions) {
    this.schema = schema;
    this.options = options;
    this.positions = positions;
  }

  @Override
  public String name() {
    return "lwmq " + options.getOrDefault(LwmqOptions.URI, options.getOrDefault(LwmqOptions.PATH, ""));
  }

  @Override
  @SuppressWarnings("deprecation") // columns() by default comes from here
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(
        TableCapability.BATCH_READ, TableCapability.BATCH_WRITE, TableCapability.TRUNCATE,
        TableCapability.ACCEPT_ANY_SCHEMA);
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    return LwmqMetadata.all();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap scanOptions) {
    try {
      LwmqReadConf conf = LwmqReadConf.of(scanOptions);
      StreamPositions fixed = positions(conf);
      checkSchema(SparkTypes.of(fixed.schema()));
      return new LwmqScanBuilder(schema, conf, fixed);
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new LwmqWriteBuilder(this, info);
  }

  private synchronized StreamPositions positions(LwmqReadConf conf) {
    if (positions == null) { // the user gave the schema
      positions = StreamPositions.fix(conf);
    }
    return positions;
  }

  /** SCHEMA, naming the field and both types, unless every field of the table is one of the stream. */
  private void checkSchema(StructType stream) {
    for (StructField field : schema.fields()) {
      Option<Object> at = stream.getFieldIndex(field.name());
      if (at.isEmpty()) {
        throw new LwmqException(
            Status.SCHEMA, "the schema given has a field " + field.name() + " " + field.dataType().sql() + ", but "
                + name() + " has only " + String.join(", ", stream.fieldNames()));
      }
      StructField there = stream.apply((int) at.get());
      if (!SparkTypes.isStoredAs(field.dataType(), there.dataType()) && !field.dataType().equals(there.dataType())) {
        throw new LwmqException(
            Status.SCHEMA, "field " + field.name() + " is " + there.dataType().sql() + " in " + name() + ", but "
                + field.dataType().sql() + " in the schema given");
      }
    }
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LwmqTable that
        && schema.equals(that.schema)
        && options.equals(that.options)
        && Objects.equals(positions, that.positions);
  }

  @Override
  public int hashCode() {
    return 31 * schema.hashCode() + options.hashCode();
  }
}
