package org.lwmq.core;

import java.util.HashMap;
import java.util.Map;

/**
 * Many channels by one thread, in turns: each that has something gives one message before any gives its next, however
 * unequally they send (RFC 970). One thread receives at a time; any thread adds and removes.
 */
public final class Selector implements AutoCloseable {
  /** A message, which the caller closes, and the channel that it came over. */
  public record Received(Channel channel, Message message) {}

  private final Handle handle = new Handle(this, Jni.selectorCreate(), "selector", s -> Jni.selectorDestroy(s));
  private final Map<Long, Channel> channels = new HashMap<>(); // keeps them

  /** INVALID: it was added before. */
  public synchronized void add(Channel channel) {
    channel.lendTo(
        c -> {
          handle.run(s -> Jni.selectorAdd(s, c));
          channels.values().removeIf(known -> !known.isOpen());
          channels.put(c, channel);
        });
  }

  /** One that is closed is in no selector any more. INVALID: it is not there. */
  public synchronized void remove(Channel channel) {
    channels.values().remove(channel);
    if (channel.isOpen()) {
      channel.lendTo(c -> handle.run(s -> Jni.selectorRemove(s, c)));
    }
  }

  /**
   * The channel whose turn it is; it may have nothing all the same. Null where it was removed just now. For a thread that
   * nobody interrupts: it wakes every 1.6 s.
   */
  Channel select(Deadline deadline) {
    return channel(
        deadline.awaitInLongSlices(
            "waiting for a message on " + size() + " channels",
            slice -> handle.call(s -> Jni.selectorWait(s, slice))));
  }

  /** Of the channel that the last call, {@link #select}, has given: null where it has nothing, or was removed since. */
  Message take() {
    return Message.ofPointer(handle.call(Jni::selectorTake));
  }

  /**
   * The next message of any. What ends a peer's conversation is thrown as by {@link Channel#receive}; the others go on.
   * TIMED_OUT, INTERRUPTED.
   */
  public Received receive(Deadline deadline) {
    long[] came =
        deadline.await(
            "waiting for a message on " + size() + " channels",
            slice -> handle.call(s -> Jni.selectorReceive(s, slice)));
    return new Received(channel(came[0]), new Message(came[1]));
  }

  /** How many channels it has; those that were closed count until the next {@link #add}. */
  public synchronized int size() {
    return channels.size();
  }

  private synchronized Channel channel(long pointer) {
    return channels.get(pointer);
  }

  /** The channels live on. */
  @Override
  public synchronized void close() {
    handle.close();
    channels.clear();
  }

  @Override
  public synchronized String toString() {
    return handle.isOpen() ? "Selector of " + channels.size() + " channels" : "Selector closed";
  }
}
