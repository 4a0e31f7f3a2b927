package org.lwmq.core;

import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/**
 * Receives from many channels with one thread, in turns: each channel that has messages gives one before any channel
 * gives its next, however unequally they send (RFC 970). One thread receives at a time; a second one gets INVALID. Any
 * thread adds and removes.
 */
public final class Selector implements AutoCloseable {
  /** A message, which the caller closes, and the channel that it came over. */
  public record Received(Channel channel, Message message) {}

  private final Handle handle =
      Handle.shared(this, Jni.selectorCreate(), "selector", s -> Jni.selectorDestroy(s));
  private final Map<Long, Channel> channels = new HashMap<>(); // by native address; keeps them alive
  private final Map<Listener, Consumer<Channel>> listeners = new LinkedHashMap<>();
  private final Map<Long, Channel> removed = new HashMap<>(); // since the last receive began, which may still return one
  private final AtomicReference<Newcomer> newcomer = new AtomicReference<>(); // accepted, and not added yet
  private final AtomicBoolean isReceiving = new AtomicBoolean(); // some thread
  private final boolean isOfCalls;

  public Selector() {
    this(false);
  }

  private Selector(boolean isOfCalls) {
    this.isOfCalls = isOfCalls;
  }

  /** The selector of {@link Calls}. */
  static Selector ofCalls() {
    return new Selector(true);
  }

  private record Newcomer(Channel channel, Consumer<Channel> onClient) {}

  /** INVALID: the channel was added before, or {@link Requests} receive from it. */
  public synchronized void add(Channel channel) {
    channel.checkNotLent();
    channel.lendTo(
        c -> {
          handle.run(s -> Jni.selectorAdd(s, c));
          forgetClosed();
          removed.remove(c); // an older channel at the same address
          channels.put(c, channel);
          if (!isOfCalls) {
            channel.noteSelector(this);
          }
        });
  }

  private void forgetClosed() {
    for (Iterator<Map.Entry<Long, Channel>> all = channels.entrySet().iterator(); all.hasNext(); ) {
      Map.Entry<Long, Channel> known = all.next();
      if (!known.getValue().isOpen()) {
        removed.put(known.getKey(), known.getValue());
        all.remove();
      }
    }
  }

  synchronized boolean has(Channel channel) {
    return handle.isOpen() && channel.isOpen() && channels.containsValue(channel);
  }

  /** A closed channel is in no selector any more. INVALID: the channel is not in this selector. */
  public synchronized void remove(Channel channel) {
    try {
      channel.lendTo(
          c -> {
            handle.run(s -> Jni.selectorRemove(s, c));
            removed.put(c, channel);
          });
    } catch (LwmqException e) {
      if (e.status() != Status.CLOSED || channel.isOpen()) {
        throw e;
      }
    } finally {
      channels.values().remove(channel);
    }
  }

  /**
   * From now on the thread that receives also accepts clients of {@code listener} and adds their channels. The first
   * message that {@link #receive} gives of a channel shows that it is new. INVALID: the listener was added before.
   */
  public void add(Listener listener) {
    add(listener, channel -> {});
  }

  /**
   * The same. The thread that receives calls {@code onClient} with the channel of each client before it receives from
   * it. What {@code onClient} throws is thrown by that receive.
   */
  public synchronized void add(Listener listener, Consumer<Channel> onClient) {
    Objects.requireNonNull(onClient, "onClient is null: leave it out");
    listener.lendTo(l -> handle.run(s -> Jni.selectorAddListener(s, l)));
    listeners.keySet().removeIf(known -> !known.isOpen());
    listeners.put(listener, onClient);
  }

  /** The channels of its clients stay. A closed listener is in no selector any more. INVALID: it is not in this one. */
  public synchronized void remove(Listener listener) {
    listeners.remove(listener);
    try {
      listener.lendTo(l -> handle.run(s -> Jni.selectorRemoveListener(s, l)));
    } catch (LwmqException e) {
      if (e.status() != Status.CLOSED || listener.isOpen()) {
        throw e;
      }
    }
  }

  /** Accepts the clients that wait. If this fails halfway, the next call goes on with the client. */
  private void accept() {
    Map<Listener, Consumer<Channel>> all;
    synchronized (this) {
      all = new LinkedHashMap<>(listeners);
    }
    all.forEach(
        (listener, onClient) -> {
          greet();
          for (Channel came; (came = next(listener)) != null; greet()) {
            newcomer.set(new Newcomer(came, onClient));
          }
        });
  }

  private void greet() {
    Newcomer came = newcomer.getAndSet(null);
    if (came == null) {
      return;
    }
    try {
      add(came.channel());
    } catch (RuntimeException e) {
      if (handle.isOpen()) {
        newcomer.set(came);
      } else {
        came.channel().close(0);
      }
      throw e;
    }
    came.onClient().accept(came.channel());
  }

