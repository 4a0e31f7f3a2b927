package org.lwmq.core;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The asking side of a channel: any number of requests outstanding, from any number of threads, each with a time-out of
 * its own; {@link Replies} answers, here or in Python.
 *
 * <p>The replies are received on the thread that all channels with a call-back share. The channel is lent: its
 * receiving side is ours until close, which leaves the channel open; its send queues are not. A request may be executed
 * although its requester was told that the time is over or the peer is lost; nothing is asked twice by itself.
 */
public final class Requests implements AutoCloseable {
  /** Of {@code outstandingMax}, where it is not given. */
  public static final int OUTSTANDING_MAX = 1 << 20;

  /**
   * {@code asked} is the sum of {@code outstanding} and what follows up to {@code givenUp}.
   *
   * @param lost failed because the peer was lost or closed, or these requests were
   * @param givenUp cancelled, or never posted
   * @param late dropped: replies to what was settled before
   * @param foreign dropped: replies to another asker
   * @param malformed dropped: what is no reply to anything
   */
  public record Statistics(
      long asked, long outstanding, long answered, long failed, long timedOut, long lost, long givenUp, long late,
      long foreign, long malformed) {}

  private final Channel channel;
  private final SendQueue queue;
  private final PendingRequests pending;
  private final InUse use = new InUse();
  private final Runnable channelCloses = this::channelCloses;
  private final Incoming incoming = new Incoming();
  private volatile boolean isKeptAway = true; // perhaps, the peer, by what has to be mended: that is told once

  /** Posts to a queue that the channel has for this, of normal priority and without bounds. */
  public Requests(Channel channel) {
    this(channel, channel.commonQueue(), OUTSTANDING_MAX);
  }

  /**
   * INVALID: a bound below 1, the queue of another channel, or the messages of this one go somewhere else already. CLOSED.
   *
   * @param queue where requests are posted; of a kind for any thread, unless one alone asks
   * @param outstandingMax more than these are refused; each takes some hundred bytes until it is settled
   */
  public Requests(Channel channel, SendQueue queue, int outstandingMax) {
    Arguments.atLeastOne("outstandingMax", outstandingMax);
    queue.checkIsOf(channel);
    channel.checkNotSelected();
    this.channel = channel;
    this.queue = queue;
    this.pending = new PendingRequests(channel.address(), outstandingMax);
    channel.tellWhenClosed(channelCloses);
    try {
      Calls.ALL.put(channel, incoming);
    } catch (RuntimeException | Error e) {
      channel.tellNoMore(channelCloses);
      throw e;
    }
    channel.setLent(true);
    if (use.isEnded()) { // meanwhile
      channel.setLent(false);
      Calls.ALL.drop(channel, incoming);
    }
  }

  /**
   * Asks and waits for the reply; what {@link #submit} says of errors is thrown here. INTERRUPTED, also for the
   * deadline's own reason to stop, gives up.
   */
  public Frames request(Frames frames, Deadline deadline) {
    Awaited.checkMayWait();
    Reply reply = submit(frames, deadline);
    try {
      while (true) {
        deadline.checkCancelled("waiting for a reply at " + pending.address);
        try {
          return reply.get(Deadline.SLICE_MS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
          if (deadline.isOver()) { // the thread that keeps the time may be held up
            pending.expire(reply.number());
          }
        } catch (InterruptedException e) {
          Thread.currentThread().interrupt();
        } catch (ExecutionException e) {
          if (e.getCause() instanceof LwmqException cause) {
            throw cause;
          }
          throw new IllegalStateException(e.getCause()); // nobody else has this reply
        }
      }
    } finally {
      reply.cancel(false);
    }
  }

  /**
   * Asks and goes on. Never waits for the peer.
   *
   * <p>The reply comes, or fails with TIMED_OUT at the deadline (never: waits as long as the peer lives), {@link
   * HandlerException}, PEER_LOST or CLOSED (the peer was lost or has closed, or we have). On a channel of several
   * transports every peer is asked, the first reply counts, and the end of any of them fails what is outstanding. Without
   * a peer a request waits for one; where what keeps it away has to be mended (INVALID, VERSION, DENIED, SYSTEM and the
   * like), what is outstanding fails with it, and until it is mended this throws it. Throws what a post does, and FULL when
   * too many are outstanding.
   */
  public Reply submit(Frames frames, Deadline deadline) {
    return use.enter(
        () -> {
          Reply reply = pending.enlist(deadline, channel.ends());
          boolean isPosted = false;
          RequestHead head = new RequestHead(RequestHead.REQUEST, pending.asker, reply.number());
          try (Message message = frames.under(head)) {
            if (isKeptAway) { // asked behind the enlisting: what comes later is told to all who are on the list
              channel.checkNotKeptAway();
              isKeptAway = false;
            }
            queue.post(message);
            isPosted = true;
          } finally {
            if (!isPosted) {
              reply.cancel(false);
            }
          }
          return reply;
        });
  }

  public Statistics statistics() {
    return pending.statistics();
  }

  /** What is outstanding fails with CLOSED. The channel stays open. Twice is once. */
  @Override
  public void close() {
    end(new LwmqException(Status.CLOSED, "the requests on " + pending.address + " are closed"));
    channel.tellNoMore(channelCloses);
  }

  @Override
  public String toString() {
    String state = use.isEnded() ? "closed" : statistics().outstanding() + " outstanding";
    return "Requests on " + pending.address + ", " + state;
  }

  private void channelCloses() {
    end(new LwmqException(Status.CLOSED, "channel " + pending.address + " is closed"));
  }

  /** Afterwards nothing of ours runs for the channel, whoever has ended it first. */
  private void end(LwmqException why) {
    boolean isFirst = use.end(why);
    if (isFirst) {
      channel.setLent(false);
    }
    try {
      Calls.ALL.drop(channel, incoming);
    } finally {
      if (isFirst) {
        pending.lose(why);
      }
    }
  }

  /** What the channel receives. */
  private final class Incoming implements Calls.Receiver {
    @Override
    public void came(Message message) {
      pending.settle(message);
    }

    @Override
    public void ended(LwmqException why) {
      if (why.status() == Status.NO_MEMORY) {
        return; // what has come waits, and nobody is lost
      }
      if (PendingRequests.endsPeer(why.status()) && channel.isAccepted()) {
        end(why);
        channel.tellNoMore(channelCloses);
      } else {
        isKeptAway = !PendingRequests.endsPeer(why.status());
        pending.lose(why, why.end()); // the next peer may come
      }
    }
  }
}
