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
 * A two-way conversation with one peer at an address, or with one peer at each of several addresses. Messages are
 * posted to its {@link SendQueue}s. One thread receives at a time; any number do if the receive queue is not mono. Any
 * thread closes it, and threads that are in a call then get CLOSED.
 */
public final class Channel implements AutoCloseable {
  /** The place of the filter that is nearest to the wire. */
  public static final int LAST_FILTER = -1;

  private final String address;
  private final Handle handle;
  private final Role role;
  private final Options options;
  private final boolean isAccepted; // by a listener, for one client alone
  private final RawLoans loans;
  private final List<WeakReference<Selector>> selectors = new CopyOnWriteArrayList<>(); // of the application, with this channel
  private final Queue<SendQueue> queues = new ConcurrentLinkedQueue<>();
  private SendQueue common; // one of the queues; guarded by queues
  private volatile Statistics last; // null until it is closed
  private volatile boolean isLent; // whether Requests receive
  private volatile boolean isCalled; // whether it ever had a call-back
  private final List<Runnable> toTell = new ArrayList<>(); // guarded by itself, as isClosing is
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

  /** The channel that a listener has accepted. Takes the native {@code channel}. */
  static Channel accepted(String address, long channel, Options options) {
    return new Channel(address, channel, Role.SERVER, options, true);
  }

  /** Whether it is for one client, after which no other one comes. */
  boolean isAccepted() {
    return isAccepted;
  }

  /** Which threads receive, and how many messages may wait; see {@link Options#receiving}. */
  public enum ReceiveKind {
    /** One thread at a time. Messages stay in the transport until they are received. */
    MONO_UNBOUNDED(SendQueue.Kind.MONO_UNBOUNDED),
    /** Any number of threads, each message goes to one. Messages land in the queue while no thread receives. */
    MULTI_UNBOUNDED(SendQueue.Kind.MULTI_UNBOUNDED),
    /** The same. A full queue discards its oldest message. */
    BOUNDED_DISCARD_OLDEST(SendQueue.Kind.BOUNDED_DISCARD_OLDEST),
    /** The same. A full queue discards new messages. */
    BOUNDED_DISCARD_NEWEST(SendQueue.Kind.BOUNDED_DISCARD_NEWEST);

    private final int code;

    ReceiveKind(SendQueue.Kind like) {
      this.code = like.ordinal(); // the numbers of LWMQ_QUEUE_* are those of send queues
    }
  }

  /** How long {@link #close()} waits by default. */
  public static final int LINGER_MS = 5000;

  /**
   * Options; zero means the default of {@code lwmq_channel_options}.
   *
   * @param bufferBytes size of a transport buffer, and of the largest message; default 64 KiB
   * @param buffersSend send buffers of each transport; default 32, whose memory is used as it is needed
   * @param buffersReceive the most send buffers that a peer may have; 0: any number
   * @param retryMs time between attempts to connect; default 100
   * @param isRaw direct access to transport buffers instead of messages
   * @param secureErase buffers, and copies that the library makes, are zeroed as soon as they are not needed
   * @param receiveCapacity messages that a bounded receive queue holds, at least 1; 0 for other kinds
   * @param isRedundant several addresses are ways to one peer; see {@link #redundant}
   * @param isAtHome made for the thread that opens it; see {@link #atHome}
   * @param lingerMs how long {@link Channel#close()} waits at most until the peer has read all messages; 0: not at all
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
     * Nothing is lost as long as one way is left. Both sides must say so, with several addresses.
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

    /** The numbers as they cross to the native side. */
    long[] fields() {
      return new long[] {
        bufferBytes, buffersSend, buffersReceive, retryMs, isRaw ? 1 : 0, secureErase ? 1 : 0, receiveQueue.code,
        receiveCapacity, isAtHome ? 1 : 0
      };
    }

