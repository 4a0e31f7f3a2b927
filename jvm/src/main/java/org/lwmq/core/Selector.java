package org.lwmq.core;

import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * Many channels by one thread, in turns: each that has something gives one message before any gives its next, however
 * unequally they send (RFC 970). One thread receives at a time (INVALID for a second one); any thread adds and removes.
 */
public final class Selector implements AutoCloseable {
  /** A message, which the caller closes, and the channel that it came over. */
  public record Received(Channel channel, Message message) {}

  private final Handle handle =
      Handle.shared(this, Jni.selectorCreate(), "selector", s -> Jni.selectorDestroy(s));
  private final Map<Long, Channel> channels = new HashMap<>(); // keeps them
  private final Map<Listener, Consumer<Channel>> listeners = new LinkedHashMap<>();
  private final Map<Long, Channel> removed = new HashMap<>(); // since the last receive began, which may still have one
  private final AtomicReference<Newcomer> newcomer = new AtomicReference<>(); // not added yet; who takes it has it
  private final AtomicReference<Thread> receiver = new AtomicReference<>(); // null: nobody receives
  private final boolean isOfCalls;

  public Selector() {
    this(false);
  }

  private Selector(boolean isOfCalls) {
    this.isOfCalls = isOfCalls;
  }

  /** For {@link Calls}, by which others receive. */
  static Selector ofCalls() {
    return new Selector(true);
  }

  private record Newcomer(Channel channel, Consumer<Channel> onClient) {}

  /** INVALID: it was added before, or {@link Requests} receive from it. */
  public synchronized void add(Channel channel) {
    channel.checkNotLent();
    channel.lendTo(
        c -> {
          handle.run(s -> Jni.selectorAdd(s, c));
          forgetClosed();
          removed.remove(c); // another one that was there
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

  /** One that is closed is in no selector any more. INVALID: it is not there. */
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
   * From now on clients of {@code listener} are accepted and added as they come, by whoever receives: a channel is new
   * where {@link #receive} gives its first message. INVALID: it was added before.
   */
  public void add(Listener listener) {
    add(listener, channel -> {});
  }

  /**
   * The same, with {@code onClient} called with the channel of each client, by whoever receives, before anything of it is;
   * what it throws comes out there.
   */
  public synchronized void add(Listener listener, Consumer<Channel> onClient) {
    Objects.requireNonNull(onClient, "onClient is null: leave it out");
    listener.lendTo(l -> handle.run(s -> Jni.selectorAddListener(s, l)));
    listeners.keySet().removeIf(known -> !known.isOpen());
    listeners.put(listener, onClient);
  }

  /** The channels that came of it stay. One that is closed is in no selector any more. INVALID: it is not there. */
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

  /** Those who wait. What ends this halfway leaves the client for the next time. */
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

  /** Null: nobody waits there, or it is being closed, and leaves us. */
  private Channel next(Listener listener) {
    try {
      return listener.tryAccept();
    } catch (LwmqException e) {
      if (e.status() != Status.CLOSED) {
        throw e;
      }
      ignoring(Status.CLOSED, Status.INVALID, () -> remove(listener)); // both: it has left before
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
   * The channel whose turn it is; it may have nothing all the same. Null where it was removed just now. For a thread that
   * nobody interrupts: it wakes every 1.6 s.
   */
  Channel selectUninterrupted() {
    return alone(() -> channel(Deadline.never().awaitInLongSlices(waiting(), this::selectOnce)));
  }

  private long selectOnce(int slice) {
    forgetRemoved();
    return handle.call(s -> Jni.selectorWait(s, slice));
  }

  /** INVALID: beside another thread. A call-back of ours that receives is within. */
  private <T> T alone(Supplier<T> receive) {
    Thread us = Thread.currentThread();
    Thread other = receiver.compareAndExchange(null, us);
    if (other == us) {
      return receive.get();
    }
    if (other != null) {
      throw new LwmqException(Status.INVALID, "another thread receives by this selector: one at a time");
    }
    try {
      return receive.get();
    } finally {
      receiver.set(null);
    }
  }

  private String waiting() {
    return "waiting for a message on " + size() + " channels";
  }

  /** Of the channel that the last call, {@link #selectUninterrupted}, has given: null where it has nothing, or was removed since. */
  Message take() {
    return Message.ofPointer(handle.call(Jni::selectorTake));
  }

  /**
   * The channel whose turn it is, for who receives from it himself, as buffers of raw channels; it may have nothing all the
   * same. TIMED_OUT, INTERRUPTED.
   */
  public Channel select(Deadline deadline) {
    return alone(() -> selectNext(deadline));
  }

  private Channel selectNext(Deadline deadline) {
    greet();
    while (true) {
      long came = deadline.await(waiting(), this::selectOnce);
      Channel whose = channel(came);
      if (whose != null) { // else it was removed just now
        return whose;
      }
      if (came == 0) {
        accept();
      }
    }
  }

  /**
   * The next message of any. What ends a peer's conversation is thrown as by {@link Channel#receive}, with its channel
   * ({@link LwmqException#channel}); the others go on. A listener's channel whose client has gone leaves by itself, and is
   * still to be closed. TIMED_OUT, INTERRUPTED.
   */
  public Received receive(Deadline deadline) {
    return alone(() -> receiveNext(deadline));
  }

  private Received receiveNext(Deadline deadline) {
    greet();
    while (true) {
      Channel[] whose = {null};
      long came;
      try {
        came = deadline.await(waiting(), slice -> receiveOnce(slice, whose));
      } catch (LwmqException e) {
        throw ended(whose[0], e);
      }
      if (came != 0) {
        return new Received(whose[0], new Message(came));
      }
      accept();
    }
  }

  /** The next message of any if one is there, else null. Never waits; throws as {@link #receive} does. */
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
   * For epoll and the like: readable while a channel may have something or a client waits, to be polled when
   * {@link #tryReceive} has answered null. Lent until close; not to be read from.
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
            whose[0] = channel(pointer[0]); // in the call, for which a close of ours waits
          }
        });
  }

  /** Of the call before: none has one of them any more. */
  private synchronized void forgetRemoved() {
    removed.clear();
  }

  private LwmqException ended(Channel channel, LwmqException why) {
    if (channel != null && channel.isAccepted() && PendingRequests.endsPeer(why.status())) {
      ignoring(Status.CLOSED, Status.INVALID, () -> remove(channel)); // both: it has left before
    }
    return why.of(channel);
  }

  /** How many channels it has; those that were closed count until the next {@link #add}. */
  public synchronized int size() {
    return channels.size();
  }

  private synchronized Channel channel(long pointer) {
    Channel known = channels.get(pointer);
    return known != null ? known : removed.get(pointer);
  }

  /** Any thread; whoever receives gets CLOSED, within 200 ms, for which this waits. The channels live on. */
  @Override
  public void close() {
    handle.close(); // under no lock of ours: who receives may need it
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
