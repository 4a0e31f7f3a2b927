package org.lwmq.core;

import java.util.HashMap;
import java.util.Map;

/**
 * The endpoints of streams that nobody else serves, one per address. The driver keeps them for its jobs. Thread-safe.
 *
 * <p>An endpoint is kept until the application ends, because a job that has written is over before a reader comes. If
 * the stream has unread batches then, it is kept until this process ends. The process waits a moment for a reader, and
 * says what it drops.
 */
public final class Endpoints {
  private static final Map<String, Endpoint> KEPT = new HashMap<>();

  /** How long a look at an address may take before it counts as unserved. */
  private static final int LOOK_MS = 150;

  /** How long the end of this process waits for readers of what was written, over all addresses. */
  private static final int LINGER_MS = 5000;

  static {
    Runtime.getRuntime().addShutdownHook(new Thread(Endpoints::closeAll, "lwmq-endpoints"));
  }

  private Endpoints() {}

  /**
   * Binds {@code address}, unless somebody serves it. Of two processes that do so together one binds, and the other
   * finds the address taken.
   */
  public static synchronized void ensureServed(String address) {
    if (KEPT.containsKey(address) || isServed(address)) {
      return;
    }
    try {
      KEPT.put(address, Endpoint.open(address));
    } catch (LwmqException e) {
      // The address is taken, by a process that was faster or was too busy to answer. The next question to it shows.
      if (e.status() != Status.ADDRESS) {
        throw e;
      }
    }
  }

  /** Whether this process keeps the endpoint of {@code address}. */
  public static synchronized boolean serves(String address) {
    return KEPT.containsKey(address);
  }

  /** The address {@code given}, with the port that was chosen in place of 0 if this process keeps its endpoint. */
  public static synchronized String bound(String given) {
    Endpoint kept = KEPT.get(given);
    if (kept == null) {
      return given;
    }
    int options = given.indexOf('?');
    return kept.address().split("\\?", 2)[0] + (options < 0 ? "" : given.substring(options));
  }

  /**
   * Closes the endpoint that this process keeps at {@code address}, as it was given or as it is bound. What nobody has
   * read goes with it. False: this process keeps none there.
   */
  public static synchronized boolean close(String address) {
    for (Map.Entry<String, Endpoint> kept : KEPT.entrySet()) {
      if (kept.getKey().equals(address) || kept.getValue().address().equals(address)) {
        KEPT.remove(kept.getKey()).close();
        return true;
      }
    }
    return false;
  }

  /** The application ends: closes the endpoints whose streams nobody has still to read. */
  public static synchronized void closeRead() {
    KEPT.entrySet().removeIf(
        kept -> {
          if (isUnread(kept.getKey())) {
            return false;
          }
          kept.getValue().close();
          return true;
        });
  }

  /** The process ends. Says on stderr what nobody has read, because logging may have ended before. */
  private static synchronized void closeAll() {
    Deadline deadline = Deadline.after(LINGER_MS);
    KEPT.forEach(
        (address, endpoint) -> {
          try {
            endpoint.close(deadline.slice(LINGER_MS));
          } catch (LwmqException e) {
            System.err.println("lwmq: this process ends, and what nobody has read goes with it: " + e.getMessage());
          }
        });
    KEPT.clear();
  }

  /** Whether its producers have ended and a reader has still to come, or the endpoint gives no answer. */
  private static boolean isUnread(String address) {
    try {
      return StreamState.look(address, LINGER_MS).state() == StreamState.State.ENDED;
    } catch (LwmqException e) {
      return true; // the end of the process says what is wrong
    }
  }

  private static boolean isServed(String address) {
    try {
      StreamState.look(address, LOOK_MS);
      return true;
    } catch (LwmqException e) {
      // ADDRESS: nobody can connect to it, such as port 0, or it is malformed. Its next use says so.
      if (e.status() == Status.TIMED_OUT || e.status() == Status.PEER_LOST || e.status() == Status.INTERRUPTED
          || e.status() == Status.ADDRESS) {
        return false;
      }
      throw e;
    }
  }
}
