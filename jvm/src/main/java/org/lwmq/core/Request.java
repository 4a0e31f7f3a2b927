package org.lwmq.core;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Objects;

/** One that came, to be answered once, by any thread, at any time, or never. */
public final class Request {
  private final Replies replies;
  private final RequestHead head;
  private final Frames frames;
  private boolean isAnswered;

  Request(Replies replies, RequestHead head, Frames frames) {
    this.replies = replies;
    this.head = head;
    this.frames = frames;
  }

  public Frames frames() {
    return frames;
  }

  /** Answers. Never waits. Throws what a post does, and the request is still to be answered. INVALID: it was. */
  public void reply(Frames answer) {
    answer(RequestHead.REPLY, answer);
    replies.countAnswered();
  }

  /** Answers with a failure: {@link HandlerException} there, with the class and the text of {@code reason}. */
  public void fail(Throwable reason) {
    fail(reason.getClass().getSimpleName(), Objects.requireNonNullElse(reason.getMessage(), ""));
  }

  /** Answers with a failure that has a text alone. */
  public void fail(String text) {
    fail("", text);
  }

  private void fail(String kind, String text) {
    answer(RequestHead.FAILURE, Frames.of(shortened(kind), shortened(text)));
    replies.countFailed();
  }

  private synchronized void answer(int kind, Frames answer) {
    if (isAnswered) {
      throw new LwmqException(Status.INVALID, "request " + head.number() + " was answered before");
    }
    replies.post(new RequestHead(kind, head.asker(), head.number()), answer);
    isAnswered = true;
  }

  @Override
  public synchronized String toString() {
    return "Request " + head.number() + ", " + (isAnswered ? "answered" : "to be answered");
  }

  /** As UTF-8, cut between two characters. */
  private static byte[] shortened(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    int end = Math.min(bytes.length, PendingRequests.TEXT_BYTES_MAX);
    while (end < bytes.length && (bytes[end] & 0xC0) == 0x80) {
      end--;
    }
    return Arrays.copyOf(bytes, end);
  }
}
