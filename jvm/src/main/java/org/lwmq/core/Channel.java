package org.lwmq.core;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import java.util.function.Supplier;

/**
 * A two-way conversation with one peer at an address, or with one peer at each of several addresses. Posts go through
 * the channel's {@link SendQueue}s. One thread at a time receives, or any number if the receive queue is not mono. Any
 * thread may close the channel; calls that are under way then get CLOSED.
 */
public final class Channel implements AutoCloseable {
  /** As a place: the nearest to the wire. */
  public static final int LAST_FILTER = -1;

  private final String address;
  private final Handle handle;
  private final Role role;
  private final Options options;
  private final boolean isAccepted; // by a listener, for one client
  private final RawLoans loans;
  private final List<WeakReference<Selector>> selectors = new CopyOnWriteArrayList<>(); // of the application
  private final Queue<SendQueue> queues = new ConcurrentLinkedQueue<>();
  private SendQueue common; // one of them, guarded by them
  private volatile Statistics last; // behind our close
  private volatile boolean isLent; // to Requests
  private volatile boolean isCalled; // now, or before
  private final List<Runnable> toTell = new ArrayList<>(); // guarded by itself, as is the next
  private boolean isClosing;

  private Channel(String address, long channel, Role role, Options options, boolean isAccepted) {
    this.address = address;
    this.isAccepted = isAccepted;
    this.role = role;
    this.options = options;
    RawLoans loans = new RawLoans();
    this.loans = loans;
    this.handle = Handle.shared(this, channel, "channel " + address, loans::destroy);
  }

  /** That of {@code channel}, which a listener has accepted: takes it. */
  static Channel accepted(String address, long channel, Options options) {
    return new Channel(address, channel, Role.SERVER, options, true);
  }

  /** For one client, which nobody follows. */
  boolean isAccepted() {
    return isAccepted;
  }

  /** Who receives, and what may wait: see {@link Options#receiving}. */
  public enum ReceiveKind {
    /** One thread at a time; messages stay in the transport until then. */
    MONO_UNBOUNDED(SendQueue.Kind.MONO_UNBOUNDED),
    /** Any number of threads, each message goes to one. Messages land while nobody receives. */
    MULTI_UNBOUNDED(SendQueue.Kind.MULTI_UNBOUNDED),
    /** The same, and a full one discards its oldest message. */
    BOUNDED_DISCARD_OLDEST(SendQueue.Kind.BOUNDED_DISCARD_OLDEST),
    /** The same, and a full one discards what comes. */
    BOUNDED_DISCARD_NEWEST(SendQueue.Kind.BOUNDED_DISCARD_NEWEST);

    private final int code;

    ReceiveKind(SendQueue.Kind like) {
      this.code = like.ordinal(); // LWMQ_QUEUE_* are the same for both
    }
  }

  /** What {@link #close()} waits for, by default. */
  public static final int LINGER_MS = 5000;

