package org.lwmq.spark.conf;

import java.util.List;
import java.util.stream.Stream;
import org.lwmq.core.Settings;

/**
 * The names of the options of {@code format("lwmq")}. {@link LwmqReadConf} and {@link LwmqWriteConf} say what they
 * mean. Sizes are written as {@code 4MiB}, durations as {@code 30s}.
 */
public final class LwmqOptions {
  /** The name of the format, and the part after {@code spark.datasource.} in session-wide defaults. */
  public static final String FORMAT = "lwmq";

  /** Prefix of the defaults that come from a file of {@code conf/}. Everything else has precedence over them. */
  public static final String FILE_PREFIX = "spark.lwmq.defaults.";

  /** Prefix of session-wide defaults. Spark adds them to the options of reads and writes. */
  static final String SESSION_PREFIX = "spark.datasource." + FORMAT + ".";

  /** The address. {@code load(path)} and {@code save(path)} pass it as {@link #PATH}. */
  public static final String URI = "uri";

  public static final String PATH = "path";

  // both directions
  public static final String TIMEOUT = "timeout";
  public static final String TRUST = "trust";
  public static final String STALL = "stall";
  public static final String ANNOUNCE = "announce";

  // reading
  public static final String STARTING_OFFSETS = "startingOffsets";
  public static final String ENDING_OFFSETS = "endingOffsets";
  public static final String MAX_ROWS_PER_TRIGGER = "maxRowsPerTrigger";
  public static final String MAX_BYTES_PER_TRIGGER = "maxBytesPerTrigger";
  public static final String FAIL_ON_DATA_LOSS = "failOnDataLoss";
  public static final String ACK = "ack";
  public static final String WRITERS = "writers";

  // writing
  public static final String BUFFER_BYTES = "bufferBytes";
  public static final String BUFFERS = "buffers";
  public static final String WINDOW_BYTES = "windowBytes";
  public static final String STAGING_BYTES = "stagingBytes";
  public static final String DELIVERY = "delivery";
  public static final String PARTITIONS = "partitions";
  public static final String PARTITION_KEY = "partitionKey";
  public static final String BOUNDS = "bounds";
  public static final String RETAIN = "retain";
  public static final String READERS = "readers";
  public static final String EXPEL_AFTER = "expelAfter";
  public static final String COLUMNAR_WRITE = "columnarWrite";
  public static final String INVALID_UTF8 = "invalidUtf8";

  private static final List<String> OURS =
      List.of(
          URI, PATH, TIMEOUT, TRUST, STALL, ANNOUNCE, STARTING_OFFSETS, ENDING_OFFSETS,
          MAX_ROWS_PER_TRIGGER, MAX_BYTES_PER_TRIGGER, FAIL_ON_DATA_LOSS, ACK, WRITERS, BUFFER_BYTES, BUFFERS, WINDOW_BYTES, STAGING_BYTES,
          DELIVERY, PARTITIONS, PARTITION_KEY, BOUNDS, RETAIN, READERS, EXPEL_AFTER, COLUMNAR_WRITE, INVALID_UTF8);

  /**
   * All names, with those of the settings that providers take. Reads accept those of writes and the reverse, because
   * session-wide defaults reach both.
   */
  static final List<String> NAMES =
      Stream.concat(OURS.stream(), Settings.ofProviders().stream().map(OptionReader::camelCase)).toList();

  private LwmqOptions() {}

  /** Compares without regard to case, as Spark does. */
  static boolean isKnown(String name) {
    return NAMES.stream().anyMatch(name::equalsIgnoreCase);
  }
}
