package org.lwmq.core;

/** Serves one stream at one address, for as long as it is open. Thread-safe. */
public final class Endpoint implements AutoCloseable {
  private final String address;
  private final Handle handle;

  private Endpoint(long endpoint) {
    this.address = Identity.text(Jni.endpointAddress(endpoint));
    this.handle = new Handle(this, endpoint, "endpoint " + address, e -> closeQuietly(e));
  }

  /** Binds {@code address}; ADDRESS if somebody else has. */
  public static Endpoint open(String address) {
    return new Endpoint(Jni.endpointOpen(Jni.uri(address)));
  }

  /** With the port that the system has chosen in place of 0. */
  public String address() {
    return address;
  }

  /**
   * Waits at most {@code lingerMs} until nothing is unread and everybody has left, then closes in any case.
   * TIMED_OUT: closed, the text says how many batches were not read. Twice is allowed.
   */
  public void close(int lingerMs) {
    Arguments.notNegative("lingerMs", lingerMs);
    long endpoint = handle.take();
    if (endpoint != 0) {
      Jni.endpointClose(endpoint, lingerMs);
    }
  }

  @Override
  public void close() {
    handle.close();
  }

  private static void closeQuietly(long endpoint) {
    try {
      Jni.endpointClose(endpoint, 0);
    } catch (LwmqException e) {
      if (e.status() != Status.TIMED_OUT) { // unread batches: the caller asked not to wait for them
        throw e;
      }
    }
  }
}
