package org.lwmq.core;

import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;

/**
 * A native address and the call that gives it back, apart from the object that owns it, so that the cleaner does
 * not keep that object alive. Given back once, whoever comes first: {@link #close} or the cleaner.
 */
final class Handle implements AutoCloseable {
  private static final Cleaner CLEANER = Cleaner.create();

  private final State state;
  private final Cleaner.Cleanable cleanable;

  /** Takes {@code address}; {@code destroy} must not refer to {@code owner}. */
  Handle(Object owner, long address, String what, LongConsumer destroy) {
    this.state = new State(address, what, destroy);
    this.cleanable = CLEANER.register(owner, state);
  }

  /** The address; LwmqException CLOSED when it was given back. */
  long get() {
    long value = state.address.get();
    if (value == 0) {
      throw new LwmqException(Status.CLOSED, state.what + " is closed");
    }
    return value;
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
