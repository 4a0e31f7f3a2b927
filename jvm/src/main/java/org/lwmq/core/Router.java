package org.lwmq.core;

import java.util.HashMap;
import java.util.Map;
import java.util.Objects;

/**
 * Which send queues a message goes to, by what it says of itself. A route has a pattern for one frame (the first is the
 * topic, others are headers), as of AMQP 0-9-1 topic exchanges: words between dots, of which {@code *} is any one and
 * {@code #} any number. Any thread; the queues are of kinds that any thread may post to, so not MONO_UNBOUNDED.
 */
public final class Router implements AutoCloseable {
  private final Handle handle = Handle.shared(this, Jni.routerCreate(), "router", r -> Jni.routerDestroy(r));
  private final Map<SendQueue, Integer> routes = new HashMap<>(); // keeps the queues

  /**
   * Leads messages whose first frame matches to {@code queue}, once, however many of its routes without a group match; errors as below.
   */
  public void add(String pattern, SendQueue queue) {
    add(0, pattern, null, queue);
  }

  /**
   * The same for frame {@code frame}; of the routes that name the same {@code group} (null: none) one gets a message, in
   * turns, passing over those whose channel has no peer now and over bounded queues that are full; where no channel of the
   * group has a peer, one of them keeps it for its next peer. INVALID: a malformed pattern, a route that is there already,
   * a frame below 0, or a queue of kind MONO_UNBOUNDED, which has one poster. CLOSED: the channel of the queue.
   */
  public synchronized void add(int frame, String pattern, String group, SendQueue queue) {
    Arguments.notNegative("frame", frame);
    Objects.requireNonNull(pattern, "the pattern is null: # is every word");
    queue.checkHasManyPosters();
    queue.lendTo(
        q -> handle.run(r -> Jni.routerAdd(r, frame, Jni.utf8(pattern), Jni.utf8(group), q)));
    routes.keySet().removeIf(known -> !known.isOpen());
    routes.merge(queue, 1, Integer::sum);
  }

  /** INVALID: there is no such route. CLOSED: it went with its channel. */
  public synchronized void remove(int frame, String pattern, String group, SendQueue queue) {
    Arguments.notNegative("frame", frame);
    Objects.requireNonNull(pattern, "the pattern is null: # is every word");
    queue.lendTo(
        q -> handle.run(r -> Jni.routerRemove(r, frame, Jni.utf8(pattern), Jni.utf8(group), q)));
    routes.computeIfPresent(queue, (known, count) -> count == 1 ? null : count - 1);
  }

  /** Takes every route to {@code queue} away; with its channel they have gone already. */
  public synchronized void forget(SendQueue queue) {
    if (routes.remove(queue) != null && queue.isOpen()) {
      queue.lendTo(q -> handle.run(r -> Jni.routerForget(r, q)));
    }
  }

  /**
   * How many queues have {@code message} now; it is taken unless that is none. FULL: no queue of a group has room.
   * TOO_BIG, CLOSED: of one of the queues; the others have it.
   */
  public int post(Message message) {
    int[] queues = {0};
    message.lendTo(
        m -> {
          try {
            handle.run(r -> Jni.routerPost(r, m, queues));
          } finally {
            if (queues[0] > 0) {
              message.taken();
            }
          }
        });
    return queues[0];
  }

  /** Any thread; waits for those who post. The queues live on. */
  @Override
  public void close() {
    handle.close();
  }

  @Override
  public synchronized String toString() {
    if (!handle.isOpen()) {
      return "Router closed";
    }
    int queues = 0;
    int count = 0;
    for (Map.Entry<SendQueue, Integer> route : routes.entrySet()) {
      if (route.getKey().isOpen()) { // the others have gone with their channels
        queues++;
        count += route.getValue();
      }
    }
    return "Router of " + count + " routes to " + queues + " queues";
  }
}
