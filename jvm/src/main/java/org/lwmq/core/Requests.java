package org.lwmq.core;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The asking side of a channel: any number of requests outstanding, from any number of threads, each with its own
 * time-out. {@link Replies} answers them, in Java or in Python.
 *
 * <p>The library keeps the numbers, the times and the counters; this class keeps the {@link Reply} of each number.
 * Replies are received on the thread that all channels with a call-back share. Until the requests are closed, nobody
 * else may receive from the channel; its send queues stay free for other uses. A request may be executed although its
 * requester was told that the time is over or that the peer is lost. No request is sent twice by itself.
 */
public final class Requests implements AutoCloseable {
  /** The bound on outstanding requests where {@code outstandingMax} is not given. */
  public static final int OUTSTANDING_MAX = 1 << 20;

  private static final int FOREVER = -1;

  /**
   * {@code asked} is the sum of {@code outstanding} and the counters from {@code answered} to {@code givenUp}.
   *
   * @param lost failed because the peer was lost or has closed, or because these requests were closed
   * @param givenUp cancelled, or never posted
   * @param late dropped: replies to requests that were settled before
   * @param foreign dropped: replies to another asker
   * @param malformed dropped: messages that are no replies
   */
  public record Statistics(
      long asked, long outstanding, long answered, long failed, long timedOut, long lost, long givenUp, long late,
      long foreign, long malformed) {}

  private final Channel channel;
  private final SendQueue queue;
  private final String address;
  private final int outstandingMax;
  private final Handle handle; // never closed: it has the counters until nobody has these requests
  private final InUse use = new InUse();
  private final Map<Long, Reply> replies = new ConcurrentHashMap<>(); // of outstanding requests, by number
  private final AtomicLong expired = new AtomicLong(); // the library counts these as given up
  private final Runnable channelCloses = this::channelCloses;
  private final Incoming incoming = new Incoming();

  /** Posts to an unbounded queue of normal priority, which the channel has for this purpose. */
  public Requests(Channel channel) {
    this(channel, channel.commonQueue(), OUTSTANDING_MAX);
  }

  /**
   * INVALID: a bound below 1, a queue of another channel, or a channel whose messages go somewhere else already.
   * CLOSED.
   *
   * @param queue where requests are posted; threads that ask take turns at a mono queue
   * @param outstandingMax requests beyond this number are refused; each takes some hundred bytes until it is settled
   */
  public Requests(Channel channel, SendQueue queue, int outstandingMax) {
    Arguments.atLeastOne("outstandingMax", outstandingMax);
    queue.checkIsOf(channel);
    channel.checkNotSelected();
    this.channel = channel;
    this.queue = queue;
    this.address = channel.address();
    this.outstandingMax = outstandingMax;
    long[] made = new long[1];
    channel.lendTo(c -> queue.lendTo(q -> made[0] = Jni.requestsCreate(c, q, outstandingMax)));
    this.handle = new Handle(this, made[0], "requests", r -> Jni.requestsDestroy(r));
    channel.tellWhenClosed(channelCloses);
    try {
      Calls.ALL.put(channel, incoming);
    } catch (RuntimeException | Error e) {
      channel.tellNoMore(channelCloses);
      throw e;
    }
    channel.setLent(true);
    if (use.isEnded()) { // the channel was closed meanwhile
      channel.setLent(false);
      Calls.ALL.drop(channel, incoming);
    }
  }

