package org.lwmq.core;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** The frames of a request or of a reply: byte arrays that are copied from and into messages. */
public final class Frames {
  private final List<byte[]> frames;

  private Frames(List<byte[]> frames) {
    this.frames = frames;
  }

  /** Keeps the arrays. They must not change afterwards. */
  public static Frames of(byte[]... frames) {
    return new Frames(List.of(frames));
  }

  /** One frame for each text, as UTF-8. */
  public static Frames of(String... texts) {
    List<byte[]> frames = new ArrayList<>(texts.length);
    for (String text : texts) {
      frames.add(text.getBytes(StandardCharsets.UTF_8));
    }
    return new Frames(frames);
  }

  /** No frames. */
  public static Frames none() {
    return new Frames(List.of());
  }

  /** The frames of {@code message} from {@code first} on. */
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

  /** A copy of all frames, one after the other. */
  public byte[] bytes() {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    frames.forEach(all::writeBytes);
    return all.toByteArray();
  }

  /** All frames, one after the other, as a text in UTF-8. */
  public String text() {
    return new String(bytes(), StandardCharsets.UTF_8);
  }

  void appendTo(Message message) {
    frames.forEach(message::append);
  }

  @Override
  public String toString() {
    return "Frames " + frames.stream().mapToInt(frame -> frame.length).boxed().toList() + " bytes";
  }
}