  /** Null: no client waits at the listener, or it is being closed and leaves the selector. */
  private Channel next(Listener listener) {
    try {
      return listener.tryAccept();
    } catch (LwmqException e) {
      if (e.status() != Status.CLOSED) {
        throw e;
      }
      ignoring(Status.CLOSED, Status.INVALID, () -> remove(listener)); // it may have left before
      return null;
    }
  }

  static void ignoring(Status one, Status other, Runnable call) {
    try {
      call.run();
    } catch (LwmqException e) {
      if (e.status() != one && e.status() != other) {
        throw e;
      }
    }
  }

  /**
   * The channel whose turn it is, which may have no message after all. Null: no turn came within {@code ms}, or the
   * channel was removed just now.
   */
  Channel selectOrNull(int ms) {
    try {
      return channel(selectOnce(ms));
    } catch (LwmqException e) {
      if (e.status().isFailure()) {
        throw e;
      }
      return null;
    }
  }

  private long selectOnce(int slice) {
    return alone(
        () -> {
          forgetRemoved();
          return handle.call(s -> Jni.selectorWait(s, slice));
        });
  }

  /** INVALID: another thread receives. */
  private long alone(LongSupplier receive) {
    if (!isReceiving.compareAndSet(false, true)) {
      throw new LwmqException(Status.INVALID, "another thread receives by this selector: one at a time");
    }
    try {
      return receive.getAsLong();
    } finally {
      isReceiving.set(false);
    }
  }

  private String waiting() {
    return "waiting for a message on " + size() + " channels";
  }

  /**
   * A message of the channel that {@link #selectOrNull} has just returned. Null: it has none, or was removed meanwhile.
   */
  Message take() {
    return Message.ofPointer(handle.call(Jni::selectorTake));
  }

  /**
   * The channel whose turn it is, for callers that receive from it themselves, such as buffers of raw channels. It may
   * have nothing after all. TIMED_OUT, INTERRUPTED.
   */
  public Channel select(Deadline deadline) {
    greet();
    while (true) {
      long came = deadline.await(waiting(), this::selectOnce);
      Channel whose = channel(came);
      if (whose != null) { // null: it was removed just now
        return whose;
      }
      if (came == 0) {
        accept();
      }
    }
  }

  /**
   * The next message of any channel. The end of a peer is thrown as by {@link Channel#receive}, with the channel in
   * {@link LwmqException#channel}; the other channels go on. A listener's channel whose client has gone leaves the
   * selector by itself; the caller still closes it. TIMED_OUT, INTERRUPTED.
   */
  public Received receive(Deadline deadline) {
    greet();
    while (true) {
      Channel[] whose = {null};
      long came;
      try {
        came = deadline.await(waiting(), slice -> alone(() -> receiveOnce(slice, whose)));
      } catch (LwmqException e) {
        throw ended(whose[0], e);
      }
      if (came != 0) {
        return new Received(whose[0], new Message(came));
      }
      accept();
    }
  }

  /** The next message of any channel, or null if there is none. Never waits. Throws what {@link #receive} throws. */
  public Received tryReceive() {
    try {
      return receive(Deadline.after(0));
    } catch (LwmqException e) {
      if (e.status() != Status.TIMED_OUT) {
        throw e;
      }
      return null;
    }
  }

  /**
   * A descriptor for epoll and the like. It is readable while a channel may have something or a client waits. Poll it
   * after {@link #tryReceive} has returned null. It is lent until close, and must not be read from.
   */
  public int descriptor() {
    return handle.call(Jni::selectorDescriptor);
  }

  private long receiveOnce(int slice, Channel[] whose) {
    forgetRemoved();
    long[] pointer = {0};
    return handle.call(
        s -> {
          try {
            return Jni.selectorReceive(s, slice, pointer);
          } finally {
            whose[0] = channel(pointer[0]); // inside of the call, for which close waits
          }
        });
  }

  /** The call for which they were kept is over. */
  private synchronized void forgetRemoved() {
    removed.clear();
  }

  private LwmqException ended(Channel channel, LwmqException why) {
    if (channel != null && channel.isAccepted() && why.status().endsPeer()) {
      ignoring(Status.CLOSED, Status.INVALID, () -> remove(channel)); // it may have left before
    }
    return why.of(channel);
  }

  /** The number of channels. Closed ones count until the next {@link #add}. */
  public synchronized int size() {
    return channels.size();
  }

  private synchronized Channel channel(long pointer) {
    Channel known = channels.get(pointer);
    return known != null ? known : removed.get(pointer);
  }

  /** Any thread. Waits until a thread that receives has got CLOSED, at most 200 ms. The channels live on. */
  @Override
  public void close() {
    handle.close(); // without the lock, which the thread that receives may need
    Newcomer unheard = newcomer.getAndSet(null);
    if (unheard != null) {
      unheard.channel().close(0);
    }
    synchronized (this) {
      channels.clear();
      removed.clear();
      listeners.clear();
    }
  }

  @Override
  public synchronized String toString() {
    return handle.isOpen() ? "Selector of " + channels.size() + " channels" : "Selector closed";
  }
}