  /**
   * Options; zero means the default of {@code lwmq_channel_options}.
   *
   * @param bufferBytes of each transport buffer; the largest message; default 64 KiB
   * @param buffersSend transport buffers to send with, of each transport; default 32, whose memory is used as it is needed
   * @param buffersReceive of the peer's, at most; 0: as many as it makes
   * @param retryMs between attempts to connect; default 100
   * @param isRaw direct access to transport buffers instead of messages
   * @param secureErase buffers, and our copies of what passes, are zeroed as soon as nobody needs them
   * @param receiveCapacity messages that a bounded receive queue holds, at least 1; 0 for every other
   * @param isRedundant several addresses are ways to one peer, which says so, too: see {@link #redundant}
   * @param isAtHome made for the thread that opens it: see {@link #atHome}
   * @param lingerMs how long {@link Channel#close()} waits at most until what was posted has been read; 0: not at all
   */
  public record Options(
      long bufferBytes, int buffersSend, int buffersReceive, int retryMs, boolean isRaw, boolean secureErase,
      ReceiveKind receiveQueue, long receiveCapacity, boolean isRedundant, boolean isAtHome, int lingerMs) {
    public static final Options DEFAULT = new Options(0, 0, 0, 0, false);
    public static final Options RAW = new Options(0, 0, 0, 0, true);

    public Options(long bufferBytes, int buffersSend, int buffersReceive, int retryMs, boolean isRaw) {
      this(bufferBytes, buffersSend, buffersReceive, retryMs, isRaw, false);
    }

    public Options(
        long bufferBytes, int buffersSend, int buffersReceive, int retryMs, boolean isRaw, boolean secureErase) {
      this(
          bufferBytes, buffersSend, buffersReceive, retryMs, isRaw, secureErase, ReceiveKind.MONO_UNBOUNDED, 0,
          false, false, LINGER_MS);
    }

    /** INVALID: a number below 0. */
    public Options {
      Arguments.notNegative("bufferBytes", bufferBytes);
      Arguments.notNegative("buffersSend", buffersSend);
      Arguments.notNegative("buffersReceive", buffersReceive);
      Arguments.notNegative("retryMs", retryMs);
      Arguments.notNegative("receiveCapacity", receiveCapacity);
      Arguments.notNegative("lingerMs", lingerMs);
      Objects.requireNonNull(receiveQueue, "receiveQueue is null: ReceiveKind.MONO_UNBOUNDED is the default");
    }

    /** The same with {@code secureErase}. */
    public Options erasing() {
      return with(true, receiveQueue, receiveCapacity, isRedundant, isAtHome, lingerMs);
    }

    /** The same with a receive queue of {@code kind}; {@code capacity} messages if it is bounded, else 0. */
    public Options receiving(ReceiveKind kind, long capacity) {
      return with(secureErase, kind, capacity, isRedundant, isAtHome, lingerMs);
    }

    /**
     * The same with redundant transports: each message goes every way and is received once, in the order of its queue.
     * As long as one way is left nothing is lost with another. Said on both sides, with several addresses.
     */
    public Options redundant() {
      return with(secureErase, receiveQueue, receiveCapacity, true, isAtHome, lingerMs);
    }

    /**
     * The same for a thread that opens the channel and does most with it: the cheapest there, dearer for every other
     * thread. It must be a thread of the platform, and end after the channel.
     */
    public Options atHome() {
      return with(secureErase, receiveQueue, receiveCapacity, isRedundant, true, lingerMs);
    }

    /** The same with {@code lingerMs}. */
    public Options lingering(int ms) {
      return with(secureErase, receiveQueue, receiveCapacity, isRedundant, isAtHome, ms);
    }

    /** As they cross to the native side. */
    long[] fields() {
      return new long[] {
        bufferBytes, buffersSend, buffersReceive, retryMs, isRaw ? 1 : 0, secureErase ? 1 : 0, receiveQueue.code,
        receiveCapacity, isAtHome ? 1 : 0
      };
    }

    /** The same transports with the rest anew. */
    private Options with(
        boolean erases, ReceiveKind kind, long capacity, boolean redundant, boolean atHome, int linger) {
      return new Options(
          bufferBytes, buffersSend, buffersReceive, retryMs, isRaw, erases, kind, capacity, redundant, atHome, linger);
    }
  }

  /**
   * Counters since the channel was made; of several transports sums, but {@code messagesPosted}.
   *
   * @param isConnected all transports are, or one where they are redundant
   * @param messagesLost shipped and not seen read when a peer was lost
   * @param shippedFull buffers that were closed because there was no room left
   * @param shippedIdle buffers that were closed because there was nothing left to put in
   * @param buffersFree send buffers that can be had at once
   * @param messagesPassed of those shipped: handed as they are to a peer in this process
   * @param receiveQueued waiting in the receive queue now, where it is not mono
   * @param receiveDiscarded by the rule of a bounded receive queue; counted as received, too
   * @param duplicatesDropped received before over another of redundant transports; not counted as received
   * @param clientsRefused by a server: of another version, purpose or user, or with numbers that do not fit ours
   * @param messagesUnread shipped to those who are there now, and not seen read yet
   */
  public record Statistics(
      boolean isConnected, boolean isServer, long messagesPosted, long messagesShipped, long messagesReceived,
      long messagesLost, long buffersShipped, long shippedFull, long shippedIdle, long bytesShipped,
      long bytesReceived, long peersLost, long buffersFree, long messagesPassed, long receiveQueued,
      long receiveDiscarded, long duplicatesDropped, long clientsRefused, long messagesUnread) {}

