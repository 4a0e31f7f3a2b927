package org.lwmq.core;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;

/**
 * A native address and the call that gives it back. Given back once, whoever comes first: {@link #close}, or the cleaner
 * when nobody holds the owner. The JVM may find that nobody does while the owner's last call still runs, so what uses the
 * address goes through {@link #call} and {@link #run}. Of a {@link #shared} one those may run on any threads beside the
 * close, which waits for them.
 */
final class Handle implements AutoCloseable {
  static final Cleaner CLEANER = Cleaner.create();

  private final Object owner;
  private final State state;
  private final Cleaner.Cleanable cleanable;
  private final Callers callers; // null: one thread at a time

  /** Takes {@code address}; {@code destroy} must not refer to {@code owner}. For one thread at a time. */
  Handle(Object owner, long address, String what, LongConsumer destroy) {
    this(owner, address, what, destroy, null);
  }

  /** The same for any threads at once. No call runs code of an application, which might close. */
  static Handle shared(Object owner, long address, String what, LongConsumer destroy) {
    return new Handle(owner, address, what, destroy, new Callers());
  }

  private Handle(Object owner, long address, String what, LongConsumer destroy, Callers callers) {
    this.owner = owner;
    this.callers = callers;
    this.state = new State(address, what, destroy);
    this.cleanable = CLEANER.register(owner, state);
  }

  /** What {@code call} makes of the address, with the owner alive until it returns. CLOSED: it was given back. */
  <T> T call(LongFunction<T> call) {
    long address = get(); // before we go in: who calls what is closed again and again keeps nobody waiting
    int stripe = callers == null ? 0 : callers.enter();
    try {
      return call.apply(callers == null ? address : get());
    } finally {
      if (callers != null) {
        callers.leave(stripe);
      }
      Reference.reachabilityFence(owner);
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

  /** The same for a view of what the owner holds: who holds the view, or one made of it, holds the owner. */
  ByteBuffer view(LongFunction<ByteBuffer> call) {
    ByteBuffer view = call(call);
    CLEANER.register(view, () -> Reference.reachabilityFence(owner));
    return view;
  }

  /** CLOSED: it was given back. */
  void check() {
    get();
  }

  private long get() {
    long value = state.address.get();
    if (value == 0) {
      throw new LwmqException(Status.CLOSED, state.what + " is closed");
    }
    return value;
  }

  /** Its open or closed owner, in words such as {@code channel ipc://orders}. */
  String what() {
    return state.what;
  }

  boolean isOpen() {
    return state.address.get() != 0;
  }

  /** The address, which the caller has to give back itself from now on; 0 when it was given back already. */
  long take() {
    long value = state.address.getAndSet(0);
    cleanable.clean();
    return value;
  }

  /** Gives it back; of a shared one when all who are in a call have left it, of which new ones find it closed. */
  @Override
  public void close() {
    if (callers == null) {
      cleanable.clean();
      return;
    }
    long value = state.address.getAndSet(0);
    if (value != 0) {
      callers.awaitNone();
      state.destroy.accept(value);
    }
    cleanable.clean();
  }

  private static final class State implements Runnable {
    private final AtomicLong address;
    private final String what;
    private final LongConsumer destroy;

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
