package org.lwmq.spark.conf;

import java.io.Serializable;
import java.util.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options of a read. Made once in the driver, sent to the tasks. Precedence: the option, Spark's SQL conf
 * ({@code spark.datasource.lwmq.*}), the options in the address, {@code conf/}.
 *
 * @param uri address of the stream
 * @param settings of providers, for further addresses of the stream
 * @param announce the host, or host and port, that tasks try first if the driver serves the stream; null: none
 * @param timeoutMs how long planning waits for the stream and its schema; default 30 s
 * @param startingOffsets {@code earliest} (the lowest unacknowledged), {@code latest}, or JSON per partition
 * @param endingOffsets {@code end} (of the stream), {@code latest} (pinned when planned), or JSON per partition
 * @param maxRowsPerTrigger soft limit of a micro-batch; 0: none
 * @param maxBytesPerTrigger soft limit of a micro-batch; 0: none
 * @param verify whether Arrow bodies are copied and checked even where peers are trusted
 * @param failOnDataLoss whether lost batches are an error; otherwise they are a warning
 * @param ack when consumed batches count as acknowledged
 * @param writers how many producers must have come before the stream can end
 * @param stallMs how long an endpoint that lives may leave a task without an answer; default 5 s; -1: without a limit
 */
public record LwmqReadConf(
    String uri, Map<String, String> settings, String announce, int timeoutMs, String startingOffsets, String endingOffsets, long maxRowsPerTrigger,
    long maxBytesPerTrigger, boolean verify, boolean failOnDataLoss, Ack ack, int writers, int stallMs)
    implements Serializable {

  private static final int TRUST_VERIFY = 1; // place of the word among those of the setting

  public static LwmqReadConf of(CaseInsensitiveStringMap options) {
    OptionReader reader = new OptionReader(options);
    return new LwmqReadConf(
        reader.uri(),
        reader.settings(),
        reader.text(LwmqOptions.ANNOUNCE, null),
        reader.milliseconds(LwmqOptions.TIMEOUT, 30_000),
        reader.word(LwmqOptions.STARTING_OFFSETS, "earliest"),
        reader.word(LwmqOptions.ENDING_OFFSETS, "end"),
        reader.count(LwmqOptions.MAX_ROWS_PER_TRIGGER, 0),
        reader.bytes(LwmqOptions.MAX_BYTES_PER_TRIGGER, 0),
        reader.setting(LwmqOptions.TRUST, 0) == TRUST_VERIFY,
        reader.flag(LwmqOptions.FAIL_ON_DATA_LOSS, true),
        reader.oneOf(LwmqOptions.ACK, Ack.QUERY, Ack.class),
        (int) reader.setting(LwmqOptions.WRITERS, 1),
        reader.patience(LwmqOptions.STALL));
  }

  /** The same options for the address {@code uri}. */
  public LwmqReadConf at(String uri) {
    return new LwmqReadConf(
        uri, settings, announce, timeoutMs, startingOffsets, endingOffsets, maxRowsPerTrigger, maxBytesPerTrigger, verify, failOnDataLoss,
        ack, writers, stallMs);
  }
}