  /**
   * Who is at the other end, or was last.
   *
   * @param isConnected as far as somebody has noticed
   * @param number of those that have come over its transport, from 1 on
   * @param instance of its process, as {@link Identity#instance}
   */
  public record Peer(boolean isConnected, long number, long pid, long uid, String instance) {
    private static Peer of(long[] n, byte[] instance) {
      return new Peer(n[0] != 0, n[1], n[2], n[3], Identity.hex(instance));
    }
  }

  /**
   * Binds the address or begins to connect, as {@code role} says; does not wait for the peer. ADDRESS: malformed, of a
   * scheme that nobody has, or in use. INVALID: options that do not go together. UNSUPPORTED: the transport cannot do what
   * they ask. NO_MEMORY, DENIED, SYSTEM.
   */
  public static Channel open(String address, Role role, Options options) {
    return open(Collections.singletonList(address), role, options);
  }

  /**
   * The same with one transport per address, of any schemes: what is posted goes to the peer of each, what any of them
   * sends is received here, in turns; a peer that is slow or lost holds up no other. Where one fails all are closed.
   * INVALID: no address, or redundant with one.
   */
  public static Channel open(List<String> addresses, Role role, Options options) {
    addresses.forEach(one -> Objects.requireNonNull(one, "an address is null"));
    Objects.requireNonNull(role, "role is null: Role.AUTO connects if somebody listens, and binds otherwise");
    if (addresses.isEmpty()) {
      throw new LwmqException(Status.INVALID, "a channel without a transport: say at least one address");
    }
    String address = addresses.get(0);
    if (options.isRedundant() && addresses.size() == 1) {
      throw new LwmqException(
          Status.INVALID, "redundant with one address, " + address + ": say the other ways to the peer");
    }
    long made = Jni.channelCreate(Jni.uri(address), options.fields());
    Channel channel = new Channel(address, made, role, options, false);
    try {
      for (String further : addresses.subList(1, addresses.size())) {
        Jni.channelAddTransport(
            made, Jni.uri(further), options.buffersSend(), options.buffersReceive(), options.retryMs(),
            options.isRedundant());
      }
      Jni.channelOpen(made, role.ordinal());
    } catch (RuntimeException e) {
      channel.handle.close();
      throw e;
    }
    return channel;
  }

  /** Of several transports the first. */
  public String address() {
    return address;
  }

  /** Adds a queue for one posting thread, without bounds; errors as below. */
  public SendQueue sendQueue(Priority priority) {
    return sendQueue(SendQueue.Kind.MONO_UNBOUNDED, priority, 0);
  }

  /**
   * Adds a queue, which lives as long as the channel.
   *
   * <p>INVALID: a bounded kind without a capacity, another with one, or a raw channel. UNSUPPORTED: this end of a one-way
   * transport receives. CLOSED.
   *
   * @param capacity messages that a bounded kind holds, at least 1; 0 for every other
   */
  public SendQueue sendQueue(SendQueue.Kind kind, Priority priority, long capacity) {
    Arguments.notNegative("capacity", capacity);
    long queue = handle.call(c -> Jni.channelAddSendQueue(c, kind.ordinal(), priority.ordinal() + 1, capacity));
    SendQueue made = new SendQueue(this, handle, queue, kind, priority, capacity);
    queues.add(made);
    if (last != null) { // closed meanwhile
      made.keepLast();
    }
    return made;
  }

  /** One for all that bring none of their own: it lives as long as the channel, which they need not. CLOSED. */
  SendQueue commonQueue() {
    handle.check();
    synchronized (queues) {
      if (common == null) {
        common = sendQueue(SendQueue.Kind.MULTI_UNBOUNDED, Priority.NORMAL, 0);
      }
      return common;
    }
  }

