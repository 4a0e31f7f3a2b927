package org.lwmq.spark.catalog;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfoImpl;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.spark.conf.GivenOptions;
import org.lwmq.spark.conf.LwmqOptions;

/** What a CREATE TABLE says about a stream. Driver. */
final class Declaration {
  /** The options that belong to a stream. All others belong to a read or a write. */
  private static final List<String> OF_STREAM =
      List.of(LwmqOptions.PARTITIONS, LwmqOptions.PARTITION_KEY, LwmqOptions.BOUNDS, LwmqOptions.RETAIN, LwmqOptions.READERS);

  private final TableInfo info;
  private final CaseInsensitiveStringMap said;
  private final Map<String, String> properties;

  /** INVALID, UNSUPPORTED: a stream cannot be what {@code info} says. */
  Declaration(Identifier table, TableInfo info) {
    this.info = info;
    said = new CaseInsensitiveStringMap(info.properties());
    properties = FoundStream.properties(StreamNames.address(table));
    checkProperties();
    for (String name : OF_STREAM) {
      if (said.containsKey(name)) {
        properties.put(name, said.get(name));
      }
    }
    for (Transform transform : info.partitions()) {
      checkBuckets(transform);
      say(LwmqOptions.PARTITIONS, "number of partitions", ((Literal<?>) transform.arguments()[0]).value());
      say(LwmqOptions.PARTITION_KEY, "partition key", transform.references()[0].fieldNames()[0]);
    }
  }

  /**
   * Declares the stream, as a write of no rows would. If nobody serves the address, this driver does from now on. No
   * producer has come by that: readers wait for the first one.
   */
  Table declare() {
    SupportsWrite table = (SupportsWrite) FoundStream.table(info.schema(), properties);
    LogicalWriteInfoImpl nothing = new LogicalWriteInfoImpl(
        "create table", info.schema(), CaseInsensitiveStringMap.empty(), Optional.empty(), Optional.empty());
    BatchWrite write = table.newWriteBuilder(nothing).build().toBatch();
    write.createBatchWriterFactory(() -> 0);
    write.abort(new WriterCommitMessage[0]);
    return new NewTable(table);
  }

  private void say(String option, String what, Object value) {
    if (properties.put(option, String.valueOf(value)) != null) {
      throw new LwmqException(Status.INVALID, "the " + what + " is given twice: say it once");
    }
  }

  private void checkProperties() {
    String provider = said.getOrDefault(TableCatalog.PROP_PROVIDER, LwmqOptions.FORMAT);
    // saveAsTable passes the default of the session where no format was said.
    if (!List.of(LwmqOptions.FORMAT, SQLConf.get().defaultDataSourceName()).contains(provider)) {
      throw unsupported("USING " + provider + " is not possible, because tables of this catalog are streams");
    }
    if (said.containsKey(TableCatalog.PROP_LOCATION)) {
      throw unsupported("LOCATION is not possible, because the name of a stream is its address");
    }
    info.properties().keySet().stream()
        .filter(name -> name.startsWith(TableCatalog.OPTION_PREFIX))
        .map(name -> name.substring(TableCatalog.OPTION_PREFIX.length()))
        .filter(option -> OF_STREAM.stream().noneMatch(option::equalsIgnoreCase))
        .forEach(Declaration::refuse);
  }

  /** Throws the reason why a stream does not take {@code option}. */
  private static void refuse(String option) {
    GivenOptions.checkName(option);
    throw unsupported("option " + option + " does not belong to a stream, as " + String.join(", ", OF_STREAM)
        + " do: give it in a query, SELECT ... FROM ... WITH (" + option
        + " = ...), or to the session as spark.datasource.lwmq." + option);
  }

  private static void checkBuckets(Transform transform) {
    boolean isBucket = transform.name().equals(BucketFunction.NAME) && transform.arguments()[0] instanceof Literal;
    if (!isBucket || transform.references().length != 1 || transform.references()[0].fieldNames().length != 1) {
      throw unsupported("a stream is partitioned by bucket(n, column) alone, not by " + transform.describe());
    }
  }

  private static LwmqException unsupported(String why) {
    return new LwmqException(Status.UNSUPPORTED, why);
  }
}
