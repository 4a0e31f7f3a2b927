package org.lwmq.core;

/**
 * The frames that will come, or the {@link LwmqException}: its own time-out, {@link HandlerException}, PEER_LOST or
 * CLOSED. To cancel it, or to complete it in any other way, gives up: what comes is late.
 *
 * <p>What depends on it runs on the thread that receives for all channels with a call-back, on the one that keeps their
 * time, or at once where it is settled already. None should wait ({@code thenApplyAsync} is for those that do), and
 * none can wait there for a reply, or for what was made of one ({@code thenApply} and the like): INVALID. {@code allOf} and
 * {@code anyOf} do not know of that, and would wait.
 */
public final class Reply extends Awaited<Frames> {
  private final long number;

  Reply(long number) {
    this.number = number;
  }

  long number() {
    return number;
  }

  @Override
  public String toString() {
    String state = !isDone() ? "to come" : isCancelled() ? "given up" : isCompletedExceptionally() ? "failed" : "here";
    return "Reply to request " + number + ", " + state;
  }
}