  /**
   * How many messages each of the priorities HIGHEST to LOWEST sends in a round; default 16, 8, 4, 2, 1. Waits for whoever
   * ships just now. INVALID: not five, or one that is not 0 to 65,535. CLOSED.
   */
  public void setWeights(int... weights) {
    for (int weight : weights) {
      Arguments.notNegative("weight", weight);
    }
    handle.run(c -> Jni.channelSetWeights(c, weights.clone()));
  }

  /** Waits until a peer is there. TIMED_OUT: none came. INTERRUPTED. CLOSED. */
  public void awaitConnected(Deadline deadline) {
    deadline.awaitDone(
        "waiting for a peer at " + address, slice -> handle.run(c -> Jni.channelWaitConnected(c, slice)));
  }

  /** How many peers have ended by now, whether somebody has received that or not. CLOSED. */
  long ends() {
    return handle.call(Jni::channelEnds);
  }

  /** Throws what keeps the peer away, where somebody has to mend that. */
  void checkNotKeptAway() {
    try {
      handle.run(c -> Jni.channelWaitConnected(c, 0));
    } catch (LwmqException e) {
      if (e.status() != Status.TIMED_OUT && e.status() != Status.EMPTY) {
        throw e;
      }
    }
  }

  /**
   * The next message, which the caller closes. PEER_LOST comes once, after what the peer had committed, and so does CLOSED
   * where it has closed. TIMED_OUT, INTERRUPTED: nothing is lost, call again.
   */
  public Message receive(Deadline deadline) {
    return deadline.await("waiting for a message at " + address, this::receiveOnce);
  }

  /** As that, in one native call that waits at most {@code timeoutMs}. */
  Message receiveOnce(int timeoutMs) {
    checkNotLent();
    return new Message(handle.call(c -> Jni.channelReceive(c, timeoutMs)));
  }

  /**
   * The next message and what has come behind it, at most {@code limit} (and 1024), which the caller closes; waits for
   * the first alone. What ends the peer's conversation is thrown by a call of its own, behind every message. Further
   * errors as of {@link #receive}. INVALID: a limit below 1.
   */
  public List<Message> receiveMany(int limit, Deadline deadline) {
    Arguments.atLeastOne("limit", limit);
    long[] came =
        deadline.await(
            "waiting for messages at " + address,
            slice -> {
              checkNotLent();
              return handle.call(c -> Jni.channelReceiveMany(c, limit, slice));
            });
    List<Message> messages = new ArrayList<>(came.length);
    for (long message : came) {
      messages.add(new Message(message));
    }
    return messages;
  }

  /**
   * As {@link #receiveMany}, but of each message its bytes alone: all frames, one after the other. For messages of one
   * frame the cheapest way to receive them: there is nothing to close, and the bytes are copied once. TOO_BIG (2 GiB and
   * more), OutOfMemoryError: what had come with it is lost.
   */
  public List<byte[]> receiveBytes(int limit, Deadline deadline) {
    Arguments.atLeastOne("limit", limit);
    return List.of(
        deadline.await(
            "waiting for messages at " + address,
            slice -> {
              checkNotLent();
              return handle.call(c -> Jni.channelReceiveBytes(c, limit, slice));
            }));
  }

  /** The next message if one is there, which the caller closes; null if none is. Never waits. */
  public Message tryReceive() {
    checkNotLent();
    return Message.ofPointer(handle.call(Jni::channelTryReceive));
  }

  /**
   * From now on {@code callback} gets each message, in order, on a thread that all channels share; the message is closed
   * behind it. It may post and end its own calls; what it throws is logged, and so is the loss of the peer. Null ends the
   * calls, and so does close: none runs any more when this returns, but the one that asks. So a call-back does not wait
   * for a thread that closes, nor for the end of the process ({@code System.exit} waits for its shutdown hooks). INVALID:
   * {@link Requests} receive here, or the channel is raw.
   */
  public void onMessage(Consumer<Message> callback) {
    onMessage(callback, null);
  }

