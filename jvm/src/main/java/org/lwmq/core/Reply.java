package org.lwmq.core;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The frames that will come, or the {@link LwmqException}: its own time-out, {@link HandlerException}, PEER_LOST or
 * CLOSED. To cancel it, or to complete it in any other way, gives up: what comes is late.
 *
 * <p>What depends on it runs on the thread that receives for all channels with a call-back, on the one that keeps their
 * time, or at once where it is settled already. None should wait ({@code thenApplyAsync} is for those that do), and
 * none can wait there for a reply: INVALID.
 */
public final class Reply extends CompletableFuture<Frames> {
  private final long number;

  Reply(long number) {
    this.number = number;
  }

  long number() {
    return number;
  }

  @Override
  public Frames get() throws InterruptedException, ExecutionException {
    checkMayWait();
    return super.get();
  }

  @Override
  public Frames get(long timeout, TimeUnit unit)
      throws InterruptedException, ExecutionException, TimeoutException {
    checkMayWait();
    return super.get(timeout, unit);
  }

  @Override
  public Frames join() {
    checkMayWait();
    return super.join();
  }

  @Override
  public String toString() {
    String state = !isDone() ? "to come" : isCancelled() ? "given up" : isCompletedExceptionally() ? "failed" : "here";
    return "Reply to request " + number + ", " + state;
  }

  private void checkMayWait() {
    if (!isDone() && (Calls.ALL.isOwnThread() || Desk.isOwnThread())) {
      throw new LwmqException(
          Status.INVALID,
          "request " + number + " awaited in a callback on a thread that settles requests: let what comes next depend"
              + " on it (thenApplyAsync), or wait on a thread of your own");
    }
  }
}
