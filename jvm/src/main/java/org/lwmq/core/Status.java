package org.lwmq.core;

/**
 * The outcome of a native call. The numbers are those of {@code lwmq_status}.
 *
 * <p>{@link #errorClass} is the word in front of an error's text inside Spark. It tells readers of the text, and
 * {@code lwmq_spark.error_of}, what has happened.
 */
public enum Status {
  OK(0, "LWMQ_OK"),
  TIMED_OUT(1, "LWMQ_TIMEOUT"),
  EMPTY(2, "LWMQ_EMPTY"),
  FULL(3, "LWMQ_FULL"),
  END(4, "LWMQ_END"),
  INTERRUPTED(5, "LWMQ_INTERRUPTED"),
  INVALID(10, "LWMQ_INVALID"),
  ADDRESS(11, "LWMQ_ADDRESS"),
  CLOSED(12, "LWMQ_CLOSED"),
  PEER_LOST(13, "LWMQ_PEER_LOST"),
  STALLED(14, "LWMQ_STALLED"),
  TOO_BIG(15, "LWMQ_MESSAGE_TOO_BIG"),
  SCHEMA(16, "LWMQ_SCHEMA"),
  ABORTED(17, "LWMQ_ABORTED"),
  DATA_LOSS(18, "LWMQ_DATA_LOSS"),
  CORRUPT(19, "LWMQ_CORRUPT"),
  VERSION(20, "LWMQ_VERSION"),
  NO_MEMORY(21, "LWMQ_NO_MEMORY"),
  DENIED(22, "LWMQ_DENIED"),
  UNSUPPORTED(23, "LWMQ_UNSUPPORTED"),
  SYSTEM(24, "LWMQ_SYSTEM"),
  SUPERSEDED(25, "LWMQ_SUPERSEDED"),
  /** The status of {@link HandlerException} alone. */
  HANDLER(26, "LWMQ_HANDLER");

  private final int code;
  private final String errorClass;

  Status(int code, String errorClass) {
    this.code = code;
    this.errorClass = errorClass;
  }

  /** The number of {@code lwmq_status}. */
  public int code() {
    return code;
  }

  /** Whether this is a failure, and neither OK nor an answer such as EMPTY or TIMED_OUT. */
  boolean isFailure() {
    return code >= INVALID.code;
  }

  /** Whether this reports the end of one peer. It is reported once, and the next peer may come. */
  boolean endsPeer() {
    return this == CLOSED || this == PEER_LOST || this == STALLED || this == CORRUPT;
  }

  /** The word in front of an error's text inside Spark, such as {@code LWMQ_DATA_LOSS}. */
  public String errorClass() {
    return errorClass;
  }

  /** The status of a native code. A code that this jar does not know becomes {@link #SYSTEM}. */
  public static Status of(int code) {
    for (Status status : values()) {
      if (status.code == code) {
        return status;
      }
    }
    return SYSTEM;
  }
}
