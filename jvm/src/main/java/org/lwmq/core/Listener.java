package org.lwmq.core;

import java.util.function.LongConsumer;

/**
 * One address, many clients: each that comes is given a {@link Channel} of its own, which is for that client alone. Any
 * threads accept, several at once, and any thread closes. With a {@link Selector} one thread serves all of them.
 */
public final class Listener implements AutoCloseable {
  private final String address;
  private final Channel.Options options;
  private final Handle handle;
  private final InUse use = new InUse();
  private volatile Statistics last; // behind our close

  /**
   * Counters.
   *
   * @param waiting connected and not accepted, now
   * @param refused of another version, purpose or user, or with numbers that do not fit ours
   * @param refusal why the last of these was; empty where there is none
   */
  public record Statistics(long accepted, long waiting, long refused, String refusal) {}

  private Listener(String address, Channel.Options options) {
    this.options = options;
    long opened = Jni.listenerOpen(Jni.uri(address), options.fields());
    this.address = Identity.text(Jni.listenerAddress(opened));
    this.handle = Handle.shared(this, opened, "listener " + this.address, l -> Jni.listenerDestroy(l));
  }

  /**
   * Binds {@code address}; does not wait for clients. {@code options} are those of each channel that it gives; at home is
   * the thread that accepts. Filters of the address are one list for all of them. Each transport of a client is a client
   * here: one with redundant transports would be heard twice. Errors as of {@link Channel#open};
   * INVALID: redundant.
   */
  public static Listener open(String address, Channel.Options options) {
    if (options.isRedundant()) {
      throw new LwmqException(Status.INVALID, "redundant clients of a listener, " + address + ": each has one way to it");
    }
    return new Listener(address, options);
  }

  /**
   * The channel of the next client. When the client has gone, what it left can be received, then comes CLOSED, or
   * PEER_LOST, and from then on, as for posts at once, CLOSED. It lives on when the listener is closed. What a client
   * sends before it is accepted waits. TIMED_OUT, INTERRUPTED, CLOSED.
   */
  public Channel accept(Deadline deadline) {
    return channel(
        deadline.await(
            "waiting for a client at " + address,
            slice -> use.enter(() -> handle.call(l -> Jni.listenerAccept(l, slice)))));
  }

  /** The channel of a client that is there, else null. Never waits. */
  public Channel tryAccept() {
    long came = use.enter(() -> handle.call(Jni::listenerTryAccept));
    return came == 0 ? null : channel(came);
  }

  private Channel channel(long accepted) {
    return Channel.accepted(address, accepted, options);
  }

  /** For epoll and the like: readable while a client waits. Lent until close; not to be read from. */
  public int descriptor() {
    return use.enter(() -> handle.call(Jni::listenerDescriptor));
  }

  /** Where clients reach it, without options: with the port, say, that was left to the provider. */
  public String address() {
    return address;
  }

  /** Behind the close the last ones. Never waits. */
  public Statistics statistics() {
    return Channel.lastOr(() -> last, () -> use.enter(() -> handle.call(Listener::query)));
  }

  private static Statistics query(long listener) {
    byte[][] refusal = new byte[1][];
    long[] n = Jni.listenerQuery(listener, refusal);
    return new Statistics(n[0], n[1], n[2], Identity.text(refusal[0]));
  }

  /** Lends the native listener to {@code user}. */
  void lendTo(LongConsumer user) {
    use.enter(
        () -> {
          handle.run(user);
          return null;
        });
  }

  boolean isOpen() {
    return !use.isEnded();
  }

  /**
   * Frees the address. Channels that it gave live on, clients that nobody has accepted see their peer close, and who waits
   * to accept gets CLOSED. Twice is once.
   */
  @Override
  public void close() {
    try {
      lendTo(
          l -> {
            Jni.listenerClose(l); // those who wait leave
            last = query(l);
          });
    } catch (LwmqException e) {
      if (e.status() != Status.CLOSED) {
        throw e;
      }
    }
    if (use.end(new LwmqException(Status.CLOSED, "listener " + address + " is closed"))) {
      handle.close();
    }
  }

  @Override
  public String toString() {
    return "Listener " + address + ", " + (isOpen() ? "open" : "closed");
  }
}
