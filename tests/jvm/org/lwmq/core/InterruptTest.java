package org.lwmq.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** A thread that is interrupted while it waits in the library comes out at once, and nothing is lost by that. */
class InterruptTest {
  private static final byte[] SCHEMA = {1, 2, 3};
  private static final long SOON_MS = 60_000;

  @Test
  void aReaderThatWaitsForABatchIsInterruptedAndReadsOn() throws InterruptedException {
    Deadline soon = Deadline.after(SOON_MS);
    String address = "loop://interrupt-reader";
    try (Endpoint endpoint = Endpoint.open(address);
        Writer writer = Writer.open(address, SCHEMA, WriterOptions.client(), soon);
        Reader reader = reader(address, soon)) {
      assertEquals(address, endpoint.address());
      interrupted("waiting for a batch of " + address, () -> reader.next(Deadline.never()));
      assertEquals(0, reader.statistics().leasedBatches());
      Block block = writer.allocate(100, soon);
      writer.publish(block, 0, 100, 7, Writer.IPC_MESSAGE);
      try (Batch batch = reader.next(soon)) {
        assertEquals(7, batch.rows());
      }
      assertEquals(0, reader.statistics().leasedBatches());
    }
  }

  @Test
  void aReaderThatWaitsForTheSchemaIsInterrupted() throws InterruptedException {
    Deadline soon = Deadline.after(SOON_MS);
    String address = "loop://interrupt-schema";
    try (Endpoint endpoint = Endpoint.open(address);
        Reader reader = reader(address, soon)) {
      assertEquals(address, endpoint.address());
      interrupted("the schema of " + address, () -> reader.schema(Deadline.never()));
    }
  }

  @Test
  void aReaderThatWaitsForItsEndpointIsInterrupted() throws InterruptedException {
    String address = "loop://interrupt-nobody";
    interrupted("opening a reader of " + address, () -> reader(address, Deadline.never()));
    leavesNobodyBehind(address);
  }

  @Test
  void aWriterThatWaitsForItsEndpointIsInterrupted() throws InterruptedException {
    String address = "loop://interrupt-nobody-either";
    interrupted(
        "opening a writer of " + address,
        () -> Writer.open(address, SCHEMA, WriterOptions.client(), Deadline.never()));
    leavesNobodyBehind(address);
  }

  @Test
  void aWriterThatWaitsForItsReadersIsInterruptedAndFinishesLater() throws InterruptedException {
    Deadline soon = Deadline.after(SOON_MS);
    String address = "loop://interrupt-finish";
    try (Endpoint endpoint = Endpoint.open(address);
        Writer writer = Writer.open(address, SCHEMA, WriterOptions.client(), soon);
        Reader reader = reader(address, soon)) {
      assertEquals(address, endpoint.address());
      writer.publish(writer.allocate(100, soon), 0, 100, 7, Writer.IPC_MESSAGE);
      interrupted("waiting for the readers of " + address, () -> writer.finish(Deadline.never()));
      assertTrue(writer.isOpen());
      reader.next(soon).close();
      reader.consume();
      writer.finish(soon);
      assertNull(reader.next(soon));
    }
  }

  @Test
  void aWriterThatWaitsForRoomIsInterruptedAndWritesOn() throws InterruptedException {
    Deadline soon = Deadline.after(SOON_MS);
    String address = "loop://interrupt-writer";
    try (Endpoint endpoint = Endpoint.open(address);
        Writer writer = Writer.open(address, SCHEMA, WriterOptions.client(), soon);
        Reader reader = reader(address, soon)) {
      assertEquals(address, endpoint.address());
      int half = 40 << 20; // of a window of 64 MiB: the second one waits
      writer.publish(writer.allocate(half, soon), 0, half, 1, Writer.IPC_MESSAGE);
      interrupted(address, () -> writer.allocate(half, Deadline.never()));
      reader.next(soon).close();
      reader.consume();
      writer.publish(writer.allocate(half, soon), 0, half, 2, Writer.IPC_MESSAGE);
      try (Batch batch = reader.next(soon)) {
        assertEquals(2, batch.rows());
      }
    }
  }

  private static Reader reader(String address, Deadline deadline) {
    return Reader.open(address, new ReaderOptions(Role.CLIENT, false, false, 0, 0, "r", null, false, null, 0, null, 0, null, List.of()), deadline);
  }

  /** An endpoint that comes now has no reader and no producer: nobody goes on trying. */
  private static void leavesNobodyBehind(String address) {
    try (Endpoint endpoint = Endpoint.open(address)) {
      StreamState state = StreamState.look(endpoint.address(), 60_000);
      assertEquals(0, state.readersOpen());
      assertEquals(0, state.producersOpen());
    }
  }

  /** Runs {@code wait} on a thread of its own, interrupts it, and looks at what it says. */
  private static void interrupted(String what, Executable wait) throws InterruptedException {
    LwmqException[] end = new LwmqException[1];
    boolean[] flag = new boolean[1];
    Thread waiting =
        new Thread(
            () -> {
              end[0] = assertThrows(LwmqException.class, wait);
              flag[0] = Thread.currentThread().isInterrupted();
            });
    waiting.start();
    waiting.join(300); // it is waiting now, or will be: an interrupt is not lost either way
    waiting.interrupt();
    waiting.join(SOON_MS);
    assertTrue(!waiting.isAlive(), "still waiting after the interrupt");
    assertEquals(Status.INTERRUPTED, end[0].status());
    assertTrue(end[0].getMessage().contains(what), end[0].getMessage());
    assertTrue(flag[0], "the interrupt flag stays set for the caller");
  }
}
