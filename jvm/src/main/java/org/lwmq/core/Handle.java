package org.lwmq.core;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;

/**
 * A native address and the call that frees it. It is freed once: by {@link #close}, or by the cleaner when nothing
 * refers to the owner any more. The JVM may find that while the last call of the owner still runs; so every use of the
 * address goes through {@link #call} or {@link #run}. Uses of a {@link #shared} handle may run on any threads, and
 * close waits for them.
 */
final class Handle implements AutoCloseable {
  static final Cleaner CLEANER = Cleaner.create();

  private final Object owner;
  private final State state;
  private final Cleaner.Cleanable cleanable;
  private final Callers callers; // null: one thread at a time

  /** Takes {@code address}. {@code destroy} must not refer to {@code owner}. One thread at a time. */
  Handle(Object owner, long address, String what, LongConsumer destroy) {
    this(owner, address, what, destroy, null);
  }

  /** The same for any threads at once. Calls must not run application code, which might close the handle. */
  static Handle shared(Object owner, long address, String what, LongConsumer destroy) {
    return new Handle(owner, address, what, destroy, new Callers());
  }

  private Handle(Object owner, long address, String what, LongConsumer destroy, Callers callers) {
    this.owner = owner;
    this.callers = callers;
    this.state = new State(address, what, destroy);
    this.cleanable = CLEANER.register(owner, state);
  }

  /**
   * Returns what {@code call} returns for the address; the owner stays alive meanwhile. CLOSED: the address was freed.
   */
  <T> T call(LongFunction<T> call) {
    long address = get(); // before entering, so that calls after the close do not hold it up
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

  /** The same without a result. */
  void run(LongConsumer call) {
    call(
        address -> {
          call.accept(address);
          return null;
        });
  }

  /** The same for a view of the owner's memory. The view, and every buffer made of it, keeps the owner alive. */
  ByteBuffer view(LongFunction<ByteBuffer> call) {
    ByteBuffer view = call(call);
    CLEANER.register(view, () -> Reference.reachabilityFence(owner));
    return view;
  }

  /** CLOSED: the address was freed. */
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

  /** The owner in words, such as {@code channel ipc://orders}. */
  String what() {
    return state.what;
  }

  boolean isOpen() {
    return state.address.get() != 0;
  }

  /** The address, which the caller must free from now on; 0: it was freed before. */
  long take() {
    long value = state.address.getAndSet(0);
    cleanable.clean();
    return value;
  }

  /** Frees the address. A shared one is freed when all calls have ended; new calls get CLOSED. */
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
