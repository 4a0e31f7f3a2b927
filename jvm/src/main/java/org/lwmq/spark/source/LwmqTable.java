package org.lwmq.spark.source;

import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.lwmq.spark.conf.GivenOptions;
import org.lwmq.spark.conf.LwmqOptions;
import org.lwmq.spark.conf.LwmqReadConf;
import org.lwmq.spark.conf.LwmqWriteConf;
import org.lwmq.spark.conf.StreamColumn;
import org.lwmq.spark.read.LwmqMetadata;
import org.lwmq.spark.read.LwmqScanBuilder;
import org.lwmq.spark.read.OwnReads;
import org.lwmq.spark.read.StreamPositions;
import org.lwmq.spark.report.Failures;
import org.lwmq.spark.write.LwmqWriteBuilder;

/**
 * A stream as a table. Reads get certain batches of it, writes append to it. Driver.
 *
 * <p>It asks the endpoint for reads only, and once, so that every scan of this table reads the same batches.
 */
final class LwmqTable implements SupportsRead, SupportsWrite, SupportsMetadataColumns {
  private final StructType schema;
  private final CaseInsensitiveStringMap options;
  private final Map<String, String> ofCatalog;
  private final StreamPositions inferred;

  /** The positions by the options of the read, since {@code SELECT … FROM t WITH (…)} has options of its own. */
  private final Map<CaseInsensitiveStringMap, StreamPositions> fixed = new HashMap<>();

  /**
   * @param schema inferred from the stream, given by the user, of the DataFrame to write, or of the catalog; all fields
   *     become nullable, as in Spark's file sources
   * @param options as {@link GivenOptions} returns them
   * @param ofCatalog the properties in Spark's catalog; empty: the table is made for the one read or write that
   *     {@code options} belong to
   * @param inferred the positions, if the schema was inferred; else null
   */
  LwmqTable(
      StructType schema, CaseInsensitiveStringMap options, Map<String, String> ofCatalog, StreamPositions inferred) {
    this.schema = schema.asNullable();
    this.options = options;
    this.ofCatalog = ofCatalog;
    this.inferred = inferred;
  }

  @Override
  public String name() {
    return "lwmq " + options.getOrDefault(LwmqOptions.URI, "");
  }

  @Override
  @SuppressWarnings("deprecation") // columns() by default comes from here
  public StructType schema() {
    return schema;
  }

  /** For DESCRIBE and SHOW CREATE TABLE. */
  @Override
  public Map<String, String> properties() {
    return ofCatalog;
  }

  /** For DESCRIBE: the partitions of a stream with a partition key. */
  @Override
  public Transform[] partitioning() {
    String key = ofCatalog.get(LwmqOptions.PARTITION_KEY);
    return key == null
        ? new Transform[0]
        : new Transform[] {StreamColumn.bucket(LwmqWriteConf.of(options).partitionCount(), key)};
  }

  @Override
  public Set<TableCapability> capabilities() {
    Set<TableCapability> can =
        EnumSet.of(TableCapability.BATCH_READ, TableCapability.BATCH_WRITE, TableCapability.TRUNCATE);
    // For a save, whose schema is that of the DataFrame. In an INSERT Spark casts values to the types of this table.
    if (ofCatalog.isEmpty() && inferred == null) {
      can.add(TableCapability.ACCEPT_ANY_SCHEMA);
    }
    return can;
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    return LwmqMetadata.all();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap scanOptions) {
    return Failures.call(
        () -> {
          CaseInsensitiveStringMap given = given(scanOptions);
          LwmqReadConf conf = LwmqReadConf.of(given);
          StreamPositions positions = positions(given, conf);
          return new LwmqScanBuilder(name(), schema, conf.at(positions.uri()), positions);
        });
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return Failures.call(
        () -> {
          LwmqWriteConf conf = LwmqWriteConf.of(given(info.options()));
          LwmqExtensions.check(conf);
          return new LwmqWriteBuilder(name(), info, conf, OwnReads::check);
        });
  }

  private CaseInsensitiveStringMap given(CaseInsensitiveStringMap ofThisUse) {
    return ofCatalog.isEmpty() ? options : GivenOptions.over(options, ofThisUse);
  }

  private synchronized StreamPositions positions(CaseInsensitiveStringMap given, LwmqReadConf conf) {
    return inferred != null ? inferred : fixed.computeIfAbsent(given, all -> {
      StreamPositions positions = StreamPositions.fix(conf);
      positions.check(schema, name());
      return positions;
    });
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LwmqTable that
        && schema.equals(that.schema)
        && options.equals(that.options)
        && ofCatalog.equals(that.ofCatalog)
        && Objects.equals(inferred, that.inferred)
        && fixed.equals(that.fixed);
  }

  @Override
  public int hashCode() {
    return 31 * schema.hashCode() + options.hashCode();
  }
}
