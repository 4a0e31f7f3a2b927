package org.lwmq.core;

import java.nio.charset.StandardCharsets;

/**
 * The outcome of a native call that is not OK. The text says where, with which numbers, and what to do.
 *
 * <p>It never leaves a Spark task: a driver whose jar was added to a running session could not deserialize it. The data
 * source turns it into an exception of Spark.
 */
public class LwmqException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final Status status;
  private final boolean hasText;
  private transient Channel channel;

  public LwmqException(Status status, String text) {
    super(text);
    this.status = status;
    this.hasText = true;
  }

  /**
   * Called from the native side with UTF-8. Answers such as TIMED_OUT mostly have no text; {@link Deadline} makes one.
   */
  LwmqException(int code, byte[] text) {
    super(text.length > 0 ? new String(text, StandardCharsets.UTF_8) : "LWMQ_E_" + Status.of(code));
    this.status = Status.of(code);
    this.hasText = text.length > 0;
  }

  /** False: the message is the bare name of the status. */
  boolean hasText() {
    return hasText;
  }

  public Status status() {
    return status;
  }

  /** The channel whose receive has failed, if a {@link Selector} has received; else null. */
  public Channel channel() {
    return channel;
  }

  LwmqException of(Channel whose) {
    channel = whose;
    return this;
  }

  @Override
  public String toString() {
    return getClass().getName() + " " + status + (hasText ? ": " + getMessage() : "");
  }

  /** The text with the error class in front, as Spark carries it. */
  public String classified() {
    return status.errorClass() + ": " + getMessage();
  }
}