    /** A copy with other values for everything that is not a transport's. */
    private Options with(
        boolean erases, ReceiveKind kind, long capacity, boolean redundant, boolean atHome, int linger) {
      return new Options(
          bufferBytes, buffersSend, buffersReceive, retryMs, isRaw, erases, kind, capacity, redundant, atHome, linger);
    }
  }

  /**
   * Counters since the channel was made. For several transports they are sums, except {@code messagesPosted}.
   *
   * @param isConnected whether all transports are connected, or one of redundant transports
   * @param messagesLost shipped and not seen read when a peer was lost
   * @param shippedFull buffers that were closed because there was no room left
   * @param shippedIdle buffers that were closed because there was nothing left to put in
   * @param buffersFree send buffers that are free now
   * @param messagesPassed shipped messages that were handed, without a copy, to a peer in this process
   * @param receiveQueued messages that wait in the receive queue now, if it is not mono
   * @param receiveDiscarded messages that a bounded receive queue has discarded; they count as received, too
   * @param duplicatesDropped messages that had come over another redundant transport; they do not count as received
   * @param clientsRefused clients that a server has refused: of another version, purpose or user, or with wrong numbers
   * @param messagesUnread messages that were shipped to the present peers and not seen read yet
   */
  public record Statistics(
      boolean isConnected, boolean isServer, long messagesPosted, long messagesShipped, long messagesReceived,
      long messagesLost, long buffersShipped, long shippedFull, long shippedIdle, long bytesShipped,
      long bytesReceived, long peersLost, long buffersFree, long messagesPassed, long receiveQueued,
      long receiveDiscarded, long duplicatesDropped, long clientsRefused, long messagesUnread) {}

  /**
   * The peer at the other end, or the last one that was there.
   *
   * @param isConnected false: it has gone, and that was noticed
   * @param number counts the peers that have come over this transport, from 1 on
   * @param instance of its process, see {@link Identity#instance}
   */
  public record Peer(boolean isConnected, long number, long pid, long uid, String instance) {
    private static Peer of(long[] n, byte[] instance) {
      return new Peer(n[0] != 0, n[1], n[2], n[3], Identity.hex(instance));
    }
  }

  /**
   * Binds the address or begins to connect, as {@code role} says. Does not wait for the peer. ADDRESS: the address is
   * malformed or in use, or no provider takes it. INVALID: the options do not go together. UNSUPPORTED: the transport
   * cannot do what the options ask for. NO_MEMORY, DENIED, SYSTEM.
   */
  public static Channel open(String address, Role role, Options options) {
    return open(Collections.singletonList(address), role, options);
  }

  /**
   * The same with one transport per address. Messages are posted to the peers of all transports and received from all
   * of them in turns. A peer that is slow or lost holds up no other. If one transport cannot be opened, all are closed.
   * INVALID: there is no address, or one address and redundant transports.
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

  /** The address; of several transports the first one. */
  public String address() {
    return address;
  }

  /** Adds an unbounded queue for one posting thread. Throws what the next method throws. */
  public SendQueue sendQueue(Priority priority) {
    return sendQueue(SendQueue.Kind.MONO_UNBOUNDED, priority, 0);
  }

  /**
   * Adds a queue, which lives as long as the channel.
   *
   * <p>INVALID: a bounded kind has no capacity, another kind has one, or the channel is raw. UNSUPPORTED: this end of a
   * one-way transport only receives. CLOSED.
   *
   * @param capacity messages that a bounded kind holds, at least 1; 0 for other kinds
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

  /** The queue that requests, replies and the like share if they were given none. CLOSED. */
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
   * Sets how many messages each of the priorities HIGHEST to LOWEST sends in a round; default 16, 8, 4, 2, 1. Waits
   * while a thread ships. INVALID: there are not five weights, or one is not 0 to 65,535. CLOSED.
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

  /**
   * The next message, which the caller closes. PEER_LOST: the peer was lost; this is thrown once, after its last
   * message. CLOSED: the peer has closed; likewise. TIMED_OUT, INTERRUPTED: nothing is lost, call again.
   */
  public Message receive(Deadline deadline) {
    return deadline.await("waiting for a message at " + address, this::receiveOnce);
  }

  /** The same, in one native call that waits at most {@code timeoutMs}. */
  Message receiveOnce(int timeoutMs) {
    checkNotLent();
    return new Message(handle.call(c -> Jni.channelReceive(c, timeoutMs)));
  }

  /**
   * The next message and those that have come behind it, at most {@code limit} and 1024, which the caller closes. Waits
   * for the first message only. The end of a peer is thrown by a call of its own, after the last message. Throws what
   * {@link #receive} throws. INVALID: the limit is below 1.
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
   * As {@link #receiveMany}, but gives the bytes of each message only: all its frames, one after the other. This is the
   * cheapest way to receive messages of one frame: there is nothing to close, and the bytes are copied once. TOO_BIG: a
   * message has 2 GiB or more. After TOO_BIG and OutOfMemoryError, the messages of this call are lost.
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

  /** The next message, which the caller closes; null: there is none. Never waits. */
  public Message tryReceive() {
    checkNotLent();
    return Message.ofPointer(handle.call(Jni::channelTryReceive));
  }

  /**
   * From now on {@code callback} gets each message, in order, on a thread that all channels share. The message is
   * closed afterwards. The call-back may post, and may end its own calls. What it throws is logged, and so is the loss
   * of the peer.
   *
   * <p>Null ends the calls, and so does a close of the channel. When either returns, no call-back runs any more, except
   * the one that has asked for it. So a call-back must not wait for a thread that closes the channel, nor for the end
   * of the process ({@code System.exit} waits for shutdown hooks). INVALID: {@link Requests} receive from this channel,
   * or it is raw.
   */
  public void onMessage(Consumer<Message> callback) {
    onMessage(callback, null);
  }

  /**
   * As {@link #onMessage(Consumer)}. {@code onEnd} gets what a receive would throw, on the same thread and in order
   * with the messages: CLOSED when a peer has closed, PEER_LOST, and once a failure that keeps the channel from
   * receiving. The calls go on with the next peer.
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
    isCalled = true; // first: a close that has begun then drops the call-back, or it is refused
    Calls.ALL.put(this, new Calls.CallBack(this, callback, onEnd));
  }

  /** From now on {@code selector}, an application's, has this channel. */
  void noteSelector(Selector selector) {
    selectors.removeIf(known -> known.get() == null || known.get() == selector);
    selectors.add(new WeakReference<>(selector));
  }

  /** INVALID: a selector of the application receives from this channel. */
  void checkNotSelected() {
    if (selectors.stream().map(WeakReference::get).anyMatch(known -> known != null && known.has(this))) {
      throw new LwmqException(
          Status.INVALID, "what comes over " + address + " goes to a selector: remove it there, then make the Requests");
    }
  }

  /** Whether {@link Requests} receive from now on. Then every other receive is refused. */
  void setLent(boolean isLent) {
    this.isLent = isLent;
  }

  /** INVALID: {@link Requests} receive from this channel. */
  void checkNotLent() {
    if (isLent) {
      throw new LwmqException(
          Status.INVALID,
          "a Requests has what comes over " + address + ", and would miss what another one takes: ask with that one from"
              + " all threads, close it first, or open a further channel");
    }
  }

  /** The thread that closes the channel will call {@code call} once before it closes. CLOSED: a close has begun. */
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
   * A descriptor for epoll and the like. It is readable, unless nothing has come since {@link #tryReceive} returned
   * null. It is lent until close, and must not be read from.
   */
  public int descriptor() {
    return handle.call(Jni::channelDescriptor);
  }

  /**
   * Adds a filter such as {@code loss=0.01,seed=7}, also while messages pass. UNSUPPORTED: the address names no
   * filters; {@code filters+ipc://orders} begins with none. INVALID: there is no such filter, place or setting.
   *
   * @param place 0 is the nearest to the application, {@link #LAST_FILTER} the nearest to the wire
   */
  public void addFilter(String filter, int place) {
    Objects.requireNonNull(filter, "the filter is null: Transports.filters() names all");
    checkPlace(place);
    handle.run(c -> Jni.channelAddFilter(c, Jni.utf8(filter), place));
  }

  /** Removes the filter at {@code place}. What it holds lands at once. INVALID, UNSUPPORTED: there is no filter. */
  public void removeFilter(int place) {
    checkPlace(place);
    handle.run(c -> Jni.channelRemoveFilter(c, place));
  }

  /** The filters of this channel. The first is the nearest to the application. */
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
   * The nanoseconds within which {@code share} of the messages have passed that the filter {@code latency} at {@code
   * place} has timed: 0.5 is the median, 1 the longest time. Empty: it has timed nothing yet. Never waits. INVALID:
   * there is no such place, or the share is not 0 to 1. UNSUPPORTED: the address names no filters.
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

  /** The counters; after the close the last ones. Never waits. */
  public Statistics statistics() {
    return lastOr(() -> last, () -> handle.call(Channel::query));
  }

  /** The figures {@code last}, which a close keeps; before the close those of {@code now}. */
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

  /** The peer over the first transport; null: none has come yet. Never waits. */
  public Peer peer() {
    return peer(0);
  }

  /** The peer over the transport of the address number {@code transport}, from 0 on. INVALID past the last. */
  public Peer peer(int transport) {
    Arguments.notNegative("transport", transport);
    byte[][] instance = new byte[1][];
    long[] n = handle.call(c -> Jni.channelPeer(c, transport, instance));
    return n == null ? null : Peer.of(n, instance[0]);
  }

  /**
   * Waits until a peer comes or goes, and returns it: until the peer is another one than {@code known}, or {@code
   * known} has gone. {@code known} is null at first. Of several comings and goings between two calls, only the last is
   * seen. Any number of threads. TIMED_OUT. INTERRUPTED. CLOSED: no peer comes any more.
   */
  public Peer awaitPeer(Peer known, Deadline deadline) {
    return awaitPeer(known, 0, deadline);
  }

  /** The same over the transport of the address number {@code transport}, from 0 on. INVALID past the last. */
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
   * Waits until everything that was posted so far was shipped. The peer then has it, but need not have read it.
   * TIMED_OUT: some messages still wait for a peer or for room. INTERRUPTED. CLOSED. The loss of a peer is reported by
   * a receive.
   */
  public void flush(Deadline deadline) {
    deadline.awaitDone("flushing " + address, slice -> handle.run(c -> Jni.channelFlush(c, slice)));
  }

  /**
   * On a raw channel: lends the next free buffer. The caller gives it back through send or abandon, in any order.
   * INVALID: the channel is not raw. TIMED_OUT, INTERRUPTED, CLOSED, PEER_LOST.
   */
  public TransportBuffer buffer(Deadline deadline) {
    long[] fields = new long[TransportBuffer.FIELDS];
    deadline.awaitDone(
        "waiting for a free buffer of " + address,
        slice -> handle.run(c -> {
          Jni.rawGetBuffer(c, slice, fields);
          loans.lend(); // inside of the call, for which a close waits
        }));
    return TransportBuffer.lent(handle, loans, false, fields);
  }

  /**
   * Takes {@code buffer} and sends its first {@code bytes} bytes. Never waits. INVALID: {@code bytes} is negative, or
   * the buffer belongs to another channel or was received. TOO_BIG. After these two the buffer is still the caller's.
   * CLOSED. PEER_LOST: the peer that the buffer was for has gone.
   */
  public void send(TransportBuffer buffer, long bytes) {
    Arguments.notNegative("bytes", bytes);
    buffer.take(handle, false, bytes);
    loans.send(handle, buffer.fields(bytes));
  }

  /** Takes {@code buffer} back unsent. Any thread, also after the close. */
  public void abandon(TransportBuffer buffer) {
    buffer.take(handle, false, 0);
    loans.giveBack(handle, false, buffer.fields(0));
  }

  /** On a raw channel: lends the next buffer that has come. The caller gives it back through dispose, in any order. */
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

  /** Takes a received {@code buffer} back. Any thread, also after the close. */
  public void dispose(TransportBuffer buffer) {
    buffer.take(handle, true, 0);
    loans.giveBack(handle, true, buffer.fields(buffer.bytes()));
  }

  /**
   * Waits at most {@code lingerMs} until the peer has read all posted messages, and closes. TIMED_OUT: it is closed,
   * and the text has the number of messages that were dropped or not seen read. Any thread. Threads that are in a call
   * get CLOSED, and this waits for them. Neither a signal nor an interrupt ends the wait. Twice is allowed; a call
   * while another thread closes does not wait. INVALID: the linger is below 0; the channel is still open.
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

  /** Keeps the last figures, after the native close. */
  private void keepLast() {
    handle.run(c -> last = query(c));
    queues.forEach(SendQueue::keepLast);
  }

  /** Closes. A signal ends a native call early, and leaves the channel open for the time that is left. */
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

  /** Closes as {@link #close(int)} with the linger of the options. Received messages live on. */
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

  /** False: another thread closes the channel. */
  private boolean beginClose() {
    synchronized (toTell) {
      boolean isFirst = !isClosing;
      isClosing = true;
      return isFirst;
    }
  }

  /** Ends the requests, replies and call-backs of the channel. Afterwards none of their threads is in it. */
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

  /** How it was opened. Any thread, also during a close. */
  @Override
  public String toString() {
    String kind = options.isRaw() ? "raw " : "";
    return "Channel " + address + " " + kind + role + ", " + (isOpen() ? "open" : "closed");
  }
}
