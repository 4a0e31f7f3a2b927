package org.lwmq.spark.conf;

import java.io.Serializable;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.lwmq.core.Delivery;
import org.lwmq.core.Retain;

/**
 * What a write was asked for. Made once in the driver, sent to the tasks. Precedence: the option, Spark's SQL conf
 * ({@code spark.datasource.lwmq.*}), the address's own options, {@code conf/}. Zero means the library's default.
 *
 * @param uri address of the stream
 * @param timeoutMs for the endpoint to appear and answer; default 30 s
 * @param roomMs for readers to make room in a task's window, where {@code timeout} was said; -1: without a limit
 * @param bufferBytes the largest batch by intent; default 4 MiB
 * @param windowBytes where not said, {@code bufferBytes} times {@code buffers}; default 64 MiB, or 16 times
 *     {@code bufferBytes} where that is more
 * @param stagingBytes beyond the window, for batches not yet committed; default 1 GiB
 * @param delivery when rows become visible; default TASK
 * @param partitions of the stream, where this job is the first to declare it; 0: 1
 * @param retain likewise
 * @param readers likewise
 * @param stallMs how long an endpoint that lives may leave a task without an answer; default 5 s; -1: it is waited for
 * @param expelAfterMs readers that keep a task waiting for so long are expelled; 0 and -1: never, the default
 * @param columnarWrite whether to take whole column batches from the plan where it has them
 * @param invalidUtf8 what to do about strings that are not UTF-8
 */
public record LwmqWriteConf(
    String uri, int timeoutMs, int roomMs, long bufferBytes, long windowBytes, long stagingBytes, Delivery delivery,
    int partitions, Retain retain, int readers, int stallMs, int expelAfterMs, ColumnarWrite columnarWrite,
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
        reader.milliseconds(LwmqOptions.TIMEOUT, 30_000),
        reader.isSaid(LwmqOptions.TIMEOUT) ? reader.milliseconds(LwmqOptions.TIMEOUT, 0) : -1,
        bufferBytes,
        reader.setting(LwmqOptions.WINDOW_BYTES, ofBuffers),
        reader.setting(LwmqOptions.STAGING_BYTES, 0),
        reader.oneOf(LwmqOptions.DELIVERY, Delivery.TASK, Delivery.class),
        (int) reader.setting(LwmqOptions.PARTITIONS, 0),
        reader.oneOf(LwmqOptions.RETAIN, Retain.UNTIL_ACKED, Retain.class),
        (int) reader.setting(LwmqOptions.READERS, 0),
        reader.patience(LwmqOptions.STALL),
        reader.patience(LwmqOptions.EXPEL_AFTER),
        reader.oneOf(LwmqOptions.COLUMNAR_WRITE, ColumnarWrite.AUTO, ColumnarWrite.class),
        reader.oneOf(LwmqOptions.INVALID_UTF8, InvalidUtf8.ERROR, InvalidUtf8.class));
  }
}
