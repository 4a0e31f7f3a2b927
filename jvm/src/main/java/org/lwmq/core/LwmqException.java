package org.lwmq.core;

import java.nio.charset.StandardCharsets;

/**
 * What a native call answered, if not OK; the text says where, with which numbers, and what to do.
 *
 * <p>Never leaves a Spark task as it is (a driver whose jar was added late could not read it back): the source
 * turns it into an exception of Spark's own.
 */
public class LwmqException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final Status status;
  private final boolean hasText;
  private transient Channel channel;
  private transient long end;

  public LwmqException(Status status, String text) {
    super(text);
    this.status = status;
    this.hasText = true;
  }

  /** Called from the native side, which has UTF-8; of most answers it has no text: {@link Deadline} makes one. */
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

  /** Where a {@link Selector} has received: the channel whose receive has failed; else null. */
  public Channel channel() {
    return channel;
  }

  LwmqException of(Channel whose) {
    channel = whose;
    return this;
  }

  /** The number of the peer's end that this tells of, as {@link Channel#ends} count them, where {@link Calls} have received; else 0. */
  long end() {
    return end;
  }

  LwmqException ofEnd(long number) {
    end = number;
    return this;
  }

  @Override
  public String toString() {
    return getClass().getName() + " " + status + (hasText ? ": " + getMessage() : "");
  }

  /** The text with its error class in front: what Spark is to carry. */
  public String classified() {
    return status.errorClass() + ": " + getMessage();
  }
}
