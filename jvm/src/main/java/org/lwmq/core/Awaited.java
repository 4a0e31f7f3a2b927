package org.lwmq.core;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** What will come by a thread of ours, and what depends on it: no such thread can wait for it. */
class Awaited<T> extends CompletableFuture<T> {
  @Override
  public T get() throws InterruptedException, ExecutionException {
    checkMayBeAwaited();
    return super.get();
  }

  @Override
  public T get(long timeout, TimeUnit unit) throws InterruptedException, ExecutionException, TimeoutException {
    if (timeout > 0) {
      checkMayBeAwaited();
    }
    return super.get(timeout, unit);
  }

  @Override
  public T join() {
    checkMayBeAwaited();
    return super.join();
  }

  @Override
  public <U> CompletableFuture<U> newIncompleteFuture() {
    return new Awaited<>();
  }

  private void checkMayBeAwaited() {
    if (!isDone()) {
      checkMayWait();
    }
  }

  /** INVALID: this thread settles what it would wait for. */
  static void checkMayWait() {
    if (Calls.ALL.isOwnThread() || PendingRequests.isOwnThread()) {
      throw new LwmqException(
          Status.INVALID,
          "a reply is awaited in a callback on a thread that settles requests: let what comes next depend on it"
              + " (thenApplyAsync), or wait on a thread of your own");
    }
  }
}
