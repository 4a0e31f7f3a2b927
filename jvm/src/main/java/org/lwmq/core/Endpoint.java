package org.lwmq.core;

/** Serves a stream in this process, for as long as it is open; streams of one address share an endpoint. Thread-safe. */
public final class Endpoint implements AutoCloseable {
  private final String address;
  private final Handle handle;

  private Endpoint(String address, long endpoint) {
    this.address = address;
    this.handle = new Handle(this, endpoint, "endpoint " + address, e -> closeQuietly(e));
  }

  /** Makes the stream, and binds its address. ADDRESS: the stream is there, or another process serves the address. */
  public static Endpoint open(String address) {
    return new Endpoint(address, Jni.endpointOpen(Jni.uri(address)));
  }

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
