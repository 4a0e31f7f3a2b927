package org.lwmq.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Frames that lie in the application's memory. */
class ExternalFrameTest {
  private final Deadline soon = Deadline.after(60_000);

  private static ByteBuffer memory(int bytes, int value) {
    ByteBuffer memory = ByteBuffer.allocateDirect(bytes);
    for (int i = 0; i < bytes; i++) {
      memory.put(i, (byte) value);
    }
    return memory;
  }

  // rows: S05
  @Test
  void aFrameIsShownWhereItLiesAndReleasedOnce() throws InterruptedException {
    try (Channel server = Channel.open("loop://java-external", Role.SERVER, Channel.Options.DEFAULT);
        Channel client = Channel.open("loop://java-external", Role.CLIENT, Channel.Options.DEFAULT)) {
      ByteBuffer memory = memory(5000, 7).position(1000);
      Semaphore released = new Semaphore(0);
      Message message = Message.create().append(new byte[] {1}).appendExternal(memory, released::release);
      assertEquals(1000, memory.position());
      Message second = message.reference();
      client.sendQueue(Priority.NORMAL).post(message);
      try (Message came = server.receive(soon)) {
        assertEquals(4000, came.frame(1).remaining());
        assertEquals(Memory.address(memory) + 1000, Memory.address(came.frame(1)));
        assertEquals(7, came.frame(1).get(3999));
      }
      assertFalse(released.tryAcquire(50, TimeUnit.MILLISECONDS)); // the reference shows it still
      second.close();
      for (int i = 0; i < 3000 && released.availablePermits() == 0; i++) { // the views, which nobody holds any more
        System.gc();
        Thread.sleep(20);
      }
      assertTrue(released.tryAcquire());
      assertFalse(released.tryAcquire(50, TimeUnit.MILLISECONDS));
    }
  }

  @Test
  void whatWasShippedToAnotherProcessIsReleased() throws InterruptedException {
    try (Channel server = Channel.open("ipc://java-external", Role.SERVER, Channel.Options.DEFAULT);
        Channel client = Channel.open("ipc://java-external", Role.CLIENT, Channel.Options.DEFAULT)) {
      SendQueue queue = client.sendQueue(SendQueue.Kind.BOUNDED_DISCARD_NEWEST, Priority.NORMAL, 4);
      AtomicInteger sum = new AtomicInteger();
      CountDownLatch released = new CountDownLatch(100);
      for (int i = 0; i < 100; i++) { // some are discarded, others arrive
        queue.post(
            Message.create()
                .appendExternal(
                    memory(60_000, i),
                    () -> {
                      sum.incrementAndGet();
                      released.countDown();
                    }));
      }
      client.awaitConnected(soon);
      try (Message came = server.receive(soon)) {
        assertEquals(60_000, came.frame(0).remaining());
        assertEquals(0, came.frame(0).get(59_999));
      }
      assertThrows(LwmqException.class, () -> client.close(0)); // some were never read
      assertTrue(released.await(10, TimeUnit.SECONDS));
      assertEquals(100, sum.get());
    }
  }

  @Test
  void aFailureOfTheApplicationsDoesNotEndTheOthersReleases() throws InterruptedException {
    CountDownLatch released = new CountDownLatch(2);
    for (int i = 0; i < 2; i++) {
      Message.create()
          .appendExternal(
              memory(8, 0),
              () -> {
                released.countDown();
                throw new AssertionError("of this test's, meant to be told");
              })
          .close();
    }
    assertTrue(released.await(10, TimeUnit.SECONDS));
  }

  @Test
  void theMemoryLivesAsLongAsItIsShown() throws InterruptedException {
    Message message = Message.create();
    WeakReference<ByteBuffer> memory = appendUnheld(message);
    for (int i = 0; i < 5; i++) {
      System.gc();
      Thread.sleep(20);
    }
    assertNotNull(memory.get());
    assertEquals(9, message.frame(0).get(0));
    message.close();
    for (int i = 0; memory.get() != null && i < 500; i++) {
      System.gc();
      Thread.sleep(20);
    }
    assertNull(memory.get());
  }

  private static WeakReference<ByteBuffer> appendUnheld(Message message) {
    ByteBuffer memory = memory(64, 9);
    message.appendExternal(memory);
    return new WeakReference<>(memory);
  }

  @Test
  void whatIsRefusedIsNotReleased() throws InterruptedException {
    Semaphore released = new Semaphore(0);
    try (Message message = Message.create()) {
      LwmqException heap =
          assertThrows(
              LwmqException.class, () -> message.appendExternal(ByteBuffer.allocate(8), released::release));
      assertEquals(Status.INVALID, heap.status());
      assertThrows(NullPointerException.class, () -> message.appendExternal(memory(8, 0), null));
      ByteBuffer memory = memory(8, 0);
      for (int i = 0; i < 65_535; i++) {
        message.append(memory);
      }
      LwmqException full =
          assertThrows(LwmqException.class, () -> message.appendExternal(memory, released::release));
      assertEquals(Status.TOO_BIG, full.status());
    }
    assertFalse(released.tryAcquire(50, TimeUnit.MILLISECONDS));
  }
}
