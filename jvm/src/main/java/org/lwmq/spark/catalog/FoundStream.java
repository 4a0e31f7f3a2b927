package org.lwmq.spark.catalog;

import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.lwmq.arrow.ArrowSchemas;
import org.lwmq.core.Endpoints;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Retain;
import org.lwmq.core.Status;
import org.lwmq.core.StreamState;
import org.lwmq.spark.batch.SparkTypes;
import org.lwmq.spark.batch.StreamSchema;
import org.lwmq.spark.conf.GivenOptions;
import org.lwmq.spark.conf.LwmqOptions;
import org.lwmq.spark.conf.LwmqReadConf;
import org.lwmq.spark.conf.StreamKeys;
import org.lwmq.spark.conf.TaskAddress;
import org.lwmq.spark.source.LwmqProvider;

/**
 * A declared stream as it was when the catalog looked at it. Driver.
 *
 * @param address that the name of the table means
 * @param uri the address with the settings that the session has for its provider
 */
record FoundStream(String address, String uri, StreamState state) {
  /** How long an endpoint that is there may take to answer. */
  static final int ANSWER_MS = 3000;

  private static final Transform[] UNPARTITIONED = {}; // partitions of a stream have no columns

  /** Empty: nobody serves a stream under that name, or nobody has declared its columns. TIMED_OUT: no answer came. */
  static Optional<FoundStream> at(Identifier table, int answerMs) {
    if (!StreamNames.isNamespace(table.namespace())) {
      return Optional.empty();
    }
    String address = StreamNames.address(table);
    String uri = LwmqReadConf.of(GivenOptions.ofTable(new CaseInsensitiveStringMap(properties(address)))).uri();
    StreamKeys.provide(uri);
    return StreamState.find(TaskAddress.told(uri), answerMs)
        .filter(state -> state.state() != StreamState.State.UNDECLARED)
        .map(state -> new FoundStream(address, uri, state));
  }

  /** What makes {@link LwmqProvider} take the stream at {@code address} for a table of a catalog. */
  static Map<String, String> properties(String address) {
    return new TreeMap<>(Map.of(TableCatalog.PROP_PROVIDER, LwmqOptions.FORMAT, LwmqOptions.URI, address));
  }

  /** The stream as the table that {@code format("lwmq")} reads and writes. DESCRIBE EXTENDED shows its properties. */
  Table table() {
    Map<String, String> properties = properties(address);
    properties.put(LwmqOptions.PARTITIONS, String.valueOf(state.partitions().size()));
    if (state.retain() < Retain.values().length) { // else of a later version
      properties.put(LwmqOptions.RETAIN, word(Retain.values()[state.retain()]));
    }
    properties.put(LwmqOptions.READERS, String.valueOf(state.readers()));
    properties.put("state", word(state.state()));
    properties.put("served by", server());
    Schema schema = ArrowSchemas.parse(state.schema());
    String key = StreamSchema.partitionKey(schema);
    if (key != null) {
      properties.put(LwmqOptions.PARTITION_KEY, key);
    }
    String bounds = StreamSchema.bounds(schema);
    if (bounds != null) {
      properties.put(LwmqOptions.BOUNDS, bounds);
    }
    return table(SparkTypes.of(schema), properties);
  }

  /** A table of {@code format("lwmq")} with the {@link #properties} of a stream, and further ones. */
  static Table table(StructType schema, Map<String, String> properties) {
    return new LwmqProvider().getTable(schema, UNPARTITIONED, properties);
  }

  /** Ends the stream, with what nobody has read. UNSUPPORTED: this driver does not serve it. */
  void close() {
    if (!Endpoints.close(uri)) {
      throw new LwmqException(
          Status.UNSUPPORTED, "the stream at " + uri + " is served by " + server()
              + ", and only that process can end it: DROP TABLE closes streams that this driver serves");
    }
  }

  private String server() {
    return "process " + state.endpoint().pid() + " on " + state.endpoint().host();
  }

  private static String word(Enum<?> constant) {
    return constant.name().toLowerCase(Locale.ROOT);
  }
}