  /**
   * As {@link #onMessage(Consumer)}; {@code onEnd} gets, in its place among the messages and on the same thread, what a
   * receive would throw: CLOSED when a peer has closed, PEER_LOST, and once what keeps the channel from receiving for
   * long. The calls go on with the next peer.
   */
  public void onMessage(Consumer<Message> callback, Consumer<LwmqException> onEnd) {
    if (callback == null) {
      if (isCalled) {
        Calls.ALL.dropCallBack(this);
      }
      return;
    }
    if (options.isRaw()) {
      throw new LwmqException(Status.INVALID, "a raw channel has buffers, not messages: receiveBuffer() (" + address + ")");
    }
    isCalled = true; // before: a close that has begun drops it, or it is refused
    Calls.ALL.put(this, new Calls.CallBack(this, callback, onEnd));
  }

  /** An application's, which has the channel from now on. */
  void noteSelector(Selector selector) {
    selectors.removeIf(known -> known.get() == null || known.get() == selector);
    selectors.add(new WeakReference<>(selector));
  }

  /** INVALID: an application's selector receives from it. */
  void checkNotSelected() {
    if (selectors.stream().map(WeakReference::get).anyMatch(known -> known != null && known.has(this))) {
      throw new LwmqException(
          Status.INVALID, "what comes over " + address + " goes to a selector: remove it there, then make the Requests");
    }
  }

  /** From now on, or no more, {@link Requests} have what comes, and every other receive is refused. */
  void setLent(boolean isLent) {
    this.isLent = isLent;
  }

  /** INVALID: it is. */
  void checkNotLent() {
    if (isLent) {
      throw new LwmqException(
          Status.INVALID,
          "a Requests has what comes over " + address + ", and would miss what another one takes: ask with that one from"
              + " all threads, close it first, or open a further channel");
    }
  }

  /** Calls it once, on the thread that closes the channel, before it does. CLOSED: that has begun. */
  void tellWhenClosed(Runnable call) {
    synchronized (toTell) {
      if (isClosing) {
        throw new LwmqException(Status.CLOSED, "channel " + address + " is closed");
      }
      toTell.add(call);
    }
  }

  void tellNoMore(Runnable call) {
    synchronized (toTell) {
      toTell.remove(call);
    }
  }

  /**
   * A descriptor for epoll and the like: readable unless nothing has come since {@link #tryReceive} answered null. Lent
   * until close; not to be read from.
   */
  public int descriptor() {
    return handle.call(Jni::channelDescriptor);
  }

  /**
   * Adds a filter such as {@code loss=0.01,seed=7} while extents pass. The address must name filters
   * ({@code filters+ipc://orders} begins without any), else UNSUPPORTED. INVALID: no such filter, place or setting.
   *
   * @param place 0 is the nearest to the application, {@link #LAST_FILTER} the nearest to the wire
   */
  public void addFilter(String filter, int place) {
    Objects.requireNonNull(filter, "the filter is null: Transports.filters() names all");
    checkPlace(place);
    handle.run(c -> Jni.channelAddFilter(c, Jni.utf8(filter), place));
  }

  /** Removes the filter at {@code place}; what it held lands at once. INVALID, UNSUPPORTED: there is none. */
  public void removeFilter(int place) {
    checkPlace(place);
    handle.run(c -> Jni.channelRemoveFilter(c, place));
  }

  /** The filters of this channel, the nearest to the application first; empty where there are none. */
  public List<FilterState> filters() {
    List<FilterState> found = new ArrayList<>();
    byte[][] texts = new byte[2][];
    while (true) {
      long[] counts = handle.call(c -> Jni.channelQueryFilter(c, found.size(), texts));
      if (counts == null) {
        return found;
      }
      found.add(
          new FilterState(
              Identity.text(texts[0]), Identity.text(texts[1]), counts[0], counts[1], counts[2], counts[3],
              counts[4], counts[5], counts[6]));
    }
  }

