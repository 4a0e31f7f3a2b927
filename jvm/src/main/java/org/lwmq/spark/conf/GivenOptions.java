package org.lwmq.spark.conf;

import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Settings;
import org.lwmq.core.Status;
import org.lwmq.core.Transports;

/**
 * What a read, a write or a table was given: names that are known, and one address, as {@link LwmqOptions#URI}. Driver
 * only.
 *
 * <p>The path of {@code load} and {@code save} is as good as the option {@code uri}; both in one call, with two addresses,
 * are refused. Either wins over an address of the session.
 */
public final class GivenOptions {
  /** By which Spark tells of {@code load()} of several paths, as JSON. */
  private static final String PATHS = "paths";

  /** What {@code writeStream} is told. */
  public static final String NO_SINK = "lwmq is no streaming sink: write each micro-batch by writeStream.foreachBatch(lambda "
      + "frame, number: frame.write.format(\"lwmq\").mode(\"append\").save(\"ipc://name\"))";

  /** The option by which {@code writeStream} shows, before Spark asks for a sink. */
  private static final String CHECKPOINT = "checkpointLocation";

  private GivenOptions() {}

  /** Of a read or a write, among whose options Spark has put what the session says. INVALID, ADDRESS. */
  public static CaseInsensitiveStringMap ofCall(CaseInsensitiveStringMap options) {
    if (options.containsKey(PATHS)) {
      throw new LwmqException(
          Status.ADDRESS, "a read takes one address, but load() was given the list " + options.get(PATHS)
              + ": load each by itself, and union() the DataFrames");
    }
    options.keySet().forEach(GivenOptions::checkName);
    Map<String, String> given = new TreeMap<>(options); // names in small letters
    String uri = address(options);
    given.remove(LwmqOptions.PATH);
    if (uri != null) {
      given.put(LwmqOptions.URI, uri);
    }
    return new CaseInsensitiveStringMap(given);
  }

  /** Whether these are the properties of a table of Spark's catalog, and not the options of a call. */
  public static boolean isOfTable(CaseInsensitiveStringMap properties) {
    return properties.containsKey(TableCatalog.PROP_PROVIDER);
  }

  /**
   * Of a table of Spark's catalog: what its CREATE TABLE said, over what the session says. Its properties have more
   * names than those of ours; and where it was created without a path, they have one of files that are not there.
   */
  public static CaseInsensitiveStringMap ofTable(CaseInsensitiveStringMap properties) {
    Map<String, String> given = new TreeMap<>();
    take(session(), given);
    String path = properties.get(LwmqOptions.PATH);
    if (isOurs(path)) {
      given.put(LwmqOptions.URI, path);
    }
    take(properties, given);
    return new CaseInsensitiveStringMap(given);
  }

  /**
   * For CREATE TABLE: INVALID for a name among the OPTIONS that nobody knows, ADDRESS where there is no address. What is
   * not of a table is checked when it is used.
   */
  public static void checkTable(CaseInsensitiveStringMap properties) {
    if (!isOfTable(properties)) {
      return;
    }
    for (String name : properties.keySet()) {
      if (name.startsWith(TableCatalog.OPTION_PREFIX)) {
        checkName(name.substring(TableCatalog.OPTION_PREFIX.length()));
      }
    }
    CaseInsensitiveStringMap given = ofTable(properties);
    LwmqReadConf.of(given);
    LwmqWriteConf.of(given);
  }

  /** Adds to {@code given} what is known among {@code options}, but for a path. */
  private static void take(CaseInsensitiveStringMap options, Map<String, String> given) {
    options.forEach(
        (name, value) -> {
          if (LwmqOptions.isKnown(name) && !name.equals(LwmqOptions.PATH)) {
            given.put(name, value);
          }
        });
  }

  /** Those of a table, but for what one read or write of it says otherwise: {@code SELECT … FROM t WITH (…)}. */
  public static CaseInsensitiveStringMap over(CaseInsensitiveStringMap table, CaseInsensitiveStringMap options) {
    Map<String, String> given = new TreeMap<>(table);
    given.putAll(ofCall(options));
    return new CaseInsensitiveStringMap(given);
  }

  /** INVALID for a name that nobody knows: what it was to do would silently not be done. */
  private static void checkName(String name) {
    if (name.equalsIgnoreCase(CHECKPOINT)) {
      throw new LwmqException(Status.UNSUPPORTED, NO_SINK);
    }
    if (!LwmqOptions.isKnown(name)) {
      throw unknown("option '" + name + "'", name);
    }
  }

  /** An error that says what {@code name} may have been meant for. */
  static LwmqException unknown(String what, String name) {
    String nearest = Settings.nearest(name, LwmqOptions.NAMES);
    String hint = nearest == null ? "; known are " + String.join(", ", LwmqOptions.NAMES) : ": did you mean " + nearest + "?";
    return new LwmqException(Status.INVALID, what + " is unknown" + hint);
  }

  /** What {@code spark.datasource.lwmq.*} says at this moment. */
  private static CaseInsensitiveStringMap session() {
    return new CaseInsensitiveStringMap(OptionReader.settings(LwmqOptions.SESSION_PREFIX));
  }

  /** The one that is meant; null where none was given. */
  private static String address(CaseInsensitiveStringMap options) {
    String uri = options.get(LwmqOptions.URI);
    String path = options.get(LwmqOptions.PATH);
    if (uri == null || path == null || uri.equals(path)) {
      return uri == null ? path : uri;
    }
    CaseInsensitiveStringMap session = session();
    boolean isSessionsUri = uri.equals(session.get(LwmqOptions.URI));
    boolean isSessionsPath = path.equals(session.get(LwmqOptions.PATH));
    if (isSessionsUri == isSessionsPath) {
      throw new LwmqException(
          Status.ADDRESS, "two addresses in one call: the option uri is '" + uri + "', and the path is '" + path
              + "'; leave one of them out");
    }
    return isSessionsUri ? path : uri;
  }

  /** Whether a location is an address of a stream. */
  private static boolean isOurs(String location) {
    return location != null && Transports.providers().stream().anyMatch(scheme -> location.startsWith(scheme + "://"));
  }
}
