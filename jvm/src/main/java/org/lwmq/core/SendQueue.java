package org.lwmq.core;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** Where one thread posts messages of a channel. Unbounded: a post never waits. Lives as long as its channel. */
public final class SendQueue {
  private final Channel channel;
  private final long queue;

  SendQueue(Channel channel, long queue) {
    this.channel = channel;
    this.queue = queue;
  }

  /** Posts a message of one frame, copied. */
  public void post(byte[] frame) {
    post(ByteBuffer.wrap(frame));
  }

  /** Posts what remains in {@code frame}, copied; its position stays. */
  public void post(ByteBuffer frame) {
    channel.post(queue, frame);
  }

  /** Posts a text as UTF-8. */
  public void post(String text) {
    post(text.getBytes(StandardCharsets.UTF_8));
  }

  /** Takes {@code message}; when it is refused (TOO_BIG, CLOSED), it is still the caller's. */
  public void post(Message message) {
    channel.checkOpen();
    message.giveTo(pointer -> Jni.sendQueuePostMessage(queue, pointer));
  }
}
