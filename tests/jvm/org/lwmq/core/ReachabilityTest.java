package org.lwmq.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** What nobody holds is given back, but not under a call that runs or a view that is held. */
class ReachabilityTest {
  private static final Deadline SOON = Deadline.after(60_000);

  /** A view, and whether the message that it is of lives. */
  private record Seen(ByteBuffer view, WeakReference<Message> message) {}

  @Test
  void aMessageLivesAsLongAsAViewOfItsFrame() throws InterruptedException {
    try (Channel server = Channel.open("loop://reachable-frame", Role.SERVER, Channel.Options.DEFAULT);
        Channel client = Channel.open("loop://reachable-frame", Role.CLIENT, Channel.Options.DEFAULT)) {
      server.sendQueue(Priority.NORMAL).post("held by its view alone, and long enough to be no small one".repeat(9));
      Seen seen = see(client);
      WeakReference<Message> message = seen.message();
      ByteBuffer end = seen.view().position(seen.view().remaining() - 9).slice();
      seen = null;
      for (int i = 0; i < 5; i++) {
        System.gc();
        Thread.sleep(20);
      }
      assertNotNull(message.get());
      assertEquals("small one", StandardCharsets.UTF_8.decode(end).toString());
      end = null;
      for (int i = 0; message.get() != null && i < 3000; i++) {
        System.gc();
        Thread.sleep(20);
      }
      assertNull(message.get());
    }
  }

  private static Seen see(Channel channel) {
    Message message = channel.receive(SOON);
    return new Seen(message.frame(0), new WeakReference<>(message));
  }

  /** In a JVM that compiles every call: there the owner is dead while its last one runs. */
  @Test
  void aCallHoldsItsOwner() throws IOException, InterruptedException {
    Process run =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xcomp",
                "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,org.lwmq.core.*::*", "-cp",
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
