package org.lwmq.core;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;

/** Messages by call-back: one daemon thread for all channels that have a listener, asleep while nothing comes. */
final class Calls {
  private static final System.Logger LOG = System.getLogger(Calls.class.getName());
  static final Calls ALL = new Calls();

  private final Selector selector = new Selector();
  private final Map<Channel, Listener> listeners = new HashMap<>();
  private Channel running;
  private volatile Thread thread; // written by put alone

  /** Who gets what a channel receives, on our thread. */
  interface Listener {
    /** {@code message} is closed behind it. */
    void came(Message message);

    /** The conversation with a peer has ended; or a receive has failed for another reason. */
    void ended(LwmqException why);

    /** Whether another one of this sort may take its place. */
    default boolean givesWay() {
      return false;
    }
  }

  /** An application's. */
  record CallBack(Channel channel, Consumer<Message> callback) implements Listener {
    @Override
    public void came(Message message) {
      try {
        callback.accept(message);
      } catch (RuntimeException e) {
        LOG.log(
            System.Logger.Level.ERROR, "lwmq: the call-back for messages of " + channel.address() + " has failed", e);
      }
    }

    @Override
    public void ended(LwmqException why) {
      LOG.log(System.Logger.Level.WARNING, "lwmq: " + why.getMessage());
    }

    @Override
    public boolean givesWay() {
      return true;
    }
  }

  /** INVALID: the channel has a listener, and one of the two does not give way. */
  synchronized void put(Channel channel, Listener listener) {
    Listener known = listeners.get(channel);
    if (known == null) {
      selector.add(channel);
    } else if (!known.givesWay() || !listener.givesWay()) {
      throw new LwmqException(
          Status.INVALID,
          "the messages of " + channel.address() + " go to requests or to a call-back: end those first");
    }
    listeners.put(channel, listener);
    if (thread == null) {
      thread = new Thread(this::run, "lwmq-calls");
      thread.setDaemon(true);
      thread.start();
    }
  }

  /** Afterwards the call-back is not called, and does not run, unless it asks itself. */
  synchronized void drop(Channel channel) {
    if (listeners.remove(channel) != null) {
      selector.remove(channel);
    }
    boolean wasInterrupted = false;
    while (running == channel && !isOwnThread()) {
      try {
        wait();
      } catch (InterruptedException e) {
        wasInterrupted = true;
      }
    }
    if (wasInterrupted) {
      Thread.currentThread().interrupt();
    }
  }

  boolean isOwnThread() {
    return Thread.currentThread() == thread;
  }

  private void run() {
    while (true) {
      Thread.interrupted(); // left by a call-back: it would end every wait from now on
      try {
        Channel channel = selector.select(Deadline.never());
        Listener listener = begin(channel);
        if (listener != null) {
          call(listener);
        }
      } catch (LwmqException e) {
        LOG.log(System.Logger.Level.WARNING, "lwmq: " + e.getMessage());
      } finally {
        end();
      }
    }
  }

  private synchronized Listener begin(Channel channel) {
    Listener listener = listeners.get(channel);
    running = listener == null ? null : channel;
    return listener;
  }

  private synchronized void end() {
    running = null;
    notifyAll();
  }

  private void call(Listener listener) {
    Message message;
    try {
      message = selector.take();
    } catch (LwmqException e) {
      listener.ended(e);
      return;
    }
    if (message != null) {
      try (message) {
        listener.came(message);
      }
    }
  }
}