  /**
   * Asks and waits for the reply. Throws what {@link #submit} says of errors. INTERRUPTED, also for the deadline's own
   * reason to stop: the request is given up.
   */
  public Frames request(Frames frames, Deadline deadline) {
    Awaited.checkMayWait();
    int ms = timeoutMs(deadline);
    Reply reply = submit(frames, deadline);
    try {
      while (true) {
        deadline.checkCancelled("waiting for a reply at " + address);
        try {
          return reply.get(deadline.slice(Deadline.SLICE_MS), TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
          if (deadline.isOver()) { // the thread that receives may be late
            expire(reply, ms);
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
   * Asks and returns at once. Never waits for the peer.
   *
   * <p>The reply comes, or it fails. TIMED_OUT: the deadline is over; this is told up to 0.2 s late. {@link
   * HandlerException}. PEER_LOST, CLOSED: the peer was lost or has closed, or this side has. On a channel with several
   * transports every peer is asked, the first reply counts, and the end of any peer fails what is outstanding. Without
   * a peer a request waits for one. Where something that must be mended keeps the peer away (INVALID, VERSION, DENIED,
   * SYSTEM and the like), what is outstanding fails with that status, and this method throws it until it is mended.
   * This method also throws what a post throws, and FULL when too many requests are outstanding.
   */
  public Reply submit(Frames frames, Deadline deadline) {
    return use.enter(() -> submitted(frames, deadline));
  }

  private Reply submitted(Frames frames, Deadline deadline) {
    try (Message message = new Message(handle.call(Jni::requestsMake))) {
      Reply reply = new Reply(Request.numberOf(message.bytes(0)));
      frames.appendTo(message);
      int timeoutMs = timeoutMs(deadline);
      replies.put(reply.number(), reply);
      try {
        message.giveTo(m -> queue.post(q -> handle.run(r -> Jni.requestsSubmit(r, m, timeoutMs))));
      } catch (LwmqException e) {
        replies.remove(reply.number());
        throw e.status() == Status.FULL ? full() : e;
      }
      reply.whenComplete((done, why) -> giveUp(reply)); // does nothing unless somebody else has completed it
      return reply;
    }
  }

  public Statistics statistics() {
    long[] n = handle.call(Jni::requestsQuery);
    long mine = expired.get();
    return new Statistics(n[0], n[1], n[2], n[3], n[4] + mine, n[5], n[6] - mine, n[7], n[8], n[9]);
  }

  /** What is outstanding fails with CLOSED. The channel stays open. Twice is allowed. */
  @Override
  public void close() {
    end(new LwmqException(Status.CLOSED, "the requests on " + address + " are closed"));
  }

  @Override
  public String toString() {
    String state = use.isEnded() ? "closed" : statistics().outstanding() + " outstanding";
    return "Requests on " + address + ", " + state;
  }

  private void channelCloses() {
    end(new LwmqException(Status.CLOSED, "channel " + address + " is closed"));
  }

  /** Afterwards nothing of these requests runs for the channel, whichever thread has ended them first. */
  private void end(LwmqException why) {
    boolean isFirst = use.end(why);
    if (isFirst) {
      channel.setLent(false);
    }
    try {
      Calls.ALL.drop(channel, incoming);
    } finally {
      if (isFirst) {
        channel.tellNoMore(channelCloses);
        handle.run(r -> Jni.requestsLose(r, why.status().code())); // so that they count as lost
        replies.keySet().forEach(number -> fail(number, new LwmqException(why.status(), why.getMessage())));
      }
    }
  }

  /** As the library takes it. 24 days and more are for ever. */
  private static int timeoutMs(Deadline deadline) {
    int left = deadline.isForever() ? Integer.MAX_VALUE : deadline.slice(Integer.MAX_VALUE);
    return left == Integer.MAX_VALUE ? FOREVER : left;
  }

  /** The time of {@code reply}, {@code ms}, is over. */
  private void expire(Reply reply, int ms) {
    if (giveUp(reply)) {
      expired.incrementAndGet();
    }
    reply.completeExceptionally(
        new LwmqException(
            Status.TIMED_OUT, "no reply to request " + reply.number() + " within " + ms + " ms (" + address + ")"));
  }

  /** False: {@code reply} was settled before. */
  private boolean giveUp(Reply reply) {
    return replies.remove(reply.number()) != null && handle.call(r -> Jni.requestsCancel(r, reply.number()));
  }

  private void fail(long number, LwmqException why) {
    Reply reply = replies.remove(number);
    if (reply != null) { // else it was given up
      reply.completeExceptionally(why);
    }
  }

  private LwmqException full() {
    return new LwmqException(
        Status.FULL,
        outstandingMax + " requests are outstanding on " + address + ", as many as outstandingMax allows: give them a"
            + " deadline, or wait for replies");
  }

  /** What the channel receives, on the thread of {@link Calls}. */
  private final class Incoming implements Calls.Receiver {
    private int dueMs; // until the next time-out, when it was asked last

    @Override
    public void came(Message message) {
      message.giveTo(m -> handle.run(r -> Jni.requestsFile(r, m)));
      tellNext();
    }

    @Override
    public void ended(LwmqException why) {
      if (why.status().endsPeer()) {
        lose(why);
      }
      heard(why);
      tellAll();
    }

    @Override
    public int tick() {
      tellAll();
      return Math.max(1, Math.min(dueMs, Deadline.SLICE_MS)); // others may be submitted that are due earlier
    }

    private void tellAll() {
      boolean isMore = true;
      while (isMore && !use.isEnded()) { // afterwards others receive
        isMore = tellNext();
      }
    }

    /** Tells one request how it has ended. False: none has; at most, something else was heard. */
    private boolean tellNext() {
      long[] outcome = new long[3];
      long number = 0;
      try {
        long message = handle.call(r -> Jni.requestsNext(r, outcome));
        number = outcome[0];
        if (number != 0) {
          settle(number, outcome[1] != 0, message);
        }
      } catch (LwmqException e) {
        number = outcome[0];
        if (number == 0 || e.status() != Status.TIMED_OUT) {
          heard(e); // first: while the library has the text
        }
        fail(number, e);
      }
      dueMs = (int) Math.min(outcome[2], Integer.MAX_VALUE);
      return number != 0;
    }

    private void settle(long number, boolean isFailure, long pointer) {
      try (Message message = new Message(pointer)) {
        if (isFailure) {
          fail(number, failure(message));
          return;
        }
        Frames frames = Frames.from(message, 1);
        Reply reply = replies.remove(number);
        if (reply != null) { // else it was given up
          reply.complete(frames);
        }
      } catch (LwmqException e) { // TOO_BIG
        fail(number, e);
      } catch (OutOfMemoryError e) {
        fail(number, new LwmqException(Status.NO_MEMORY, "no memory for reply " + number + " (" + address + ")"));
      }
    }

    private HandlerException failure(Message message) {
      String kind = new String(message.bytes(1), StandardCharsets.UTF_8);
      String text = new String(message.bytes(2), StandardCharsets.UTF_8);
      String said = kind + (kind.isEmpty() || text.isEmpty() ? "" : ": ") + text;
      return new HandlerException(kind, "the peer's handler failed: " + said + " (" + address + ")");
    }

    /** A receive has failed with {@code why}. */
    private void heard(LwmqException why) {
      if (!why.status().isFailure() || why.status() == Status.NO_MEMORY || use.isEnded()) {
        return; // nothing is lost, or all is over
      }
      if (!why.status().endsPeer()) {
        lose(why); // also those that were submitted since the library has reported it
      } else if (channel.isAccepted()) {
        end(why); // nobody follows the only client
      }
    }

    /** For a failure of the last native call of this thread, whose text the library still has. */
    private void lose(LwmqException why) {
      handle.run(r -> Jni.requestsLose(r, why.status().code()));
    }
  }
}
