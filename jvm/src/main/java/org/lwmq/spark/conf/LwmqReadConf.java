package org.lwmq.spark.conf;

import java.io.Serializable;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * What a read was asked for. Made once in the driver, sent to the tasks. Precedence: the option, Spark's SQL conf
 * ({@code spark.datasource.lwmq.*}), the address's own options, {@code conf/}.
 *
 * @param uri address of the stream
 * @param timeoutMs how long planning waits for the stream and its schema; default 30 s
 * @param startingOffsets {@code earliest} (the lowest unacknowledged), {@code latest}, or JSON per partition
 * @param endingOffsets {@code end} (of the stream), {@code latest} (pinned when planned), or JSON per partition
 * @param maxRowsPerTrigger soft limit of a micro-batch; 0: none
 * @param maxBytesPerTrigger likewise
 * @param verify whether Arrow bodies are copied and checked even where peers are trusted
 * @param failOnDataLoss whether batches that are gone are an error, not a warning
 * @param ack when what was consumed counts as acknowledged
 * @param writers the stream has not ended before that many producers have come
 * @param stallMs how long an endpoint that lives may leave a task without an answer; default 5 s; -1: it is waited for
 */
public record LwmqReadConf(
    String uri, int timeoutMs, String startingOffsets, String endingOffsets, long maxRowsPerTrigger,
    long maxBytesPerTrigger, boolean verify, boolean failOnDataLoss, Ack ack, int writers, int stallMs)
    implements Serializable {

  private static final int TRUST_VERIFY = 1; // of the words of the setting

  public static LwmqReadConf of(CaseInsensitiveStringMap options) {
    OptionReader reader = new OptionReader(options);
    return new LwmqReadConf(
        reader.uri(),
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
}
