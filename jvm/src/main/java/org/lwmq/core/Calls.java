package org.lwmq.core;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;

/** Messages by call-back: one daemon thread for all channels that have one, asleep while nothing comes. */
final class Calls {
  private static final System.Logger LOG = System.getLogger(Calls.class.getName());
  static final Calls ALL = new Calls();

  private final Selector selector = new Selector();
  private final Map<Channel, Consumer<Message>> callbacks = new HashMap<>();
  private Channel running;
  private Thread thread;

  synchronized void put(Channel channel, Consumer<Message> callback) {
    if (callbacks.put(channel, callback) == null) {
      selector.add(channel);
    }
    if (thread == null) {
      thread = new Thread(this::run, "lwmq-calls");
      thread.setDaemon(true);
      thread.start();
    }
  }

  /** Afterwards the call-back is not called, and does not run, unless it asks itself. */
  synchronized void drop(Channel channel) {
    if (callbacks.remove(channel) != null) {
      selector.remove(channel);
    }
    boolean wasInterrupted = false;
    while (running == channel && Thread.currentThread() != thread) {
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

  private void run() {
    while (true) {
      try {
        Channel channel = selector.select(Deadline.never());
        Consumer<Message> callback = begin(channel);
        if (callback != null) {
          call(channel, callback);
        }
      } catch (LwmqException e) {
        LOG.log(System.Logger.Level.WARNING, "lwmq: " + e.getMessage());
      } finally {
        end();
      }
    }
  }

  private synchronized Consumer<Message> begin(Channel channel) {
    Consumer<Message> callback = callbacks.get(channel);
    running = callback == null ? null : channel;
    return callback;
  }

  private synchronized void end() {
    running = null;
    notifyAll();
  }

  private static void call(Channel channel, Consumer<Message> callback) {
    Message message = channel.tryReceive();
    if (message == null) {
      return;
    }
    try (message) {
      callback.accept(message);
    } catch (RuntimeException e) {
      LOG.log(
          System.Logger.Level.ERROR, "lwmq: the call-back for messages of " + channel.address() + " has failed", e);
    }
  }
}
