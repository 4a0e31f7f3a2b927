package org.lwmq.core;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/** Messages by call-back: one daemon thread for all channels that have a receiver, asleep while nothing comes. */
final class Calls {
  private static final System.Logger LOG = System.getLogger(Calls.class.getName());
  private static final long SHORTAGE_NANOS = 50_000_000;
  static final Calls ALL = new Calls();

  private Selector selector; // made with the first receiver
  private final Map<Channel, Receiver> receivers = new HashMap<>();
  private Channel running;
  private volatile Thread thread; // written by put alone

  /** Who gets what a channel receives, on our thread. */
  interface Receiver {
    /** {@code message} is closed behind it. */
    void came(Message message);

    /** The conversation with a peer has ended; or a receive has failed for another reason. */
    void ended(LwmqException why);

    /** Whether another one of this sort may take its place. */
    default boolean givesWay() {
      return false;
    }
  }

  /** An application's; {@code onEnd} is null where ends are logged. */
  record CallBack(Channel channel, Consumer<Message> onMessage, Consumer<LwmqException> onEnd) implements Receiver {
    @Override
    public void came(Message message) {
      guarded(onMessage, message, "messages");
    }

    @Override
    public void ended(LwmqException why) {
      if (channel.isAccepted() && PendingRequests.endsPeer(why.status())) {
        ALL.drop(channel, this); // nobody follows
      }
      if (onEnd == null) {
        LOG.log(System.Logger.Level.WARNING, "lwmq: " + why.getMessage());
      } else {
        guarded(onEnd, why, "the end");
      }
    }

    private <T> void guarded(Consumer<T> callback, T what, String of) {
      try {
        callback.accept(what);
      } catch (Throwable e) { // whatever it is: others wait for their messages
        LOG.log(
            System.Logger.Level.ERROR,
            "lwmq: the call-back for " + of + " of " + channel.address() + " has failed",
            e);
      }
    }

    @Override
    public boolean givesWay() {
      return true;
    }
  }

  /** INVALID: the channel has a receiver, and one of the two does not give way. CLOSED: it is being closed. */
  synchronized void put(Channel channel, Receiver receiver) {
    if (channel.isClosing()) { // whoever closes drops behind this, or has
      throw new LwmqException(Status.CLOSED, "channel " + channel.address() + " is closed");
    }
    Receiver known = receivers.get(channel);
    if (known == null) {
      if (selector == null) {
        selector = Selector.ofCalls();
      }
      selector.add(channel);
    } else if (!known.givesWay() || !receiver.givesWay()) {
      throw new LwmqException(
          Status.INVALID,
          "the messages of " + channel.address() + " go to requests or to a call-back: end those first");
    }
    receivers.put(channel, receiver);
    if (thread == null || !thread.isAlive()) {
      Thread made = new Thread(this::run, "lwmq-calls");
      made.setDaemon(true);
      made.start();
      thread = made;
    }
  }

  /** As {@link #drop}, of whoever may be replaced: an application's call-back. */
  synchronized void dropCallBack(Channel channel) {
    Receiver known = receivers.get(channel);
    if (known == null || known.givesWay()) {
      drop(channel, known);
    }
  }

  /** Afterwards {@code receiver} gets nothing of {@code channel}, and does not run, unless it asks itself. */
  synchronized void drop(Channel channel, Receiver receiver) {
    if (receiver != null && receivers.remove(channel, receiver)) {
      Selector.ignoring(Status.CLOSED, Status.INVALID, () -> selector.remove(channel)); // both: it has left before
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
        Channel channel = selector.selectUninterrupted();
        Receiver receiver = begin(channel);
        if (receiver != null) {
          call(receiver);
        }
      } catch (LwmqException e) {
        LOG.log(System.Logger.Level.WARNING, "lwmq: " + e.getMessage());
      } catch (Throwable e) { // such as no memory for a message: this thread is everybody's
        LOG.log(System.Logger.Level.ERROR, "lwmq: receiving for a call-back has failed", e);
      } finally {
        end();
      }
    }
  }

  private synchronized Receiver begin(Channel channel) {
    Receiver receiver = receivers.get(channel);
    running = receiver == null ? null : channel;
    return receiver;
  }

  private synchronized void end() {
    running = null;
    notifyAll();
  }

  private void call(Receiver receiver) {
    Message message;
    try {
      message = selector.take();
    } catch (LwmqException e) {
      receiver.ended(e.ofEnd(Jni.lastEnd()));
      if (e.status() == Status.NO_MEMORY) { // what has come waits: for others to give some back
        LockSupport.parkNanos(SHORTAGE_NANOS);
      }
      return;
    }
    if (message != null) {
      try (message) {
        receiver.came(message);
      }
    }
  }
}
