package org.lwmq.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.BiConsumer;
import org.junit.jupiter.api.Test;

/** What is left of a block behind its publish, and behind its writer. */
class BlockTest {
  private static final byte[] SCHEMA = {1, 2, 3};
  private static final int BYTES = 65536;

  private final Deadline soon = Deadline.after(60_000);

  private Writer writer(String address) {
    return Writer.open(address, SCHEMA, WriterOptions.client().withMemory(BYTES, 4 * BYTES, 0), soon);
  }

  private Reader reader(String address) {
    return Reader.open(
        address, new ReaderOptions(Role.CLIENT, false, false, 0, 0, "r", null, false, null, 0, null, 0), soon);
  }

  private static byte[] full(int of) {
    byte[] bytes = new byte[BYTES];
    Arrays.fill(bytes, (byte) of);
    return bytes;
  }

  private static byte[] shown(ByteBuffer view) {
    byte[] bytes = new byte[BYTES];
    view.get(0, bytes);
    return bytes;
  }

  private static void invalid(String words, Runnable call) {
    LwmqException refusal = assertThrows(LwmqException.class, call::run);
    assertEquals(Status.INVALID, refusal.status());
    assertTrue(refusal.getMessage().contains(words), refusal.getMessage());
  }

  @Test
  void aBlockThatWentBackShowsNothing() {
    String address = "loop://block-went-back";
    try (Endpoint endpoint = Endpoint.open(address);
        Writer writer = writer(address)) {
      assertEquals(address, endpoint.address());
      Block published = writer.allocate(BYTES, soon);
      writer.publish(published, 0, BYTES, 1, Writer.IPC_MESSAGE);
      invalid("went back already", published::buffer);
      Block discarded = writer.allocate(BYTES, soon);
      discarded.buffer();
      writer.discard(discarded);
      invalid("went back already", discarded::buffer);
      writer.discard(discarded); // nothing
      Block refused = writer.allocate(BYTES, soon);
      assertThrows(LwmqException.class, () -> writer.publish(refused, 0, 2 * BYTES, 1, Writer.IPC_MESSAGE));
      invalid("went back already", refused::buffer);
    }
  }

  @Test
  void aBlockIsForTheWriterThatHasLentIt() {
    String address = "loop://block-of-another";
    try (Endpoint endpoint = Endpoint.open(address);
        Writer ours = writer(address);
        Writer others = writer(address)) {
      assertEquals(address, endpoint.address());
      Block our = ours.allocate(BYTES, soon);
      Block their = others.allocate(BYTES, soon);
      our.buffer().put(full('o'));
      their.buffer().put(full('t'));
      invalid("a block of another writer of " + address, () -> ours.publish(their, 0, BYTES, 1, Writer.IPC_MESSAGE));
      invalid("a block of another writer of " + address, () -> ours.discard(their));
      others.publish(their, 0, BYTES, 1, Writer.IPC_MESSAGE);
      try (Reader reader = reader(address);
          Batch batch = reader.next(soon)) {
        assertArrayEquals(full('t'), Memory.copy(batch.address(), BYTES));
      }
      ours.discard(our);
    }
  }

  @Test
  void aViewLivesOnBehindItsWriter() {
    List<BiConsumer<Writer, Block>> ends =
        List.of(
            (writer, block) -> writer.abort("over"),
            (writer, block) -> {},
            Writer::discard,
            (writer, block) -> writer.publish(block, 0, BYTES, 1, Writer.IPC_MESSAGE),
            (writer, block) -> assertThrows(LwmqException.class, () -> writer.finish(Deadline.after(0))));
    for (int i = 0; i < ends.size(); i++) {
      String address = "loop://block-view-" + i;
      ByteBuffer view;
      try (Endpoint endpoint = Endpoint.open(address)) {
        assertEquals(address, endpoint.address());
        try (Writer writer = writer(address)) {
          Block block = writer.allocate(BYTES, soon);
          view = block.buffer().put(full(i)).position(0);
          ends.get(i).accept(writer, block);
          assertArrayEquals(full(i), shown(view));
        }
        assertArrayEquals(full(i), shown(view.slice()));
      }
      view.put(1, (byte) 'x');
      assertEquals('x', view.get(1));
    }
  }

  @Test
  void aViewKeepsWhatWasPublishedWhileOthersAreWritten() {
    String address = "loop://block-kept";
    try (Endpoint endpoint = Endpoint.open(address);
        Writer writer = writer(address);
        Reader reader = reader(address)) {
      assertEquals(address, endpoint.address());
      Block first = writer.allocate(BYTES, soon);
      ByteBuffer view = first.buffer().put(full('f'));
      writer.publish(first, 0, BYTES, 1, Writer.IPC_MESSAGE);
      reader.next(soon).close();
      for (int i = 0; i < 40; i++) {
        Block block = writer.allocate(BYTES, soon);
        Memory.wrap(block.address(), BYTES).put(full(i));
        writer.publish(block, 0, BYTES, 1, Writer.IPC_MESSAGE);
        reader.next(soon).close();
      }
      assertArrayEquals(full('f'), shown(view));
    }
  }

  @Test
  void aBlockWhoseViewsNobodyHoldsIsRoomAgain() {
    String address = "loop://block-room";
    try (Endpoint endpoint = Endpoint.open(address);
        Writer writer = writer(address);
        Reader reader = reader(address)) {
      assertEquals(address, endpoint.address());
      List<ByteBuffer> held = new ArrayList<>();
      for (int i = 0; i < 30; i++) {
        Block block = writer.allocate(BYTES, soon); // of a window of four
        block.buffer().put(full(i));
        ByteBuffer again = block.buffer();
        assertArrayEquals(full(i), shown(again));
        if (i == 7) {
          held.add(again);
        }
        writer.publish(block, 0, BYTES, 1, Writer.IPC_MESSAGE);
        try (Batch batch = reader.next(soon)) {
          assertArrayEquals(full(i), Memory.copy(batch.address(), BYTES));
        }
      }
      assertArrayEquals(full(7), shown(held.get(0)));
    }
  }
}
