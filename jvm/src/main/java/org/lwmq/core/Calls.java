package org.lwmq.core;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.ToIntFunction;

/**
 * Receives for call-backs and for {@link Requests}: one daemon thread for all channels that have a receiver. It sleeps
 * while nothing comes, and wakes every 1.6 s; while there are requests, every 0.2 s.
 */
final class Calls {
  private static final System.Logger LOG = System.getLogger(Calls.class.getName());
  private static final long SHORTAGE_NANOS = 50_000_000;
  static final Calls ALL = new Calls();

  private Selector selector; // made with the first receiver
  private final Map<Channel, Receiver> receivers = new HashMap<>();
  private Channel running;
  private volatile Thread thread; // written by put alone
  private volatile Deadline tick; // when receivers are asked whether their time has come

  /** Gets what a channel receives, on the thread of this class. */
  interface Receiver {
    /** The caller closes {@code message} afterwards. */
    void came(Message message);

    /** A receive has failed: the conversation with a peer has ended, or there is another reason. */
    void ended(LwmqException why);

    /**
     * Called from time to time, also while nothing comes. Answers the milliseconds within which it is to be called
     * again.
     */
    default int tick() {
      return Deadline.LONG_SLICE_MS;
    }

    /** Whether another receiver of this kind may take its place. */
    default boolean givesWay() {
      return false;
    }
  }

  /** The call-backs of an application. {@code onEnd} is null where ends are logged. */
  record CallBack(Channel channel, Consumer<Message> onMessage, Consumer<LwmqException> onEnd) implements Receiver {
    @Override
    public void came(Message message) {
      guarded(onMessage, message, "messages");
    }

    @Override
    public void ended(LwmqException why) {
      if (channel.isAccepted() && why.status().endsPeer()) {
        ALL.drop(channel, this); // nobody follows the only client
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
      } catch (Throwable e) { // of any kind: other channels wait for their messages
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

  /**
   * INVALID: the channel has a receiver, and one of the two cannot be replaced. CLOSED: the channel is being closed.
   */
  synchronized void put(Channel channel, Receiver receiver) {
    if (channel.isClosing()) { // a close that begins now drops the receiver later
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
    tick = Deadline.after(0); // a channel that is new in the selector gets a turn at once
    if (thread == null || !thread.isAlive()) {
      Thread made = new Thread(this::run, "lwmq-calls");
      made.setDaemon(true);
      made.start();
      thread = made;
    }
  }

  /** Drops the call-back of an application, if there is one. */
  synchronized void dropCallBack(Channel channel) {
    Receiver known = receivers.get(channel);
    if (known == null || known.givesWay()) {
      drop(channel, known);
    }
  }

  /** Afterwards {@code receiver} gets nothing of {@code channel} and does not run, unless it is the caller itself. */
  synchronized void drop(Channel channel, Receiver receiver) {
    if (receiver != null && receivers.remove(channel, receiver)) {
      Selector.ignoring(Status.CLOSED, Status.INVALID, () -> selector.remove(channel)); // it may have left before
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
        Channel channel = selector.selectOrNull(tick.slice(Deadline.LONG_SLICE_MS));
        if (channel != null) {
          serve(channel, this::receive);
        }
      } catch (LwmqException e) {
        LOG.log(System.Logger.Level.WARNING, "lwmq: " + e.getMessage());
      }
      if (tick.isOver()) {
        int next = Deadline.LONG_SLICE_MS;
        for (Channel channel : channels()) {
          next = Math.min(next, serve(channel, Receiver::tick));
        }
        tick = Deadline.after(next);
      }
    }
  }

  private synchronized List<Channel> channels() {
    return List.copyOf(receivers.keySet());
  }

  /** What {@code call} answers for the receiver of {@code channel}, if there is one. {@link #drop} waits for it. */
  private int serve(Channel channel, ToIntFunction<Receiver> call) {
    try {
      Receiver receiver = begin(channel);
      return receiver == null ? Deadline.LONG_SLICE_MS : call.applyAsInt(receiver);
    } catch (LwmqException e) {
      LOG.log(System.Logger.Level.WARNING, "lwmq: " + e.getMessage());
    } catch (Throwable e) { // such as no memory for a message: other channels wait for this thread
      LOG.log(System.Logger.Level.ERROR, "lwmq: receiving for a call-back has failed", e);
    } finally {
      end();
    }
    return Deadline.SLICE_MS;
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

  /** Takes one message of the channel whose turn it is, if it has one. */
  private int receive(Receiver receiver) {
    Message message;
    try {
      message = selector.take();
    } catch (LwmqException e) {
      receiver.ended(e);
      if (e.status() == Status.NO_MEMORY) { // what has come stays there until others have given some back
        LockSupport.parkNanos(SHORTAGE_NANOS);
      }
      return 0;
    }
    if (message != null) {
      try (message) {
        receiver.came(message);
      }
    }
    return 0;
  }
}