  /**
   * Nanoseconds within which {@code share} of what the filter {@code latency} at {@code place} has timed was on its way:
   * 0.5 is the median, 1 the longest; empty where it has timed nothing yet. Never waits. INVALID: no such place, or a
   * share that is not 0 to 1. UNSUPPORTED: the address names no filters.
   */
  public OptionalLong latencyNs(int place, double share) {
    Arguments.notNegative("place", place);
    long ns = handle.call(c -> Jni.channelQueryTimes(c, place, share));
    return ns < 0 ? OptionalLong.empty() : OptionalLong.of(ns);
  }

  private static void checkPlace(int place) {
    if (place != LAST_FILTER) {
      Arguments.notNegative("place", place);
    }
  }

  /** Lends the native channel to {@code user}. */
  void lendTo(LongConsumer user) {
    handle.run(user);
  }

  /** Behind the close the last ones. Never waits. */
  public Statistics statistics() {
    return lastOr(() -> last, () -> handle.call(Channel::query));
  }

  /** The {@code last} figures, which are kept before a close is done; before them those of now. */
  static <T> T lastOr(Supplier<T> last, Supplier<T> now) {
    T known = last.get();
    if (known != null) {
      return known;
    }
    try {
      return now.get();
    } catch (LwmqException e) {
      known = last.get();
      if (e.status() != Status.CLOSED || known == null) {
        throw e;
      }
      return known;
    }
  }

  private static Statistics query(long channel) {
    long[] n = Jni.channelQuery(channel);
    return new Statistics(
        n[0] != 0, n[1] != 0, n[2], n[3], n[4], n[5], n[6], n[7], n[8], n[9], n[10], n[11], n[12], n[13], n[14],
        n[15], n[16], n[17], n[18]);
  }

  /** Over the first transport; null where nobody has come yet. Never waits. */
  public Peer peer() {
    return peer(0);
  }

  /** Over transport {@code transport}, in the order of the addresses, from 0 on. INVALID past the last. */
  public Peer peer(int transport) {
    Arguments.notNegative("transport", transport);
    byte[][] instance = new byte[1][];
    long[] n = handle.call(c -> Jni.channelPeer(c, transport, instance));
    return n == null ? null : Peer.of(n, instance[0]);
  }

  /**
   * Waits until a peer comes or goes, and says which: until it is another than {@code known}, which is null at first, or is
   * gone. Of several comings and goings between two calls it says the last. Any number of threads. TIMED_OUT. INTERRUPTED.
   * CLOSED: nobody comes any more.
   */
  public Peer awaitPeer(Peer known, Deadline deadline) {
    return awaitPeer(known, 0, deadline);
  }

  /** Over transport {@code transport}, in the order of the addresses, from 0 on. INVALID past the last. */
  public Peer awaitPeer(Peer known, int transport, Deadline deadline) {
    Arguments.notNegative("transport", transport);
    long number = known == null ? 0 : known.number;
    boolean isConnected = known != null && known.isConnected;
    byte[][] instance = new byte[1][];
    long[] n = deadline.await(
        "waiting for a peer to come to, or leave, " + address,
        slice -> handle.call(c -> Jni.channelAwaitPeer(c, transport, slice, number, isConnected, instance)));
    return Peer.of(n, instance[0]);
  }

  /**
   * Waits until everything posted so far was shipped: the peer has it, and need not have read it. TIMED_OUT: some of it
   * waits still, for a peer or for room. INTERRUPTED. CLOSED. The loss of a peer is for a receive to say.
   */
  public void flush(Deadline deadline) {
    deadline.awaitDone("flushing " + address, slice -> handle.run(c -> Jni.channelFlush(c, slice)));
  }

  /**
   * On a raw channel: lends the next free buffer; it goes back through send or abandon, in any order. INVALID: the channel is
   * not raw. TIMED_OUT, INTERRUPTED, CLOSED, PEER_LOST.
   */
  public TransportBuffer buffer(Deadline deadline) {
    long[] fields = new long[TransportBuffer.FIELDS];
    deadline.awaitDone(
        "waiting for a free buffer of " + address,
        slice -> handle.run(c -> {
          Jni.rawGetBuffer(c, slice, fields);
          loans.lend(); // before a close may pass
        }));
    return TransportBuffer.lent(handle, loans, false, fields);
  }

