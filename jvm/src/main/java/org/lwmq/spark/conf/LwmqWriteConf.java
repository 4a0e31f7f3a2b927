package org.lwmq.spark.conf;

import java.io.Serializable;
import java.util.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.lwmq.core.Delivery;
import org.lwmq.core.Retain;

/**
 * The options of a write. Made once in the driver, sent to the tasks. Precedence: the option, Spark's SQL conf
 * ({@code spark.datasource.lwmq.*}), the options in the address, {@code conf/}. Zero means the default of the library.
 *
 * @param uri address of the stream
 * @param settings of providers, for further addresses of the stream
 * @param announce the host, or host and port, that tasks try first if the driver serves the stream; null: none
 * @param timeoutMs how long the endpoint may take to appear and to answer; default 30 s
 * @param bufferBytes the largest batch by intent; default 4 MiB
 * @param windowBytes memory for batches; if not given, {@code bufferBytes} times {@code buffers}; default 64 MiB, or 16
 *     times {@code bufferBytes} if that is more
 * @param stagingBytes memory beyond the window, for batches that are not committed yet; default 1 GiB
 * @param delivery when rows become visible; default TASK
 * @param partitions of the stream, if this job is the first to declare it; 0 means 1
 * @param partitionKey the column whose value decides on the partition of a row; null: none. A stream that is declared
 *     already has to have the same one
 * @param bounds the columns whose least and greatest value lie behind each batch, with commas between them; null: none.
 *     Of the stream, if this job is the first to declare it
 * @param retain of the stream, if this job is the first to declare it
 * @param readers of the stream, if this job is the first to declare it
 * @param stallMs how long an endpoint that lives may leave a task without an answer; default 5 s; -1: without a limit
 * @param expelAfterMs how long a reader may keep a task waiting before it is expelled; 0, the default, and -1: for ever
 * @param columnarWrite whether to take whole column batches from the plan where it has them
 * @param invalidUtf8 what to do with strings that are not UTF-8
 */
public record LwmqWriteConf(
    String uri, Map<String, String> settings, String announce, int timeoutMs, long bufferBytes, long windowBytes, long stagingBytes, Delivery delivery,
    int partitions, String partitionKey, String bounds, Retain retain, int readers, int stallMs, int expelAfterMs, ColumnarWrite columnarWrite,
    InvalidUtf8 invalidUtf8)
    implements Serializable {

  private static final long BUFFER_BYTES = 4L << 20;

  public static LwmqWriteConf of(CaseInsensitiveStringMap options) {
    OptionReader reader = new OptionReader(options);
    long bufferBytes = reader.setting(LwmqOptions.BUFFER_BYTES, 0);
    long buffers = reader.setting(LwmqOptions.BUFFERS, 0);
    long ofBuffers = buffers * (bufferBytes == 0 ? BUFFER_BYTES : bufferBytes);
    return new LwmqWriteConf(
        reader.uri(),
        reader.settings(),
        reader.text(LwmqOptions.ANNOUNCE, null),
        reader.milliseconds(LwmqOptions.TIMEOUT, 30_000),
        bufferBytes,
        reader.setting(LwmqOptions.WINDOW_BYTES, ofBuffers),
        reader.setting(LwmqOptions.STAGING_BYTES, 0),
        reader.oneOf(LwmqOptions.DELIVERY, Delivery.TASK, Delivery.class),
        (int) reader.setting(LwmqOptions.PARTITIONS, 0),
        reader.text(LwmqOptions.PARTITION_KEY, null),
        reader.text(LwmqOptions.BOUNDS, null),
        reader.oneOf(LwmqOptions.RETAIN, Retain.UNTIL_ACKED, Retain.class),
        (int) reader.setting(LwmqOptions.READERS, 0),
        reader.patience(LwmqOptions.STALL),
        reader.patience(LwmqOptions.EXPEL_AFTER),
        reader.oneOf(LwmqOptions.COLUMNAR_WRITE, ColumnarWrite.AUTO, ColumnarWrite.class),
        reader.oneOf(LwmqOptions.INVALID_UTF8, InvalidUtf8.ERROR, InvalidUtf8.class));
  }

  /** How many partitions the stream has, if this job declares it. */
  public int partitionCount() {
    return Math.max(1, partitions);
  }

  /** The same options for the address {@code uri}. */
  public LwmqWriteConf at(String uri) {
    return with(uri, partitionKey, bounds);
  }

  /** The same options with the partition key and the columns of the bounds as they are spelled. */
  public LwmqWriteConf withColumns(String partitionKey, String bounds) {
    return with(uri, partitionKey, bounds);
  }

  private LwmqWriteConf with(String uri, String partitionKey, String bounds) {
    return new LwmqWriteConf(
        uri, settings, announce, timeoutMs, bufferBytes, windowBytes, stagingBytes, delivery, partitions, partitionKey, bounds, retain, readers, stallMs,
        expelAfterMs, columnarWrite, invalidUtf8);
  }
}
