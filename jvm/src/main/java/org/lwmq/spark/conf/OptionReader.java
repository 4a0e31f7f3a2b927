package org.lwmq.spark.conf;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.ToLongFunction;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Settings;
import org.lwmq.core.Status;
import org.lwmq.core.WriterOptions;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Looks options up; the library turns their text into numbers ({@link Settings}). Driver only.
 *
 * <p>Precedence: the option of the read or write; then Spark's SQL conf, {@code spark.datasource.lwmq.*} (Spark itself
 * puts those among the options where there is none of that name); then the address's own, as in
 * {@code ipc://name?buffer_bytes=8MiB}; then {@code spark.lwmq.defaults.*}, by which {@code lwmq_spark.session()} passes on
 * the {@code [spark]} table of {@code conf/lwmq.toml}. A text that cannot be read is an error that names the option.
 */
final class OptionReader {
  private static final long NANOS_PER_MS = 1_000_000;

  private final CaseInsensitiveStringMap options;
  private final String uri;
  private final Map<String, String> address = new TreeMap<>();
  private final Map<String, String> file = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);

  OptionReader(CaseInsensitiveStringMap options) {
    this.options = options;
    file.putAll(settings(LwmqOptions.FILE_PREFIX));
    file.keySet().stream().filter(name -> !LwmqOptions.isKnown(name)).findFirst().ifPresent(
        name -> {
          throw GivenOptions.unknown("'" + name + "' in the [spark] table of the conf file", name);
        });
    String given = options.getOrDefault(LwmqOptions.URI, options.get(LwmqOptions.PATH));
    this.uri = split(given == null ? file.get(LwmqOptions.URI) : given);
  }

  /** The settings of the session whose names begin with {@code prefix}, without it. */
  static Map<String, String> settings(String prefix) {
    Map<String, String> found = new TreeMap<>();
    if (SparkSession.getActiveSession().isDefined()) {
      CollectionConverters.asJava(SparkSession.active().conf().getAll())
          .forEach(
              (key, value) -> {
                if (key.startsWith(prefix)) {
                  found.put(key.substring(prefix.length()), value);
                }
              });
    }
    return found;
  }

  /** The address without its options, but with the name of the stream: what the library gets. */
  String uri() {
    return uri;
  }

  String text(String name, String byDefault) {
    String value = options.getOrDefault(name, address.getOrDefault(name, file.get(name)));
    return value == null || value.isBlank() ? byDefault : value.trim();
  }

  boolean isSaid(String name) {
    return text(name, null) != null;
  }

  /** A text that may be written in any case. */
  String word(String name, String byDefault) {
    return text(name, byDefault).toLowerCase(Locale.ROOT);
  }

  /** An option that is a setting of the library: bytes, or a count within its bounds. */
  long setting(String name, long byDefault) {
    return read(name, byDefault, value -> Settings.read(snakeCase(name), value));
  }

  /** One of Spark alone. */
  long count(String name, long byDefault) {
    return read(name, byDefault, Settings::count);
  }

  long bytes(String name, long byDefault) {
    return read(name, byDefault, Settings::bytes);
  }

  boolean flag(String name, boolean byDefault) {
    return read(name, byDefault ? 1 : 0, Settings::flag) == 1;
  }

  /** One of the names of {@code type}, in any case. */
  <E extends Enum<E>> E oneOf(String name, E byDefault, Class<E> type) {
    E[] all = type.getEnumConstants();
    List<String> words = Arrays.stream(all).map(constant -> constant.name().toLowerCase(Locale.ROOT)).toList();
    return all[(int) read(name, byDefault.ordinal(), value -> Settings.place(value, words))];
  }

  /** Milliseconds; {@code forever} is {@code Integer.MAX_VALUE}. */
  int milliseconds(String name, int byDefault) {
    long ns = setting(name, byDefault * NANOS_PER_MS);
    return ns < 0 ? Integer.MAX_VALUE : (int) Math.min(Integer.MAX_VALUE, ns / NANOS_PER_MS);
  }

  /** A duration of at least 1 ms, or {@code forever}, which is -1; 0 where nothing was said. */
  int patience(String name) {
    if (!isSaid(name)) {
      return 0;
    }
    return setting(name, 0) < 0 ? WriterOptions.FOREVER : Math.max(1, milliseconds(name, 0));
  }

  /** What {@code reading} makes of the text of an option. INVALID names the option. */
  private long read(String name, long byDefault, ToLongFunction<String> reading) {
    String value = text(name, null);
    if (value == null) {
      return byDefault;
    }
    try {
      return reading.applyAsLong(value);
    } catch (LwmqException e) {
      throw new LwmqException(e.status(), "option " + name + ": " + e.getMessage());
    }
  }

  /** Takes the address apart; ADDRESS when there is none, or when it has an option that nobody knows. */
  private String split(String whole) {
    if (whole == null || whole.isBlank()) {
      throw new LwmqException(
          Status.ADDRESS, "no address: say .load(\"ipc://name\") or .option(\"uri\", \"ipc://name\"); for a table"
              + " CREATE TABLE ... USING lwmq OPTIONS (uri 'ipc://name'), writeTo().tableProperty(\"uri\", \"ipc://name\"),"
              + " or .option(\"path\", \"ipc://name\").saveAsTable()");
    }
    Settings.ofStream(whole).forEach((key, value) -> address.put(camelCase(key), value));
    String door = whole.split("\\?", 2)[0];
    String stream = address.remove("stream");
    return stream == null ? door : door + "?stream=" + stream;
  }

  /** Addresses are written as in Python, options as in Spark. */
  private static String camelCase(String snake) {
    StringBuilder camel = new StringBuilder();
    for (String word : snake.split("_")) {
      camel.append(camel.length() == 0 || word.isEmpty() ? word : Character.toUpperCase(word.charAt(0)) + word.substring(1));
    }
    return camel.toString();
  }

  private static String snakeCase(String camel) {
    return camel.replaceAll("([A-Z])", "_$1").toLowerCase(Locale.ROOT);
  }
}
