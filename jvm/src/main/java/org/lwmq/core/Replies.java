package org.lwmq.core;

import java.util.Objects;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The answering side of a channel, for {@link Requests} here or in Python. Threads receive as from the channel: one at a
 * time where its receive queue is mono. Closing the channel from another thread ends them first.
 */
public final class Replies implements AutoCloseable {
  /** Answers one request. What it throws is {@link HandlerException} at the requester, with its class and text. */
  @FunctionalInterface
  public interface Handler {
    Frames answer(Frames frames) throws Exception;
  }

  /** {@code malformed}: messages that are no requests, dropped. */
  public record Statistics(long received, long answered, long failed, long malformed) {}

  private final Channel channel;
  private final SendQueue queue;
  private final InUse use = new InUse();
  private final Runnable channelCloses = this::channelCloses;
  private final AtomicLong received = new AtomicLong();
  private final AtomicLong answered = new AtomicLong();
  private final AtomicLong failed = new AtomicLong();
  private final AtomicLong malformed = new AtomicLong();

  /** Posts to an unbounded queue of the channel: a requester that asks and takes no replies lets that grow. */
  public Replies(Channel channel) {
    this(channel, channel.commonQueue());
  }

  /** Posts to {@code queue}; a bounded one stands a requester that takes no replies. */
  public Replies(Channel channel, SendQueue queue) {
    queue.checkIsOf(channel);
    this.channel = channel;
    this.queue = queue;
    channel.tellWhenClosed(channelCloses);
  }

  /** The next request; throws what {@link Channel#receive} does. What is no request is counted and dropped. */
  public Request receive(Deadline deadline) {
    while (true) {
      Request request =
          deadline.await(
              "waiting for a request at " + channel.address(), slice -> use.enter(() -> receiveOnce(slice)));
      if (request != null) {
        return request;
      }
    }
  }

  /** Of a slice of a deadline: whoever closes waits for it. Null for what is no request. */
  private Request receiveOnce(int sliceMs) {
    try (Message message = channel.receiveOnce(sliceMs)) {
      return requestOf(message);
    }
  }

  /**
   * The request that {@code message} of this channel is, for who receives by a selector or a call-back; null for what is
   * none, and counted as malformed, and for one that is more than there is memory for, which has failed. The message is
   * still the caller's.
   */
  public Request requestOf(Message message) {
    RequestHead head = RequestHead.of(message);
    if (head == null || head.kind() != RequestHead.REQUEST) {
      malformed.incrementAndGet();
      return null;
    }
    received.incrementAndGet();
    try {
      return new Request(this, head, Frames.from(message, 1));
    } catch (LwmqException | OutOfMemoryError e) { // TOO_BIG: one asker ends nobody who serves
      new Request(this, head, Frames.none()).fail(e);
      return null;
    }
  }

  /**
   * Answers each request with what {@code handler} returns, on this thread. Peers come and go, until the channel or this
   * is closed here, by any thread; a channel of a {@link Listener} has one, until that has closed. INTERRUPTED.
   */
  public void serve(Handler handler) {
    serve(handler, true);
  }

  /** As that; unless {@code forever}, until the peer has closed. PEER_LOST, CORRUPT. */
  public void serve(Handler handler, boolean forever) {
    while (true) {
      boolean isReceived = false;
      try {
        Request request = receive(Deadline.never());
        isReceived = true;
        answer(request, handler);
      } catch (LwmqException e) {
        if (use.isEnded()) {
          return;
        }
        if (!PendingRequests.endsPeer(e.status())) {
          throw e;
        }
        if (channel.isAccepted() ? isReceived : forever) {
          continue; // the next peer may come; the only one has gone, and may have left more
        }
        if (e.status() == Status.CLOSED) {
          return;
        }
        throw e;
      }
    }
  }

  private void answer(Request request, Handler handler) {
    try {
      Frames frames = handler.answer(request.frames());
      request.reply(Objects.requireNonNull(frames, "the handler returned null; Frames.none() is an empty reply"));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      request.fail(e);
    } catch (Exception e) {
      request.fail(e);
    } catch (Error e) {
      request.fail(e);
      throw e;
    }
  }

  /** For requests. */
  void post(RequestHead head, Frames frames) {
    use.enter(
        () -> {
          try (Message message = frames.under(head)) {
            queue.post(message);
          }
          return null;
        });
  }

  void countAnswered() {
    answered.incrementAndGet();
  }

  void countFailed() {
    failed.incrementAndGet();
  }

  public Statistics statistics() {
    return new Statistics(received.get(), answered.get(), failed.get(), malformed.get());
  }

  /** Ends whoever serves or receives; what is unanswered stays so. The channel stays open. Twice is once. */
  @Override
  public void close() {
    use.end(new LwmqException(Status.CLOSED, "the replies on " + channel.address() + " are closed"));
    channel.tellNoMore(channelCloses);
  }

  @Override
  public String toString() {
    String state = use.isEnded() ? "closed" : received.get() + " received";
    return "Replies on " + channel.address() + ", " + state;
  }

  private void channelCloses() {
    use.end(new LwmqException(Status.CLOSED, "channel " + channel.address() + " is closed"));
  }
}
