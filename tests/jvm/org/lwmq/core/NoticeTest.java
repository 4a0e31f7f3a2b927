package org.lwmq.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Many channels: in turns, by call-back, by routes; and the filters of one. */
class NoticeTest {
  private final Deadline soon = Deadline.after(60_000);

  private static Channel server(String address) {
    return Channel.open(address, Role.SERVER, Channel.Options.DEFAULT);
  }

  private static Channel client(String address) {
    return Channel.open(address, Role.CLIENT, Channel.Options.DEFAULT);
  }

  private static String text(Message message) {
    return new String(message.bytes(0), StandardCharsets.UTF_8);
  }

  // rows: K26
  @Test
  void aSelectorGivesEachChannelItsTurn() {
    try (Channel firstServer = server("loop://java-turns-1");
        Channel secondServer = server("loop://java-turns-2");
        Channel first = client("loop://java-turns-1");
        Channel second = client("loop://java-turns-2");
        Selector selector = new Selector()) {
      for (Channel channel : List.of(first, second, firstServer, secondServer)) {
        channel.awaitConnected(soon);
      }
      selector.add(firstServer);
      selector.add(secondServer);
      SendQueue many = first.sendQueue(Priority.NORMAL);
      SendQueue few = second.sendQueue(Priority.NORMAL);
      for (int i = 0; i < 100; i++) {
        many.post("many");
      }
      for (int i = 0; i < 10; i++) {
        few.post("few");
      }
      first.flush(soon);
      second.flush(soon);
      Map<Channel, Integer> served = new HashMap<>();
      for (int i = 0; i < 20; i++) {
        Selector.Received received = selector.receive(soon);
        received.message().close();
        served.merge(received.channel(), 1, Integer::sum);
      }
      assertEquals(Map.of(firstServer, 10, secondServer, 10), served);
      assertEquals(
          Status.INVALID, assertThrows(LwmqException.class, () -> selector.add(firstServer)).status());
      selector.remove(firstServer);
      assertNull(selector.tryReceive());
      few.post("one more");
      second.flush(soon);
      try (Message one = selector.tryReceive().message()) {
        assertEquals("one more", text(one));
      }
      assertTrue(selector.descriptor() > 2);
      selector.remove(secondServer);
      assertEquals(
          Status.TIMED_OUT,
          assertThrows(LwmqException.class, () -> selector.receive(Deadline.after(10))).status());
      selector.add(firstServer);
      many.post("never received");
      first.flush(soon);
      firstServer.close(0); // and not removed
      assertEquals(
          Status.TIMED_OUT,
          assertThrows(LwmqException.class, () -> selector.receive(Deadline.after(10))).status());
      selector.remove(firstServer);
      // What it had not read is told here, else by the close.
      assertEquals(Status.CLOSED, assertThrows(LwmqException.class, () -> first.receive(soon)).status());
      assertEquals(0, selector.size());
    }
  }

  // rows: K11
  @Test
  void aCallBackGetsEveryMessageInOrderUntilItEnds() throws InterruptedException {
    try (Channel server = server("loop://java-calls");
        Channel client = client("loop://java-calls")) {
      client.awaitConnected(soon);
      List<String> heard = Collections.synchronizedList(new ArrayList<>());
      CountDownLatch all = new CountDownLatch(100);
      server.onMessage(
          message -> {
            heard.add(text(message));
            all.countDown();
            if (heard.size() == 50) {
              throw new IllegalStateException("logged, and the next one comes all the same");
            }
          });
      SendQueue queue = client.sendQueue(Priority.NORMAL);
      List<String> posted = new ArrayList<>();
      for (int i = 0; i < 100; i++) {
        posted.add("order " + i);
        queue.post("order " + i);
      }
      assertTrue(all.await(60, TimeUnit.SECONDS));
      assertEquals(posted, heard);
      server.onMessage(null);
      queue.post("not heard");
      try (Message message = server.receive(soon)) {
        assertEquals("not heard", text(message));
      }
      assertNull(server.tryReceive());
      assertTrue(server.descriptor() > 2);
    }
  }

  @Test
  void endsAreCalledInTheirPlaceAndTheNextPeerIsHeard() throws InterruptedException {
    BlockingQueue<String> heard = new LinkedBlockingQueue<>();
    try (Channel server = server("loop://java-calls-ends")) {
      server.onMessage(
          message -> heard.add(text(message)),
          why -> {
            heard.add(why.status().name());
            throw new IllegalStateException("logged, and the next one comes all the same");
          });
      for (String name : List.of("first", "second")) {
        try (Channel client = client("loop://java-calls-ends")) {
          client.sendQueue(Priority.NORMAL).post(name);
          assertEquals(name, heard.poll(60, TimeUnit.SECONDS));
        }
        assertEquals("CLOSED", heard.poll(60, TimeUnit.SECONDS));
      }
    }
    assertTrue(heard.isEmpty());
  }

