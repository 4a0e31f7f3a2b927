package org.lwmq.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** What nobody holds is given back, but not under a call that runs or a view that is held. */
class ReachabilityTest {
  private static final Deadline SOON = Deadline.after(60_000);

  @Test
  void aFrameIsKeptAsLongAsAViewOfIt() throws InterruptedException {
    try (Channel server = Channel.open("loop://reachable-frame", Role.SERVER, Channel.Options.DEFAULT);
        Channel client = Channel.open("loop://reachable-frame", Role.CLIENT, Channel.Options.DEFAULT)) {
      CountDownLatch released = new CountDownLatch(1);
      byte[] text = "held by its view alone, and long enough to be no small one".getBytes(StandardCharsets.UTF_8);
      ByteBuffer memory = ByteBuffer.allocateDirect(text.length).put(text).flip();
      server.sendQueue(Priority.NORMAL).post(Message.create().appendExternal(memory, released::countDown));
      ByteBuffer end = see(client).position(text.length - 9).slice();
      for (int i = 0; i < 5; i++) {
        System.gc();
        assertFalse(released.await(20, TimeUnit.MILLISECONDS));
      }
      assertEquals("small one", StandardCharsets.UTF_8.decode(end).toString());
      end = null;
      for (int i = 0; i < 3000 && !released.await(20, TimeUnit.MILLISECONDS); i++) {
        System.gc();
      }
      assertEquals(0, released.getCount());
    }
  }

  private static ByteBuffer see(Channel channel) {
    try (Message message = channel.receive(SOON)) {
      return message.frame(0);
    }
  }

  /** Each of these was written over by the next, where it lay. */
  @Test
  void framesStayWhatTheyWereBehindTheirMessages() {
    try (Channel server = Channel.open("ipc://reachable-frames", Role.SERVER, Channel.Options.DEFAULT);
        Channel client = Channel.open("ipc://reachable-frames", Role.CLIENT, Channel.Options.DEFAULT)) {
      SendQueue queue = server.sendQueue(Priority.NORMAL);
      List<ByteBuffer> seen = new ArrayList<>();
      for (int i = 0; i < 200; i++) {
        byte[] frame = new byte[i % 2 == 0 ? 60 : 20_000];
        Arrays.fill(frame, (byte) i);
        Message message = Message.create().append(frame);
        seen.add(message.frame(0));
        queue.post(message);
        seen.add(see(client));
      }
      for (int i = 0; i < seen.size(); i++) {
        ByteBuffer view = seen.get(i);
        assertEquals(i / 2 % 2 == 0 ? 60 : 20_000, view.remaining());
        while (view.hasRemaining()) {
          assertEquals((byte) (i / 2), view.get());
        }
      }
    }
  }

  /** The heap alone would have room for all of them. */
  @Test
  void viewsThatNobodyHoldsAreLookedFor() throws InterruptedException {
    ByteBuffer memory = ByteBuffer.allocateDirect(64 << 20);
    CountDownLatch released = new CountDownLatch(1);
    for (int i = 0; i < 40; i++) {
      try (Message message = Message.create().appendExternal(memory, released::countDown)) {
        assertEquals(memory.capacity(), message.frame(0).remaining());
      }
    }
    assertTrue(released.await(60, TimeUnit.SECONDS)); // without a collection of ours
  }

  /** In a JVM that compiles every call: there the owner is dead while its last one runs. */
  @Test
  void aCallHoldsItsOwner() throws IOException, InterruptedException {
    Process run =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xcomp", "-Xmx16m",
                "-XX:+UseSerialGC", "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,org.lwmq.core.*::*", "-cp",
                System.getProperty("java.class.path"), Unheld.class.getName())
            .redirectErrorStream(true)
            .start();
    String said = new String(run.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertTrue(run.waitFor(60, TimeUnit.SECONDS));
    assertEquals(0, run.exitValue(), said);
  }

  static final class Unheld {
    private static final int WAIT_MS = 400;

    private Unheld() {}

    public static void main(String[] args) throws InterruptedException {
      Thread collector = new Thread(Unheld::collect);
      collector.setDaemon(true);
      collector.start();
      waits("loop://unheld-receive", channel -> channel.receive(Deadline.after(WAIT_MS)));
      waits("loop://unheld-many", channel -> channel.receiveMany(2, Deadline.after(WAIT_MS)));
      waits("loop://unheld-bytes", channel -> channel.receiveBytes(2, Deadline.after(WAIT_MS)));
      waits("loop://unheld-peer", channel -> channel.awaitConnected(Deadline.after(WAIT_MS)));
    }

    /** Nobody holds the channel but the call. */
    private static void waits(String address, Consumer<Channel> call) {
      LwmqException end =
          assertThrows(
              LwmqException.class,
              () -> call.accept(Channel.open(address, Role.SERVER, Channel.Options.DEFAULT)));
      assertEquals(Status.TIMED_OUT, end.status(), end.getMessage());
    }

    private static void collect() {
      while (true) {
        System.gc();
      }
    }
  }
}
