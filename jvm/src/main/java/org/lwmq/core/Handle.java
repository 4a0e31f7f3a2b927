package org.lwmq.core;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;

/**
 * A native address and the call that gives it back. Given back once, whoever comes first: {@link #close}, or the cleaner
 * when nobody holds the owner. The JVM may find that nobody does while the owner's last call still runs, so what uses the
 * address goes through {@link #call} and {@link #run}. Those may run on any thread beside the close, which waits for them;
 * of a {@link #shared} one on several at once, else INVALID for a second one. No call runs code of an application, which
 * might close.
 */
final class Handle implements AutoCloseable {
  static final Cleaner CLEANER = Cleaner.create();

  private final Object owner;
  private final State state;
  private final Cleaner.Cleanable cleanable;
  private final Callers callers; // null: one thread at a time
  private final AtomicBoolean isUsed; // of such a one: by somebody; else null

  /** Takes {@code address}; {@code destroy} must not refer to {@code owner}. For one thread at a time. */
  Handle(Object owner, long address, String what, LongConsumer destroy) {
    this(owner, address, what, destroy, null);
  }

  /** The same for any threads at once. */
  static Handle shared(Object owner, long address, String what, LongConsumer destroy) {
    return new Handle(owner, address, what, destroy, new Callers());
  }

  private Handle(Object owner, long address, String what, LongConsumer destroy, Callers callers) {
    this.owner = owner;
    this.callers = callers;
    this.isUsed = callers == null ? new AtomicBoolean() : null;
    this.state = new State(address, what, destroy);
    this.cleanable = CLEANER.register(owner, state);
  }

  /** What {@code call} makes of the address, with the owner alive until it returns. CLOSED: it was given back. */
  <T> T call(LongFunction<T> call) {
    get(); // before we go in: who calls what is closed again and again keeps nobody waiting
    int stripe = enter();
    try {
      return call.apply(get());
    } finally {
      leave(stripe);
      Reference.reachabilityFence(owner);
    }
  }

  private int enter() {
    if (callers != null) {
      return callers.enter();
    }
    if (!isUsed.compareAndSet(false, true)) {
      throw new LwmqException(Status.INVALID, state.what + " is in use by another thread: one at a time");
    }
    return 0;
  }

  private void leave(int stripe) {
    if (callers != null) {
      callers.leave(stripe);
    } else {
      isUsed.set(false);
    }
  }

  /** The same without an answer. */
  void run(LongConsumer call) {
    call(
        address -> {
          call.accept(address);
          return null;
        });
  }

  /** The address of one that is for one thread at a time, until {@link #giveBack}; errors as of {@link #call}. */
  long lend() {
    enter();
    try {
      return get();
    } catch (LwmqException e) {
      giveBack();
      throw e;
    }
  }

  /** Behind {@link #lend}. */
  void giveBack() {
    leave(0);
  }

  /** CLOSED: it was given back. */
  void check() {
    get();
  }

  private long get() {
    long value = state.address.get();
    if (value == 0 || state.isClosed) {
      throw new LwmqException(Status.CLOSED, state.what + " is closed");
    }
    return value;
  }

  /** Its open or closed owner, in words such as {@code channel ipc://orders}. */
  String what() {
    return state.what;
  }

  boolean isOpen() {
    return state.address.get() != 0 && !state.isClosed;
  }

  /**
   * The address, which the caller has to give back itself from now on; 0 when it was given back already. In a call of its
   * own, or where there are none.
   */
  long take() {
    long value = state.address.getAndSet(0);
    cleanable.clean();
    return value;
  }

  /** Gives it back when all who are in a call have left it, of which new ones find it closed. */
  @Override
  public void close() {
    state.isClosed = true;
    if (callers != null) {
      callers.awaitNone();
    } else {
      Callers.awaitNot(isUsed::get);
    }
    cleanable.clean();
  }

  private static final class State implements Runnable {
    private final AtomicLong address;
    private final String what;
    private final LongConsumer destroy;
    private volatile boolean isClosed; // or is being closed

    State(long address, String what, LongConsumer destroy) {
      this.address = new AtomicLong(address);
      this.what = what;
      this.destroy = destroy;
    }

    @Override
    public void run() {
      long value = address.getAndSet(0);
      if (value != 0) {
        destroy.accept(value);
      }
    }
  }
}
