package org.lwmq.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.AbstractList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/** What another thread changes while it is posted: something that was there once is sent, and nothing of others. */
class ChangingArgumentsTest {
  private final Deadline soon = Deadline.after(60_000);

  @Test
  void framesOfAListThatChangesAreThoseThatItGaveOnce() {
    try (Channel server = Channel.open("loop://changing-list", Role.SERVER, Channel.Options.DEFAULT);
        Channel client = Channel.open("loop://changing-list", Role.CLIENT, Channel.Options.DEFAULT)) {
      List<byte[]> changing =
          new AbstractList<>() {
            private int asked;

            @Override
            public int size() {
              return 1;
            }

            @Override
            public byte[] get(int index) {
              return new byte[asked++ == 0 ? 1 : 60];
            }
          };
      server.sendQueue(Priority.NORMAL).postMany(changing);
      try (Message message = client.receive(soon)) {
        assertArrayEquals(new byte[1], message.bytes(0));
      }
    }
  }

  @Test
  void lengthsThatPassTheirBytesAreRefused() {
    try (Channel server = Channel.open("loop://changing-lengths", Role.SERVER, Channel.Options.DEFAULT)) {
      server
          .sendQueue(Priority.NORMAL)
          .lendTo(
              q -> {
                for (int[] lengths : List.of(new int[] {2, 2}, new int[] {-1, 4}, new int[] {4})) {
                  LwmqException refusal =
                      assertThrows(LwmqException.class, () -> Jni.sendQueuePostMany(q, new byte[3], lengths));
                  assertEquals(Status.INVALID, refusal.status());
                }
              });
    }
  }

  @Test
  void aBufferWhosePositionMovesIsSentFromOneOfThem() throws InterruptedException {
    ByteBuffer direct = ByteBuffer.allocateDirect(64);
    for (int i = 0; i < direct.capacity(); i++) {
      direct.put(i, (byte) i);
    }
    AtomicBoolean end = new AtomicBoolean();
    Thread moving =
        new Thread(
            () -> {
              while (!end.get()) {
                direct.position(48 - direct.position());
              }
            });
    moving.setDaemon(true);
    moving.start();
    try (Channel server = Channel.open("loop://changing-position", Role.SERVER, Channel.Options.DEFAULT);
        Channel client = Channel.open("loop://changing-position", Role.CLIENT, Channel.Options.DEFAULT)) {
      SendQueue queue = server.sendQueue(Priority.NORMAL);
      for (int i = 0; i < 20_000; i++) {
        queue.post(direct);
        queue.post(Message.create().append(direct));
        checkNext(client);
        checkNext(client);
      }
    } finally {
      end.set(true);
      moving.join();
    }
  }

  /** All to the limit, from where the position was. */
  private void checkNext(Channel client) {
    byte[] sent = client.receiveBytes(1, soon).get(0);
    assertTrue(sent.length == 16 || sent.length == 64, "of " + sent.length + " bytes");
    for (int i = 0; i < sent.length; i++) {
      assertEquals(64 - sent.length + i, sent[i]);
    }
  }
}
