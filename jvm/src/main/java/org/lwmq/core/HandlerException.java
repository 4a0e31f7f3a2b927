package org.lwmq.core;

/** The peer's handler of a request has thrown, or returned what is no reply; the text has what it said. */
public final class HandlerException extends LwmqException {
  private static final long serialVersionUID = 1L;

  private final String kind;

  HandlerException(String kind, String text) {
    super(Status.HANDLER, text);
    this.kind = kind;
  }

  /** The class of the exception there, as the peer says. */
  public String kind() {
    return kind;
  }
}
