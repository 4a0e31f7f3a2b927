package org.lwmq.core;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** What is asked or answered: frames of bytes in Java's own memory, copied from and into messages. */
public final class Frames {
  private final List<byte[]> frames;

  private Frames(List<byte[]> frames) {
    this.frames = frames;
  }

  /** Keeps the arrays; nobody should write into them afterwards. */
  public static Frames of(byte[]... frames) {
    return new Frames(List.of(frames));
  }

  /** One frame for each, UTF-8. */
  public static Frames of(String... texts) {
    List<byte[]> frames = new ArrayList<>(texts.length);
    for (String text : texts) {
      frames.add(text.getBytes(StandardCharsets.UTF_8));
    }
    return new Frames(frames);
  }

  /** Without a frame. */
  public static Frames none() {
    return new Frames(List.of());
  }

  /** Those of {@code message} from {@code first} on. */
  static Frames from(Message message, int first) {
    List<byte[]> frames = new ArrayList<>();
    for (int index = first, count = message.frameCount(); index < count; index++) {
      frames.add(message.bytes(index));
    }
    return new Frames(frames);
  }

  public int count() {
    return frames.size();
  }

  /** Frame {@code index} itself. */
  public byte[] bytes(int index) {
    return frames.get(index);
  }

  /** A copy of all, one after the other. */
  public byte[] bytes() {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    frames.forEach(all::writeBytes);
    return all.toByteArray();
  }

  /** All, one after the other, as UTF-8. */
  public String text() {
    return new String(bytes(), StandardCharsets.UTF_8);
  }

  /** A message of {@code head} and these, which the caller closes. */
  Message under(RequestHead head) {
    Message message = Message.create().append(head.bytes());
    frames.forEach(message::append);
    return message;
  }

  @Override
  public String toString() {
    return "Frames " + frames.stream().mapToInt(frame -> frame.length).boxed().toList() + " bytes";
  }
}
