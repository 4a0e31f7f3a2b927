package org.lwmq.core;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Objects;
import java.util.function.LongSupplier;

/** A request that was received. It may be answered once, by any thread, at any time, or never. */
public final class Request {
  private static final int NUMBER_AT = 16; // in the head, see WIRE.md

  private final Replies replies;
  private final byte[] head;
  private final Frames frames;
  private boolean isAnswered;

  Request(Replies replies, byte[] head, Frames frames) {
    this.replies = replies;
    this.head = head;
    this.frames = frames;
  }

  public Frames frames() {
    return frames;
  }

  /**
   * Answers. Never waits. Throws what a post throws; then the request is still to be answered. INVALID: it was
   * answered.
   */
  public void reply(Frames answer) {
    answer(() -> Jni.replyMake(head, null, null), answer);
    replies.countAnswered();
  }

  /**
   * Answers with a failure: a {@link HandlerException} at the requester, with the class and the text of {@code reason}.
   */
  public void fail(Throwable reason) {
    fail(reason.getClass().getSimpleName(), Objects.requireNonNullElse(reason.getMessage(), ""));
  }

  /** Answers with a failure that has a text and no class. */
  public void fail(String text) {
    fail("", text);
  }

  private void fail(String kind, String text) {
    answer(() -> Jni.replyMake(head, shown(kind), shown(text)), Frames.none());
    replies.countFailed();
  }

  private synchronized void answer(LongSupplier maker, Frames answer) {
    if (isAnswered) {
      throw new LwmqException(Status.INVALID, "request " + numberOf(head) + " was answered before");
    }
    replies.post(maker, answer);
    isAnswered = true;
  }

  static long numberOf(byte[] head) {
    return ByteBuffer.wrap(head).order(ByteOrder.LITTLE_ENDIAN).getLong(NUMBER_AT);
  }

  @Override
  public synchronized String toString() {
    return "Request " + numberOf(head) + ", " + (isAnswered ? "answered" : "to be answered");
  }

  /** As the native side reads it. Whatever the text has, it passes. */
  private static byte[] shown(String text) {
    return (text.replace('\0', '\uFFFD') + '\0').getBytes(StandardCharsets.UTF_8);
  }
}
