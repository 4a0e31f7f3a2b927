package org.lwmq.core;

import java.util.HashMap;
import java.util.Map;

/**
 * The endpoints that this process keeps on behalf of jobs whose stream nobody else serves, one per address. Lives in
 * the driver. Thread-safe.
 *
 * <p>Kept until {@link #closeAll}, because who wrote to such a stream is gone before who reads it comes.
 */
public final class Endpoints {
  private static final Map<String, Endpoint> KEPT = new HashMap<>();

  /** How long a look at an address may take before it counts as unserved. */
  private static final int LOOK_MS = 150;

  static {
    Runtime.getRuntime().addShutdownHook(new Thread(Endpoints::closeAll, "lwmq-endpoints"));
  }

  private Endpoints() {}

  /**
   * Makes sure that somebody serves {@code address}: returns at once if anybody does, else binds it. Two processes
   * that come here together: one binds, the other finds the address taken, which is as good.
   */
  public static synchronized void ensureServed(String address) {
    if (KEPT.containsKey(address) || isServed(address)) {
      return;
    }
    try {
      KEPT.put(address, Endpoint.open(address));
    } catch (LwmqException e) {
      if (e.status() != Status.ADDRESS || !isServed(address)) {
        throw e;
      }
    }
  }

  /** Whether this process keeps the endpoint of {@code address}. */
  public static synchronized boolean keeps(String address) {
    return KEPT.containsKey(address);
  }

  /** Closes every endpoint kept here, without waiting for readers. */
  public static synchronized void closeAll() {
    KEPT.values().forEach(Endpoint::close);
    KEPT.clear();
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
