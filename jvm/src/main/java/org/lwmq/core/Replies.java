package org.lwmq.core;

import java.util.Objects;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;

/**
 * The answering side of a channel, for {@link Requests} in Java or in Python. Threads receive as from the channel: one
 * at a time if its receive queue is mono. A close of the channel by another thread first ends the threads that receive.
 */
public final class Replies implements AutoCloseable {
  /** Answers one request. An exception becomes a {@link HandlerException} at the requester, with its class and text. */
  @FunctionalInterface
  public interface Handler {
    Frames answer(Frames frames) throws Exception;
  }

  /** {@code malformed} counts messages that were dropped because they are no requests. */
  public record Statistics(long received, long answered, long failed, long malformed) {}

  private final Channel channel;
  private final SendQueue queue;
  private final InUse use = new InUse();
  private final Runnable channelCloses = this::channelCloses;
  private final AtomicLong received = new AtomicLong();
  private final AtomicLong answered = new AtomicLong();
  private final AtomicLong failed = new AtomicLong();
  private final AtomicLong malformed = new AtomicLong();

  /** Posts to an unbounded queue of the channel. It grows while a requester asks and takes no replies. */
  public Replies(Channel channel) {
    this(channel, channel.commonQueue());
  }

  /** Posts to {@code queue}. A bounded queue protects against a requester that takes no replies. */
  public Replies(Channel channel, SendQueue queue) {
    queue.checkIsOf(channel);
    this.channel = channel;
    this.queue = queue;
    channel.tellWhenClosed(channelCloses);
  }

  /**
   * The next request. Throws what {@link Channel#receive} throws. Messages that are no requests are counted and
   * dropped.
   */
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

  /** Receives for one slice of a deadline, for which a close waits. Null: the message was no request. */
  private Request receiveOnce(int sliceMs) {
    try (Message message = channel.receiveOnce(sliceMs)) {
      return requestOf(message);
    }
  }

  /**
   * The request that {@code message} of this channel is, for callers that receive by a selector or a call-back. The
   * message stays the caller's. Null: the message is no request and was counted as malformed, or there is no memory for
   * the request and it was answered with that failure.
   */
  public Request requestOf(Message message) {
    byte[][] head = new byte[1][];
    message.lendTo(m -> head[0] = Jni.requestHead(m));
    if (head[0] == null) {
      malformed.incrementAndGet();
      return null;
    }
    received.incrementAndGet();
    try {
      return new Request(this, head[0], Frames.from(message, 1));
    } catch (LwmqException | OutOfMemoryError e) { // also TOO_BIG: one requester does not end the service
      new Request(this, head[0], Frames.none()).fail(e);
      return null;
    }
  }

  /**
   * Answers each request with what {@code handler} returns, on this thread, while peers come and go. Returns when any
   * thread has closed the channel or this object. On a channel of a {@link Listener} it returns when the only peer has
   * closed. INTERRUPTED.
   */
  public void serve(Handler handler) {
    serve(handler, true);
  }

  /** The same; unless {@code forever}, it returns when the peer has closed. PEER_LOST, CORRUPT. */
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
        if (!e.status().endsPeer()) {
          throw e;
        }
        if (channel.isAccepted() ? isReceived : forever) {
          continue; // the next peer may come; an only peer may have left more requests
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

  /** Posts the reply that {@code maker} begins and {@code frames} end. */
  void post(LongSupplier maker, Frames frames) {
    use.enter(
        () -> {
          try (Message message = new Message(maker.getAsLong())) {
            frames.appendTo(message);
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

  /**
   * Ends the threads that serve or receive. Unanswered requests stay unanswered. The channel stays open. Twice is
   * allowed.
   */
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
