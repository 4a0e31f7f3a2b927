package org.lwmq.core;

import java.nio.ByteBuffer;
import java.util.function.LongConsumer;

/** What is sent whole or not at all: frames of bytes. One thread at a time. */
public final class Message implements AutoCloseable {
  private final Handle handle;

  Message(long message) {
    this.handle = new Handle(this, message, "message", m -> Jni.messageDestroy(m));
  }

  /** An empty message. */
  public static Message create() {
    return new Message(Jni.messageCreate(0));
  }

  /** Appends a copy of {@code frame}. Returns this message. */
  public Message append(byte[] frame) {
    Jni.messageAppend(handle.get(), frame);
    return this;
  }

  public int frameCount() {
    return Jni.messageFrameCount(handle.get());
  }

  /** Frame {@code index} where it lies, read-only; valid until the message is closed. */
  public ByteBuffer frame(int index) {
    return Jni.messageFrame(handle.get(), index).asReadOnlyBuffer();
  }

  /** A copy of frame {@code index}. */
  public byte[] bytes(int index) {
    ByteBuffer frame = frame(index);
    byte[] copy = new byte[frame.remaining()];
    frame.get(copy);
    return copy;
  }

  /** Lends the native message to {@code taker}; it is not ours any more when that returns. */
  void giveTo(LongConsumer taker) {
    taker.accept(handle.get());
    handle.take();
  }

  @Override
  public void close() {
    handle.close();
  }
}
