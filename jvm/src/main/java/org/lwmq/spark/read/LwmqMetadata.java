package org.lwmq.spark.read;

import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import org.lwmq.core.Batch;
import org.lwmq.spark.batch.VectorFactory;
import org.lwmq.spark.batch.WindowColumnVector;

/** Columns that every stream has. They are hidden unless selected; a field of the stream with the same name wins. */
public final class LwmqMetadata implements MetadataColumn {
  private static final long NANOS_PER_MICRO = 1000;

  /** The value of a column in all rows of a batch. */
  private interface Value {
    Object of(String uri, Batch batch);
  }

  private static final LwmqMetadata[] ALL = {
    new LwmqMetadata(
        "_endpoint", DataTypes.StringType, "address of the stream", (uri, batch) -> UTF8String.fromString(uri)),
    new LwmqMetadata(
        "_partition", DataTypes.IntegerType, "partition of the stream", (uri, batch) -> batch.partition()),
    new LwmqMetadata(
        "_seq", DataTypes.LongType, "sequence number of the batch in its partition", (uri, batch) -> batch.seq()),
    new LwmqMetadata(
        "_timestamp", DataTypes.TimestampType, "when the batch was published",
        (uri, batch) -> batch.timestampNs() / NANOS_PER_MICRO)
  };

  private final String name;
  private final DataType type;
  private final String comment;
  private final Value value;

  private LwmqMetadata(String name, DataType type, String comment, Value value) {
    this.name = name;
    this.type = type;
    this.comment = comment;
    this.value = value;
  }

  /** All of them. */
  public static MetadataColumn[] all() {
    return ALL.clone();
  }

  /** The column named {@code name}, or null. */
  static LwmqMetadata of(String name) {
    for (LwmqMetadata column : ALL) {
      if (column.name.equals(name)) {
        return column;
      }
    }
    return null;
  }

  /** The column of a batch. */
  WindowColumnVector vector(String uri, Batch batch, int rows) {
    return VectorFactory.constant(type, value.of(uri, batch), rows);
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public DataType dataType() {
    return type;
  }

  @Override
  public boolean isNullable() {
    return false;
  }

  @Override
  public String comment() {
    return comment;
  }
}
