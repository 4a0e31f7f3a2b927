package org.lwmq.spark.conf;

import java.math.BigDecimal;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.core.WriterOptions;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Looks options up, and turns their text into numbers. Driver only.
 *
 * <p>Precedence: the option of the read or write; then Spark's SQL conf, {@code spark.datasource.lwmq.*} (Spark itself
 * puts those among the options where there is none of that name); then the address's own, as in
 * {@code ipc://name?buffer_bytes=8MiB}; then {@code spark.lwmq.defaults.*}, by which {@code lwmq_spark.session()} passes on
 * the {@code [spark]} table of {@code conf/lwmq.toml}. A text that cannot be read is an error that names the option.
 */
final class OptionReader {
  private static final BigDecimal MOST_BYTES = BigDecimal.valueOf(Long.MAX_VALUE);
  private static final String FOREVER = "forever";
  private static final Pattern AMOUNT = Pattern.compile("\\s*([0-9]+(?:\\.[0-9]+)?)\\s*([a-zA-Z]*)\\s*");

  /** What an address may say beside what an option of Spark says: it concerns others that use the same address. */
  private static final Set<String> OF_OTHERS = Set.of("role", "linger", "retry", "credit", "follow", "raw", "name");

  private static final Set<String> OF_SPARK =
      Set.of(
          LwmqOptions.TIMEOUT, LwmqOptions.BUFFER_BYTES, LwmqOptions.BUFFERS, LwmqOptions.WINDOW_BYTES,
          LwmqOptions.STAGING_BYTES, LwmqOptions.DELIVERY, LwmqOptions.PARTITIONS, LwmqOptions.RETAIN,
          LwmqOptions.READERS, LwmqOptions.WRITERS, LwmqOptions.TRUST, LwmqOptions.STALL, LwmqOptions.EXPEL_AFTER);

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

  /** The address, without its own options: what the provider gets. */
  String uri() {
    return uri;
  }

  String text(String name, String byDefault) {
    String value = options.getOrDefault(name, address.getOrDefault(name, file.get(name)));
    return value == null || value.isBlank() ? byDefault : value.trim();
  }

  /** A text that may be written in any case. */
  String word(String name, String byDefault) {
    return text(name, byDefault).toLowerCase(Locale.ROOT);
  }

  boolean flag(String name, boolean byDefault) {
    String value = word(name, Boolean.toString(byDefault));
    switch (value) {
      case "true":
        return true;
      case "false":
        return false;
      default:
        throw bad(name, value, "true or false");
    }
  }

  /** A whole number of at least {@code least}. */
  int count(String name, int byDefault, int least) {
    String value = text(name, Integer.toString(byDefault));
    try {
      int number = Integer.parseInt(value);
      if (number >= least) {
        return number;
      }
    } catch (NumberFormatException e) {
      throw bad(name, value, "a whole number");
    }
    throw bad(name, value, "a whole number of at least " + least);
  }

  /** One of the names of {@code type}, in any case. */
  <E extends Enum<E>> E oneOf(String name, E byDefault, Class<E> type) {
    String value = text(name, byDefault.name());
    for (E constant : type.getEnumConstants()) {
      if (constant.name().equalsIgnoreCase(value)) {
        return constant;
      }
    }
    StringBuilder names = new StringBuilder();
    for (E constant : type.getEnumConstants()) {
      names.append(names.length() == 0 ? "" : ", ").append(constant.name().toLowerCase(Locale.ROOT));
    }
    throw bad(name, value, "one of " + names);
  }

  /**
   * Bytes: {@code 4194304}, {@code 4MiB}, {@code 4m} (powers of 1024), {@code 4MB} (a power of 1000). The same words
   * mean the same in Python, in {@code options.py}.
   */
  long bytes(String name, long byDefault) {
    String value = text(name, null);
    if (value == null) {
      return byDefault;
    }
    Matcher amount = AMOUNT.matcher(value);
    if (amount.matches()) {
      String unit = amount.group(2).toLowerCase(Locale.ROOT);
      if (unit.matches("|b|[kmgt](i?b)?")) {
        int power = unit.isEmpty() ? 0 : "bkmgt".indexOf(unit.charAt(0));
        int base = unit.matches("[kmgt]b") ? 1000 : 1024;
        BigDecimal bytes = new BigDecimal(amount.group(1)).multiply(BigDecimal.valueOf(base).pow(power));
        if (bytes.stripTrailingZeros().scale() <= 0 && bytes.compareTo(MOST_BYTES) <= 0) {
          return bytes.longValueExact();
        }
        throw bad(name, value, "a whole number of bytes, at most " + MOST_BYTES);
      }
    }
    throw bad(name, value, "a size such as 4MiB");
  }

  /** Milliseconds: {@code 30s}, {@code 500ms}, {@code 2min}; a bare number means seconds, {@code forever} no limit. */
  long milliseconds(String name, long byDefault) {
    String value = text(name, null);
    if (value == null) {
      return byDefault;
    }
    if (value.equalsIgnoreCase(FOREVER)) {
      return Long.MAX_VALUE;
    }
    Matcher amount = AMOUNT.matcher(value);
    if (amount.matches()) {
      double factor =
          switch (amount.group(2).toLowerCase(Locale.ROOT)) {
            case "ms" -> 1;
            case "", "s", "sec" -> 1000;
            case "m", "min" -> 60_000;
            case "h" -> 3_600_000;
            default -> -1;
          };
      if (factor > 0) {
        return (long) (Double.parseDouble(amount.group(1)) * factor);
      }
    }
    throw bad(name, value, "a duration such as 30s");
  }

  /** A duration of at least 1 ms, or {@code forever}, which is -1; 0 where nothing was said. */
  int patience(String name) {
    String value = text(name, null);
    if (value == null) {
      return 0;
    }
    if (value.equalsIgnoreCase(FOREVER)) {
      return WriterOptions.FOREVER;
    }
    return (int) Math.max(1, Math.min(Integer.MAX_VALUE, milliseconds(name, 0)));
  }

  /** Takes the address apart; ADDRESS when there is none, or when it has an option that nobody knows. */
  private String split(String whole) {
    if (whole == null || whole.isBlank()) {
      throw new LwmqException(
          Status.ADDRESS, "no address: say .load(\"ipc://name\") or .option(\"uri\", \"ipc://name\"); for a table"
              + " CREATE TABLE ... USING lwmq OPTIONS (uri 'ipc://name'), writeTo().tableProperty(\"uri\", \"ipc://name\"),"
              + " or .option(\"path\", \"ipc://name\").saveAsTable()");
    }
    if (!whole.contains("://")) {
      throw new LwmqException(
          Status.ADDRESS, "'" + whole + "' is no address: it begins with a scheme, as in ipc://name");
    }
    int mark = whole.indexOf('?');
    if (mark < 0) {
      return whole;
    }
    for (String pair : whole.substring(mark + 1).split("&")) {
      int equals = pair.indexOf('=');
      String key = camelCase(equals < 0 ? pair : pair.substring(0, equals));
      if (equals < 0 || !(OF_SPARK.contains(key) || OF_OTHERS.contains(key))) {
        throw new LwmqException(Status.ADDRESS, "option '" + pair + "' of address '" + whole + "' is unknown");
      }
      address.put(key, pair.substring(equals + 1));
    }
    return whole.substring(0, mark);
  }

  /** Addresses are written as in Python, options as in Spark. */
  private static String camelCase(String snake) {
    StringBuilder camel = new StringBuilder();
    for (String word : snake.split("_")) {
      camel.append(camel.length() == 0 || word.isEmpty() ? word : Character.toUpperCase(word.charAt(0)) + word.substring(1));
    }
    return camel.toString();
  }

  private static LwmqException bad(String name, String value, String wanted) {
    return new LwmqException(Status.INVALID, "option " + name + " is '" + value + "', but should be " + wanted);
  }
}