  @Test
  void aCallBackThatLeavesItsThreadInterruptedIsCalledAgain() throws InterruptedException {
    try (Channel server = server("loop://java-calls-interrupt");
        Channel client = client("loop://java-calls-interrupt")) {
      CountDownLatch heard = new CountDownLatch(3);
      server.onMessage(
          message -> {
            heard.countDown();
            Thread.currentThread().interrupt();
          });
      SendQueue queue = client.sendQueue(Priority.NORMAL);
      for (int i = 0; i < 3; i++) {
        queue.post("x");
      }
      assertTrue(heard.await(60, TimeUnit.SECONDS));
    }
  }

  @Test
  void aChannelThatIsClosedIsCalledNoMore() throws InterruptedException {
    try (Channel server = server("loop://java-calls-end")) {
      server.onMessage(message -> {});
    }
    try (Channel server = server("loop://java-calls-next");
        Channel client = client("loop://java-calls-next")) {
      CountDownLatch heard = new CountDownLatch(1);
      server.onMessage(message -> heard.countDown());
      client.sendQueue(Priority.NORMAL).post("x");
      assertTrue(heard.await(60, TimeUnit.SECONDS));
    }
  }

  // rows: K45 K27
  @Test
  void aRouterPostsByTopicAndSharesOutInTurns() {
    try (Channel firstServer = server("loop://java-routes-1");
        Channel secondServer = server("loop://java-routes-2");
        Channel first = client("loop://java-routes-1");
        Channel second = client("loop://java-routes-2");
        Router router = new Router()) {
      first.awaitConnected(soon);
      second.awaitConnected(soon);
      SendQueue one = first.sendQueue(SendQueue.Kind.MULTI_UNBOUNDED, Priority.NORMAL, 0);
      SendQueue two = second.sendQueue(SendQueue.Kind.MULTI_UNBOUNDED, Priority.NORMAL, 0);
      router.add("trades.*", one);
      router.add("#", two);
      router.add(0, "jobs", "workers", one);
      router.add(0, "jobs", "workers", two);
      assertEquals(2, router.post(Message.create().append("trades.sap".getBytes(StandardCharsets.UTF_8))));
      assertEquals(1, router.post(Message.create().append("trades".getBytes(StandardCharsets.UTF_8))));
      router.remove(0, "#", null, two);
      for (int i = 0; i < 4; i++) {
        assertEquals(1, router.post(Message.create().append("jobs".getBytes(StandardCharsets.UTF_8))));
      }
      try (Message nobodys = Message.create().append("news".getBytes(StandardCharsets.UTF_8))) {
        assertEquals(0, router.post(nobodys));
        assertEquals("news", text(nobodys));
      }
      List<String> got = new ArrayList<>();
      for (Channel channel :
          List.of(firstServer, firstServer, firstServer, secondServer, secondServer, secondServer, secondServer)) {
        try (Message message = channel.receive(soon)) {
          got.add(text(message));
        }
      }
      assertEquals(List.of("trades.sap", "jobs", "jobs", "trades.sap", "trades", "jobs", "jobs"), got);
      router.forget(one);
      router.forget(two);
      assertEquals(
          Status.INVALID,
          assertThrows(LwmqException.class, () -> router.add("a*", one)).status());
      router.add("late", one);
      first.close(1000); // and not forgotten
      try (Message late = Message.create().append("late".getBytes(StandardCharsets.UTF_8))) {
        assertEquals(0, router.post(late));
      }
      router.forget(one);
      assertEquals(
          Status.CLOSED, assertThrows(LwmqException.class, () -> router.add("late", one)).status());
    }
  }

  @Test
  void aRouterTakesNoQueueOfOnePoster() {
    try (Channel channel = server("loop://java-routes-mono");
        Router router = new Router()) {
      SendQueue mono = channel.sendQueue(Priority.NORMAL);
      LwmqException refusal = assertThrows(LwmqException.class, () -> router.add("#", mono));
      assertEquals(Status.INVALID, refusal.status());
      assertTrue(refusal.getMessage().contains("of kind MONO_UNBOUNDED has one poster"), refusal.getMessage());
      assertEquals("Router of 0 routes to 0 queues", router.toString());
      SendQueue many = channel.sendQueue(SendQueue.Kind.MULTI_UNBOUNDED, Priority.NORMAL, 0);
      assertEquals(
          "frame -1: at least 0 is possible",
          assertThrows(LwmqException.class, () -> router.add(-1, "#", null, many)).getMessage());
    }
  }

  // rows: L38
  @Test
  void filtersComeAndGoWhileMessagesPass() {
    try (Channel server = server("filters+loop://java-filters");
        Channel client = client("filters+loop://java-filters")) {
      client.awaitConnected(soon);
      assertEquals(List.of(), server.filters());
      server.addFilter("latency", Channel.LAST_FILTER);
      assertTrue(server.latencyNs(0, 0.5).isEmpty());
      SendQueue queue = client.sendQueue(Priority.NORMAL);
      queue.post("seen");
      server.receive(soon).close();
      FilterState state = server.filters().get(0);
      assertEquals("latency", state.name());
      assertTrue(state.seen() >= 1);
      assertEquals(state.timed() > 0, server.latencyNs(0, 1).isPresent());
      server.removeFilter(0);
      assertEquals(List.of(), server.filters());
      assertEquals(
          Status.INVALID,
          assertThrows(LwmqException.class, () -> server.addFilter("pigeon", 0)).status());
    }
  }
}
