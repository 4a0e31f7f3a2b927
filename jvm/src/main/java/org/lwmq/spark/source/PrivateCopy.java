package org.lwmq.spark.source;

import java.lang.ref.Cleaner;
import org.apache.spark.unsafe.Platform;
import org.lwmq.core.Batch;

/**
 * A private copy of a batch: what its writer does to it afterwards changes nothing. Freed by {@link #close}, or when nobody
 * holds it. Executor.
 */
final class PrivateCopy implements AutoCloseable {
  private static final Cleaner CLEANER = Cleaner.create();

  private final long address;
  private final Cleaner.Cleanable cleanable;

  PrivateCopy(Batch batch) {
    long copy = Platform.allocateMemory(Math.max(1, batch.bytes()));
    this.address = copy;
    this.cleanable = CLEANER.register(this, () -> Platform.freeMemory(copy));
    Platform.copyMemory(null, batch.address(), null, copy, batch.bytes());
  }

  long address() {
    return address;
  }

  @Override
  public void close() {
    cleanable.clean();
  }
}
