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
 * Checks the options that a read, a write or a table was given: all names are known, and there is one address, which
 * becomes {@link LwmqOptions#URI}. Driver.
 *
 * <p>The path of {@code load} and {@code save} means the same as the option {@code uri}. One call with two addresses is
 * refused. Either form wins over an address of the session.
 */
public final class GivenOptions {
  /** The option in which Spark passes several paths of {@code load()}, as JSON. */
  private static final String PATHS = "paths";

  private GivenOptions() {}

  /** The options of a read or a write, to which Spark has added those of the session. INVALID, ADDRESS. */
  public static CaseInsensitiveStringMap ofCall(CaseInsensitiveStringMap options) {
    if (options.containsKey(PATHS)) {
      throw new LwmqException(
          Status.ADDRESS, "a read takes one address, but load() was given the list " + options.get(PATHS)
              + ": load each by itself, and union() the DataFrames");
    }
    options.keySet().forEach(GivenOptions::checkName);
    Map<String, String> given = new TreeMap<>(options); // whose names are in lower case
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
   * The options of a table of Spark's catalog: those of its CREATE TABLE, and below them those of the session. The
   * properties have further names. If the table was created without a path, they have the path of a folder that does
   * not exist.
   */
  public static CaseInsensitiveStringMap ofTable(CaseInsensitiveStringMap properties) {
    Map<String, String> given = new TreeMap<>();
    take(session(), given);
    String path = properties.get(LwmqOptions.PATH);
    if (path != null && Transports.take(path)) {
      given.put(LwmqOptions.URI, path);
    }
    take(properties, given);
    return new CaseInsensitiveStringMap(given);
  }

  /**
   * Checks the OPTIONS of a CREATE TABLE. INVALID: a name is unknown. ADDRESS: there is no address. Options of a call
   * are passed over: they are checked when they are used.
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

  /** Adds those of {@code options} that are known to {@code given}, except a path. */
  private static void take(CaseInsensitiveStringMap options, Map<String, String> given) {
    options.forEach(
        (name, value) -> {
          if (LwmqOptions.isKnown(name) && !name.equals(LwmqOptions.PATH)) {
            given.put(name, value);
          }
        });
  }

  /** The options of a table, overridden by those of one read or write of it: {@code SELECT … FROM t WITH (…)}. */
  public static CaseInsensitiveStringMap over(CaseInsensitiveStringMap table, CaseInsensitiveStringMap options) {
    Map<String, String> given = new TreeMap<>(table);
    given.putAll(ofCall(options));
    return new CaseInsensitiveStringMap(given);
  }

  /** INVALID for an unknown name, which would otherwise be ignored in silence. */
  public static void checkName(String name) {
    if (!LwmqOptions.isKnown(name)) {
      throw unknown("option '" + name + "'", name);
    }
  }

  /** An error that says which known name {@code name} may be a slip of. */
  static LwmqException unknown(String what, String name) {
    String nearest = Settings.nearest(name, LwmqOptions.NAMES);
    String hint = nearest == null ? "; known are " + String.join(", ", LwmqOptions.NAMES) : ": did you mean " + nearest + "?";
    return new LwmqException(Status.INVALID, what + " is unknown" + hint);
  }

  /** The options of the session, {@code spark.datasource.lwmq.*}, at this moment. */
  private static CaseInsensitiveStringMap session() {
    return new CaseInsensitiveStringMap(OptionReader.settings(LwmqOptions.SESSION_PREFIX));
  }

  /** The address that is meant; null: none was given. */
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
}