  /**
   * Takes {@code buffer} and sends its first {@code bytes} bytes. Never waits. INVALID (less than none of them, a buffer of
   * another channel, or one that is not to be sent), TOO_BIG: it is still the caller's. CLOSED. PEER_LOST: whom it was for
   * has gone.
   */
  public void send(TransportBuffer buffer, long bytes) {
    Arguments.notNegative("bytes", bytes);
    buffer.take(handle, false, bytes);
    loans.send(handle, buffer.fields(bytes));
  }

  /** Takes {@code buffer} back unsent, from any thread, also behind the close. */
  public void abandon(TransportBuffer buffer) {
    buffer.take(handle, false, 0);
    loans.giveBack(handle, false, buffer.fields(0));
  }

  /** On a raw channel: lends the next buffer that came; it goes back through dispose, in any order. */
  public TransportBuffer receiveBuffer(Deadline deadline) {
    long[] fields = new long[TransportBuffer.FIELDS];
    deadline.awaitDone(
        "waiting for a buffer at " + address,
        slice -> handle.run(c -> {
          Jni.rawReceiveBuffer(c, slice, fields);
          loans.lend();
        }));
    return TransportBuffer.lent(handle, loans, true, fields);
  }

  /** Takes a received {@code buffer} back, from any thread, also behind the close. */
  public void dispose(TransportBuffer buffer) {
    buffer.take(handle, true, 0);
    loans.giveBack(handle, true, buffer.fields(buffer.bytes()));
  }

  /**
   * Waits at most {@code lingerMs} until what was posted has been read, and closes. TIMED_OUT: closed, the text has the
   * number of messages that were dropped or not seen read. Any thread; waits for those who are in a call, who get CLOSED.
   * Neither a signal nor an interrupt ends it. Twice is allowed: who comes while another one closes does not wait. INVALID: a
   * linger below 0, and the channel is open still.
   */
  public void close(int lingerMs) {
    Arguments.notNegative("lingerMs", lingerMs);
    if (!beginClose()) {
      return;
    }
    Deadline linger = Deadline.after(lingerMs);
    try {
      endUses();
      try {
        handle.run(c -> closeWithin(c, linger));
      } finally {
        keepLast();
      }
    } finally {
      handle.close();
    }
  }

  /** Behind the native close, for who asks later. */
  private void keepLast() {
    handle.run(c -> last = query(c));
    queues.forEach(SendQueue::keepLast);
  }

  /** A signal that comes meanwhile leaves the channel open, and the time that is left. */
  private static void closeWithin(long channel, Deadline linger) {
    while (true) {
      try {
        Jni.channelClose(channel, linger.slice(Integer.MAX_VALUE));
        return;
      } catch (LwmqException e) {
        if (e.status() != Status.INTERRUPTED) {
          throw e;
        }
      }
    }
  }

  /** Closes as {@link #close(int)} with the linger of its options; messages that were received live on. */
  @Override
  public void close() {
    close(options.lingerMs());
  }

  /** Whether a close has begun. */
  boolean isClosing() {
    synchronized (toTell) {
      return isClosing;
    }
  }

  /** False: somebody else closes it. */
  private boolean beginClose() {
    synchronized (toTell) {
      boolean isFirst = !isClosing;
      isClosing = true;
      return isFirst;
    }
  }

  /** Afterwards no thread of ours, or of those who were told, is in the channel. */
  private void endUses() {
    List<Runnable> told;
    synchronized (toTell) {
      told = List.copyOf(toTell);
      toTell.clear();
    }
    told.forEach(Runnable::run);
    onMessage(null);
  }

  boolean isOpen() {
    return handle.isOpen();
  }

  /** What it was opened with: any thread, also while another closes it. {@link #statistics} have the rest. */
  @Override
  public String toString() {
    String kind = options.isRaw() ? "raw " : "";
    return "Channel " + address + " " + kind + role + ", " + (isOpen() ? "open" : "closed");
  }
}
