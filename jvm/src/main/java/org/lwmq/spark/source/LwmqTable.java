package org.lwmq.spark.source;

import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
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
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.spark.conf.GivenOptions;
import org.lwmq.spark.conf.LwmqOptions;
import org.lwmq.spark.conf.LwmqReadConf;
import org.lwmq.spark.failure.Failures;

/**
 * A stream as a table: reads get certain batches of the stream, writes append at its end. Lives in the driver. Any
 * number of threads at once.
 *
 * <p>Asks the endpoint only for reads, and once for all reads with the same options: each of their scans then means the
 * same batches.
 */
final class LwmqTable implements SupportsRead, SupportsWrite, SupportsMetadataColumns {
  private final StructType schema;
  private final CaseInsensitiveStringMap options;
  private final Map<String, String> ofCatalog;
  private final StreamPositions inferred;

  /**
   * The positions for each set of read options: those of the table, and those of a read with its own, as in
   * {@code SELECT … FROM t WITH (…)}. Not part of the table's identity: Spark finds cached data by the plan's tables.
   */
  private final Map<CaseInsensitiveStringMap, StreamPositions> fixed = new ConcurrentHashMap<>();

  /**
   * @param schema of the stream: inferred, given by the user, of the DataFrame to write, or of the catalog. Its
   *     {@code NOT NULL} is not trusted, as in Spark's file sources
   * @param options as {@link GivenOptions} has them
   * @param ofCatalog what Spark's catalog says about the table; empty: it is for one read or write, to which
   *     {@code options} belong
   * @param inferred the stream's positions if the schema was inferred, else null
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

  /** For a save, Spark calls this only if {@code partitionBy} or the like was used; for a read, after the scan. */
  @Override
  public Transform[] partitioning() {
    if (ofCatalog.isEmpty() && inferred == null && fixed.isEmpty()) {
      throw Failures.spark(unpartitioned("partitionBy, bucketBy and clusterBy are not for streams"));
    }
    return new Transform[0];
  }

  static LwmqException unpartitioned(String why) {
    return new LwmqException(
        Status.UNSUPPORTED, why + ": a stream has partitions without names, as many as its option partitions says");
  }

  @Override
  public Set<TableCapability> capabilities() {
    Set<TableCapability> can =
        EnumSet.of(TableCapability.BATCH_READ, TableCapability.BATCH_WRITE, TableCapability.TRUNCATE);
    // Of a save, whose schema is the DataFrame's. The values of an INSERT are cast to those of the catalog or the stream.
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
    try {
      CaseInsensitiveStringMap given = given(scanOptions);
      LwmqReadConf conf = LwmqReadConf.of(given);
      return new LwmqScanBuilder(name(), schema, conf, positions(given, conf));
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    try {
      return new LwmqWriteBuilder(this, info, given(info.options()));
    } catch (LwmqException e) {
      throw Failures.spark(e);
    }
  }

  private CaseInsensitiveStringMap given(CaseInsensitiveStringMap ofThisUse) {
    return ofCatalog.isEmpty() ? options : GivenOptions.over(options, ofThisUse);
  }

  private StreamPositions positions(CaseInsensitiveStringMap given, LwmqReadConf conf) {
    return inferred != null ? inferred : fixed.computeIfAbsent(given, all -> {
      StreamPositions positions = StreamPositions.fix(conf);
      StreamColumns.check(schema, positions.schema(), name());
      return positions;
    });
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LwmqTable that
        && schema.equals(that.schema)
        && options.equals(that.options)
        && ofCatalog.equals(that.ofCatalog)
        && (inferred == that.inferred || isFinishedAs(that.inferred));
  }

  /** Two reads with an open end are not the same: more may have been written before the second. */
  private boolean isFinishedAs(StreamPositions other) {
    return inferred != null && inferred.isFinished() && inferred.equals(other);
  }

  @Override
  public int hashCode() {
    return 31 * schema.hashCode() + options.hashCode();
  }
}
