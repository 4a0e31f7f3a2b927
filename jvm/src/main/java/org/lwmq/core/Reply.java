package org.lwmq.core;

/**
 * The frames of a reply that will come, or the {@link LwmqException} that comes instead: TIMED_OUT, {@link
 * HandlerException}, PEER_LOST or CLOSED. To cancel the reply, or to complete it in any other way, gives the request
 * up: a reply that comes afterwards is dropped.
 *
 * <p>Dependents run on the thread that receives for all channels with a call-back, or at once where the reply is
 * settled already. They should not wait ({@code thenApplyAsync} is for those that do). On that thread nobody can wait
 * for a reply or for a future that was made of one by {@code thenApply} and the like: INVALID. Futures that {@code
 * allOf} and {@code anyOf} have made are not refused there: waiting for one would hang.
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
