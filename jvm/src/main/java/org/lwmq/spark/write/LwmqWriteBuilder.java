package org.lwmq.spark.write;

import static java.util.stream.Collectors.joining;

import java.util.Arrays;
import java.util.function.BiPredicate;
import java.util.function.Consumer;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.StructField;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.spark.batch.StreamSchema;
import org.lwmq.spark.conf.LwmqWriteConf;
import org.lwmq.spark.report.Failures;

/** Builds a write, and refuses before anything has begun what a stream cannot do. Driver. */
public final class LwmqWriteBuilder implements SupportsTruncate {
  private final String table;
  private final LogicalWriteInfo info;
  private final LwmqWriteConf conf;
  private final Consumer<String> ownReads;
  private boolean truncate;

  /**
   * @param table the name of the table, for error texts
   * @param ownReads is called with the address when the query runs, and throws if the query would wait for itself
   */
  public LwmqWriteBuilder(String table, LogicalWriteInfo info, LwmqWriteConf conf, Consumer<String> ownReads) {
    this.table = table;
    this.info = info;
    this.conf = conf;
    this.ownReads = ownReads;
  }

  /** Makes {@link #build} refuse the write: a batch write has nothing in a stream that it could overwrite. */
  @Override
  public WriteBuilder truncate() {
    truncate = true;
    return this;
  }

  @Override
  public Write build() {
    if (truncate) {
      throw Failures.spark(new LwmqException(Status.UNSUPPORTED,
          table + " cannot be overwritten, a stream is only appended to: say .mode(\"append\")"));
    }
    String key = conf.partitionKey() == null ? null : column("partition key", conf.partitionKey());
    String bounds =
        conf.bounds() == null
            ? null
            : Arrays.stream(conf.bounds().split(",")).map(name -> column("bounds", name.strip())).collect(joining(","));
    LwmqWriteConf whole = conf.withColumns(key, bounds);
    return new LwmqWrite(info.schema(), whole, info.queryId(), ownReads);
  }

  /** The column as it is spelled. SCHEMA: there is no such column, or its values are lists, maps or structs. */
  private String column(String what, String name) {
    BiPredicate<String, String> sameName = StreamSchema.sameName();
    return Arrays.stream(info.schema().fields())
        .filter(field -> sameName.test(field.name(), name))
        .filter(field -> field.dataType() instanceof AtomicType)
        .map(StructField::name)
        .findFirst()
        .orElseThrow(() -> Failures.spark(new LwmqException(Status.SCHEMA, "the " + what + " of " + table + " names "
            + name + ", but the rows have no column of that name with single values; they have " + info.schema().sql())));
  }
}
