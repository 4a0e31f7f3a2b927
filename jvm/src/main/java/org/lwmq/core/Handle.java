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
 * address goes through {@link #call} and {@link #run}.
 */
final class Handle implements AutoCloseable {
  private static final Cleaner CLEANER = Cleaner.create();

  private final Object owner;
  private final State state;
  private final Cleaner.Cleanable cleanable;

  /** Takes {@code address}; {@code destroy} must not refer to {@code owner}. */
  Handle(Object owner, long address, String what, LongConsumer destroy) {
    this.owner = owner;
    this.state = new State(address, what, destroy);
    this.cleanable = CLEANER.register(owner, state);
  }

  /** What {@code call} makes of the address, with the owner alive until it returns. CLOSED: it was given back. */
  <T> T call(LongFunction<T> call) {
    try {
      return call.apply(get());
    } finally {
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

  @Override
  public void close() {
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
