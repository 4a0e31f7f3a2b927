package org.lwmq.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What a process shows of itself, seen by itself. */
class ObserverTest {
  private static final String ADDRESS = "ipc://java-observed";

  private static Observer.Process here(Observer observer) {
    long pid = ProcessHandle.current().pid();
    return observer.look().stream().filter(process -> process.pid() == pid).findFirst().orElseThrow();
  }

  private static List<Observer.Entry> of(Observer.Process process, Observer.Kind kind) {
    return process.entries().stream()
        .filter(entry -> entry.address().endsWith(ADDRESS) && entry.kind() == kind)
        .toList();
  }

  private static Observer.Entry channel(Observer.Process process, boolean isServer) {
    return of(process, Observer.Kind.CHANNEL).stream()
        .filter(entry -> entry.isServer() == isServer)
        .findFirst()
        .orElseThrow();
  }

  @Test
  void whatEveryoneDoesIsSeen() {
    Deadline soon = Deadline.after(60_000);
    try (Channel client = Channel.open("filters+" + ADDRESS, Role.CLIENT, Channel.Options.DEFAULT);
        Observer observer = new Observer()) {
      SendQueue queue = client.sendQueue(SendQueue.Kind.BOUNDED_DISCARD_OLDEST, Priority.TIME_CRITICAL, 10);
      client.addFilter("latency", 0); // times what the other end has stamped
      for (int i = 0; i < 30; i++) { // nobody takes them yet
        queue.post(new byte[100]);
      }
      assertFalse(channel(here(observer), false).isConnected());
      seeFrom(observer, client, soon);
    }
  }

  private static void seeFrom(Observer observer, Channel client, Deadline soon) {
    try (Channel server = Channel.open("filters+" + ADDRESS, Role.SERVER, Channel.Options.DEFAULT)) {
      server.addFilter("latency", 0);
      client.awaitConnected(soon);
      assertEquals(10, server.receiveMany(10, soon).size());
      client.flush(soon);

      Observer.Process process = here(observer);
      while (!(channel(process, true).figure("messages_received") == 10
          && channel(process, false).figure("messages_sent") == 10)) {
        assertFalse(soon.isOver(), process::toString); // the pages are written now and then
        process = here(observer);
      }
      assertTrue(process.isKnown());
      assertEquals(Jni.version(), process.library());
      assertEquals(0, process.unlisted());
      Observer.Entry channel = channel(process, false);
      assertTrue(channel.isConnected());
      assertFalse(channel.isClosed());
      assertEquals(30, channel.figure("messages_posted"));
      assertEquals(10, channel.figure("messages_sent"));
      assertEquals(0, channel.figure("clients_refused"));
      assertTrue(channel.opened().isAfter(Instant.now().minus(Duration.ofMinutes(10))));
      assertEquals(10, channel(process, true).figure("messages_received"));
      Observer.Entry sent = of(process, Observer.Kind.QUEUE).get(0);
      assertEquals(20, sent.figure("messages_discarded"));
      assertEquals(Priority.TIME_CRITICAL.ordinal() + 1, sent.figure("priority"));
      List<Observer.Entry> times = of(process, Observer.Kind.LATENCY);
      assertTrue(times.stream().allMatch(entry -> entry.name().startsWith("latency")), times::toString);
      Observer.Entry landed =
          times.stream().filter(entry -> entry.tookNs() > 0).findFirst().orElseThrow();
      assertTrue(landed.took().stream().mapToLong(Long::longValue).sum() > 0);
      assertEquals(0, landed.figure("messages_replaced"));
      assertEquals(Memory.statistics().keySet(), process.statistics().keySet());
      assertTrue(process.statistics().containsKey("peers_lost"));
      assertTrue(landed.figures().containsKey("clients_refused")); // the last of the table
      assertEquals(
          Status.INVALID, assertThrows(LwmqException.class, () -> landed.figure("shoes")).status());
    }
  }

  @Test
  void aClosedOneSaysSo() {
    Observer observer = new Observer();
    observer.close();
    assertEquals(Status.CLOSED, assertThrows(LwmqException.class, observer::look).status());
    assertEquals("Observer closed", observer.toString());
  }
}
