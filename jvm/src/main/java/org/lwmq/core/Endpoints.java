package org.lwmq.core;

import java.util.HashMap;
import java.util.Map;

/**
 * The endpoints that this process keeps on behalf of jobs whose stream nobody else serves, one per address. Lives in
 * the driver. Thread-safe.
 *
 * <p>Kept until the application ends, because who wrote to such a stream is gone before who reads it comes; and where
 * something is unread then, until this process ends, which waits a moment for a reader and says what it drops.
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
   * Makes sure that somebody serves {@code address}: returns at once if anybody does, else binds it. Two processes
   * that come here together: one binds, the other finds the address taken, which is as good. So it is where another
   * process serves the address and the stream is not there yet: a client makes it, or waits for it.
   */
  public static synchronized void ensureServed(String address) {
    if (KEPT.containsKey(address) || isServed(address)) {
      return;
    }
    try {
      KEPT.put(address, Endpoint.open(address));
    } catch (LwmqException e) {
      // Taken: by somebody faster, or too busy to answer our look. What is wrong with them shows when they are asked.
      if (e.status() != Status.ADDRESS) {
        throw e;
      }
    }
  }

  /** Whether this process keeps the endpoint of {@code address}. */
  public static synchronized boolean keeps(String address) {
    return KEPT.containsKey(address);
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

  /** The process ends. Says on stderr what nobody has read: logging may have ended before. */
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

  /** Its producers have ended, and there is something to read, if only the end; or nobody can say. */
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
      if (e.status() == Status.TIMED_OUT || e.status() == Status.PEER_LOST || e.status() == Status.INTERRUPTED) {
        return false;
      }
      throw e;
    }
  }
}
