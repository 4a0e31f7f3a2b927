package org.lwmq.core;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Objects;

/**
 * Every native method of the jar, on one page; the other side is {@code native/src/jni}, a file for each part.
 *
 * <p>Mostly each is one call of {@code lwmq.h}: it returns its result, or throws {@link LwmqException} with status and
 * text that it fetched in the same call. Where an answer is expected, it is a result: false, null, 0 or
 * -1, as they say. Text is UTF-8 in a byte array that ends with NUL. Numbers that belong
 * together come back in a {@code long[]}, whose places are the constants below. {@link Handle} says how many
 * threads use one at a time.
 */
final class Jni {
  static {
    NativeLibrary.load();
  }

  private Jni() {}

  /** As the native side reads it; null for null. INVALID: a NUL in it, which would end it there. */
  static byte[] utf8(String text) {
    return utf8(text, Status.INVALID);
  }

  /** The same for an address: ADDRESS where that is INVALID. */
  static byte[] uri(String address) {
    return utf8(Objects.requireNonNull(address, "the address is null"), Status.ADDRESS);
  }

  /** The same for words that are shown alone, such as why a job was aborted: they pass, with U+FFFD for NUL. */
  static byte[] words(String text) {
    return text == null ? null : utf8(text.replace('\0', '\uFFFD'));
  }

  private static byte[] utf8(String text, Status refusal) {
    if (text == null) {
      return null;
    }
    int nul = text.indexOf('\0');
    if (nul >= 0) {
      throw new LwmqException(
          refusal,
          "a NUL character, number " + (nul + 1) + " of " + text.length() + ", in '" + text.replace("\0", "\\0")
              + "': leave it out");
    }
    return encode(text + '\0', refusal);
  }

  /** INVALID: half a surrogate pair, which is no character; {@code getBytes} would make it a question mark. */
  static byte[] encode(String text, Status refusal) {
    try {
      ByteBuffer bytes = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
      return Arrays.copyOf(bytes.array(), bytes.limit());
    } catch (CharacterCodingException e) {
      throw new LwmqException(
          refusal, "half a surrogate pair, number " + (halfPair(text) + 1) + " of the characters: it is none");
    }
  }

  private static int halfPair(String text) {
    int at = 0;
    while (!Character.isSurrogate(text.charAt(at)) || Character.isSupplementaryCodePoint(text.codePointAt(at))) {
      at += Character.charCount(text.codePointAt(at));
    }
    return at;
  }

  // ---- process ----------------------------------------------------------------------------------

  static native String version();

  static native int protocolVersion();

  /** Fills {@code texts} with host, boot id, instance; returns {network namespace, pid, uid}. */
  static native long[] identify(byte[][] texts);

  /** {bytes of a buffer, buffers, bytes in line, frames, capabilities}. */
  static native long[] queryLimits(byte[] address);

  static native long readValue(int kind, byte[] words, byte[] text);

  static native int nearestWord(byte[] text, byte[] words);

  static native long readSetting(byte[] key, byte[] text);

  /** Fills {@code found} with the key and the text of the n-th option of an address; false behind the last. */
  static native boolean addressOption(byte[] address, int takenBy, int index, byte[][] found);

  static native void setWindowMemory(long bytesMax);

  static native void setServiceAffinity(int[] processors);

  /** The counters of this process, in the order of {@link #counterName}. */
  static native long[] statistics();

  /** A view of native memory; valid as long as that memory is. TOO_BIG: more than a buffer of Java can show. */
  static native ByteBuffer wrap(long address, long bytes);

  static native long address(ByteBuffer direct);

  /** A private copy of native memory: what is checked must not change afterwards. */
  static native void copyOut(long address, byte[] target, int bytes);

  // ---- stream -----------------------------------------------------------------------------------

  static final int STATE_STATE = 0;
  static final int STATE_RETAIN = 1;
  static final int STATE_READERS = 2;
  static final int STATE_PRODUCERS_OPEN = 3;
  static final int STATE_READERS_OPEN = 4;
  static final int STATE_NETNS = 5;
  static final int STATE_PID = 6;
  static final int STATE_UID = 7;
  static final int STATE_PARTITIONS = 8; // five numbers each: first, unacked, next, rows, bytes

  /** Fills {@code bytes} with generation, schema (or null), host, boot id, instance. */
  static native long[] streamDescribe(byte[] address, boolean waitDeclared, int timeoutMs, byte[][] bytes);

  static native void streamSettle(byte[] address, byte[] name, boolean acknowledge, int timeoutMs);

  /** {@code schema} and {@code array} stay the caller's, because they have no release; {@code ids} is written. */
  static native void partitionIds(long schema, long array, int partitions, long ids);

  static native long endpointOpen(byte[] address);

  /** Takes the endpoint, also when it throws TIMED_OUT. */
  static native void endpointClose(long endpoint, int lingerMs);

  // ---- writer -----------------------------------------------------------------------------------

  static native long writerOpen(
      byte[] address, byte[] schema, int role, int partitions, int retain, int readers, int delivery,
      int timeoutMs, long bufferBytes, long windowBytes, long stagingBytes,
      byte[] job, int task, int jobTasks, long attempt, long epoch, int stallMs, int expelAfterMs);

  /** The declared schema; {@code partitions[0]} becomes the number of partitions. */
  static native byte[] writerSchema(long writer, int[] partitions);

  static final int BLOCK_DATA = 0;
  static final int BLOCK_BYTES = 1;
  static final int BLOCK_LONGS = 4; // and two of the library's

  static native void writerAllocate(long writer, long bytes, int timeoutMs, long[] block);

  static native void writerPublish(long writer, long[] block, int partition, long bytes, long rows, int flags);

  static native void writerDiscard(long writer, long[] block);

  /** Until {@link #holdEnd} the block stays mapped and is not used again. */
  static native long writerHold(long writer, long[] block);

  static native void holdEnd(long hold);

  static final int COMMIT_WON = 0;
  static final int COMMIT_PARTITION = 1;
  static final int COMMIT_ATTEMPT = 2;
  static final int COMMIT_START = 3;
  static final int COMMIT_END = 4;
  static final int COMMIT_BATCHES = 5;
  static final int COMMIT_ROWS = 6;
  static final int COMMIT_BYTES = 7;

  static native long[] writerCommit(long writer, int timeoutMs);

  static native void writerAbort(long writer, byte[] reason);

  static native void writerClose(long writer, int lingerMs);

  static native void writerDestroy(long writer);

  /** {batches, rows, bytes, wait ns, window bytes, unread batches}. */
  static native long[] writerQuery(long writer);

  // ---- job --------------------------------------------------------------------------------------

  static native long jobOpen(
      byte[] address, byte[] schema, int role, int partitions, int retain, int readers, int delivery,
      int timeoutMs, byte[] job, long epoch, int stallMs);

  static native byte[] jobSchema(long job, int[] partitions);

  /** {@code tasks}: task, partition, attempt, batches of each commit, one after the other. */
  static native void jobCommit(long job, long epoch, long[] tasks, int timeoutMs);

  static native void jobAbort(long job, byte[] reason, int timeoutMs);

  /** Takes the job. */
  static native void jobClose(long job);

  // ---- reader -----------------------------------------------------------------------------------

  /**
   * {@code ranges}: partition, start, end of each, one after the other; null for everything. {@code tasks}: of
   * {@code job}, null where that is.
   */
  static native long readerOpen(
      byte[] address, int role, int acknowledge, boolean follow, int writers, int timeoutMs, int credit,
      byte[] name, byte[] generation, boolean keepMapped, long[] ranges, int stallMs, byte[] task,
      long attempt, byte[] job, long[] tasks);

  static native byte[] readerSchema(long reader, int timeoutMs);

  static final int BATCH_HANDLE = 0;
  static final int BATCH_DATA = 1;
  static final int BATCH_BYTES = 2;
  static final int BATCH_ROWS = 3;
  static final int BATCH_SEQ = 4;
  static final int BATCH_TIMESTAMP_NS = 5;
  static final int BATCH_PARTITION = 6;
  static final int BATCH_FLAGS = 7;
  static final int BATCH_COPIED = 8;
  static final int BATCH_WRITER_PID = 9;
  static final int BATCH_WINDOW_DATA = 10;
  static final int BATCH_WINDOW_BYTES = 11;
  static final int BATCH_LONGS = 12;

  /** Fills {@code batch}; false at the end of the stream. */
  static native boolean readerNext(long reader, int timeoutMs, long[] batch);

  static native void readerConsume(long reader);

  static native void batchRelease(long batch);

  /** {batches, rows, bytes, bytes copied, batches copied, wait ns, leased batches, leased bytes}. */
  static native long[] readerQuery(long reader);

  /** Takes the reader. */
  static native void readerClose(long reader, int lingerMs);

  // ---- channel ----------------------------------------------------------------------------------

  /** {@code options}: see {@link Channel.Options#fields}. */
  static native long channelCreate(byte[] address, long[] options);

  static native void channelAddTransport(
      long channel, byte[] address, int buffersSend, int buffersReceive, int retryMs, boolean redundant);

  static native void channelOpen(long channel, int role);

  static native long channelAddSendQueue(long channel, int kind, int priority, long capacity);

  static native void channelSetWeights(long channel, int[] weights);

  static native void channelWaitConnected(long channel, int timeoutMs);

  /** The message that came. */
  static native long channelReceive(long channel, int timeoutMs);

  /** A message, or 0. */
  static native long channelTryReceive(long channel);

  /** The messages that came: at least one, at most {@code limit} and 1024. */
  static native long[] channelReceiveMany(long channel, int limit, int timeoutMs);

  /** Of each message that came all frames, one after the other; as many as above. */
  static native byte[][] channelReceiveBytes(long channel, int limit, int timeoutMs);

  static native int channelDescriptor(long channel);

  static native void channelAddFilter(long channel, byte[] filter, int place);

  static native void channelRemoveFilter(long channel, int place);

  /**
   * {seen, dropped, changed, sourced, held, failed, timed}, and fills {@code texts} with name and settings; null where
   * there is no filter.
   */
  static native long[] channelQueryFilter(long channel, int place, byte[][] texts);

  /** Nanoseconds; -1: nothing was timed. */
  static native long channelQueryTimes(long channel, int place, double share);

  /** In the order of {@code Channel.Statistics}. */
  static native long[] channelQuery(long channel);

  /** {connected, number, pid, uid}, and the instance of the peer's process; null: nobody has come yet. */
  static native long[] channelPeer(long channel, int transport, byte[][] instance);

  /** The same of another peer than {@code number}, or where it is not {@code isConnected}. */
  static native long[] channelAwaitPeer(
      long channel, int transport, int timeoutMs, long number, boolean isConnected, byte[][] instance);

  static native void channelFlush(long channel, int timeoutMs);

  static native void channelClose(long channel, int lingerMs);

  static native void channelDestroy(long channel);

  /** All of the direct buffer {@code frame}, whatever its position, as of the next two that take one. */
  static native void sendQueuePostDirect(long queue, ByteBuffer frame);

  static native void sendQueuePostBytes(long queue, byte[] frame);

  /** Takes the message, unless it throws. */
  static native void sendQueuePostMessage(long queue, long tag, long message);

  /** As that, but waits for room, and throws TIMED_OUT where there is none. */
  static native void sendQueuePostWait(long queue, long tag, int timeoutMs, long message);

  /** TIMED_OUT, FULL: it has none. */
  static native void sendQueueWaitRoom(long queue, int timeoutMs);

  /** Posts the frames that lie one after the other in {@code bytes}, which are so long. INVALID: it ends before they do. */
  static native void sendQueuePostMany(long queue, byte[] bytes, int[] lengths);

  /** Takes those that it posts, also where this throws: they are 0 then. */
  static native void sendQueuePostMessages(long queue, long[] messages);

  static native void sendQueueSetPriority(long queue, int priority);

  /** {posted, collected, discarded, replaced, queued}. */
  static native long[] sendQueueQuery(long queue);

  static native long listenerOpen(byte[] address, long[] options);

  static native long listenerAccept(long listener, int timeoutMs);

  /** A channel; 0: nobody waits. */
  static native long listenerTryAccept(long listener);

  static native int listenerDescriptor(long listener);

  static native byte[] listenerAddress(long listener);

  /** {accepted, waiting, refused}, and why the last of these was. */
  static native long[] listenerQuery(long listener, byte[][] refusal);

  static native void listenerClose(long listener);

  static native void listenerDestroy(long listener);

  static native long selectorCreate();

  static native void selectorAdd(long selector, long channel);

  static native void selectorRemove(long selector, long channel);

  static native void selectorAddListener(long selector, long listener);

  static native void selectorRemoveListener(long selector, long listener);

  /** The channel whose turn it is; 0: a client waits at a listener. */
  static native long selectorWait(long selector, int timeoutMs);

  static native int selectorDescriptor(long selector);

  /** A message of the channel that selectorWait has given, or 0. */
  static native long selectorTake(long selector);

  static native long channelEnds(long channel);

  /** Of what this thread's last call has thrown, where that is the end of a peer; else 0. */
  static native long lastEnd();

  /** A message; 0: a client waits at a listener. {@code channel}: whose, also where its receive has failed. */
  static native long selectorReceive(long selector, int timeoutMs, long[] channel);

  static native void selectorDestroy(long selector);

  static native long routerCreate();

  /** {@code group} may be null. */
  static native void routerAdd(long router, int frame, byte[] pattern, byte[] group, long queue);

  static native void routerRemove(long router, int frame, byte[] pattern, byte[] group, long queue);

  static native void routerForget(long router, long queue);

  /** {@code queues[0]} becomes the number of queues that have it, also where this throws; 0: it was not taken. */
  static native void routerPost(long router, long message, int[] queues);

  static native void routerDestroy(long router);

  static native long messageCreate(int framesHint);

  static native void messageAppend(long message, byte[] frame);

  static native void messageAppendDirect(long message, ByteBuffer frame);

  /** Keeps {@code frame} until {@link #takeReleased} has given it back; where this throws, it does not. */
  static native void messageAppendExternal(long message, ByteBuffer memory, ExternalFrame frame);

  /** The next frame that no message shows any more; waits for it. For one thread, the only one. */
  static native ExternalFrame takeReleased();

  static native long messageReference(long message);

  static native int messageFrameCount(long message);

  /** Of all frames. */
  static native long messageBytes(long message);

  static native ByteBuffer messageFrame(long message, int index);

  static native long messageFrameBytes(long message, int index);

  static native void messageSetTimestamp(long message, int index, int source, long ticks);

  /** Ticks; 0: none. */
  static native long messageTimestamp(long message, int index);

  static native void messageDestroy(long message);

  /** A buffer crosses as {data, bytes, four of the library's}. */
  static native void rawGetBuffer(long channel, int timeoutMs, long[] buffer);

  static native void rawSendBuffer(long channel, long[] buffer);

  static native void rawAbandonBuffer(long channel, long[] buffer);

  static native void rawReceiveBuffer(long channel, int timeoutMs, long[] buffer);

  static native void rawDisposeBuffer(long channel, long[] buffer);

  // ---- observer ---------------------------------------------------------------------------------

  static native long observerCreate();

  /** How many processes there are. */
  static native long observerLook(long observer);

  static final int PROCESS_PID = 0;
  static final int PROCESS_UID = 1;
  static final int PROCESS_PAGE_VERSION = 2;
  static final int PROCESS_KNOWN = 3;
  static final int PROCESS_ENTRIES = 4;
  static final int PROCESS_UNLISTED = 5;
  static final int PROCESS_COUNTERS = 6; // in the order of counterName

  /** Fills {@code texts} with the version of its library. */
  static native long[] observerProcess(long observer, long process, byte[][] texts);

  static final int ENTRY_KIND = 0;
  static final int ENTRY_FLAGS = 1;
  static final int ENTRY_OPENED_NS = 2;
  static final int ENTRY_WAITING_NS = 3;
  static final int ENTRY_UNMOVED_NS = 4;
  static final int ENTRY_TOOK_NS = 5;
  static final int ENTRY_TOOK = 6;
  static final int ENTRY_COUNTERS = 38; // in the order of counterName

  /** Fills {@code texts} with address and name. */
  static native long[] observerEntry(long observer, long process, long entry, byte[][] texts);

  /** The index-th counter of a process, or of an entry. Null past the last. */
  static native byte[] counterName(int index, boolean ofProcess);

  static native void observerDestroy(long observer);

  // ---- modules ----------------------------------------------------------------------------------

  /** Null past the last, as of the next two. */
  static native byte[] providerName(int index);

  static native byte[] filterName(int index);

  static native byte[] filterHelp(int index);

  static final int MODULE_STATUS = 0;
  static final int MODULE_LOADED = 1;
  static final int MODULE_EXPIRES_S = 2;

  /** Fills {@code texts} with path, name, key, signer and why it is refused. Null past the last. */
  static native long[] queryModule(int index, byte[][] texts);

  /** The same of a file; {@code trust} may be null. */
  static native long[] moduleVerify(byte[] path, byte[] trust, byte[][] texts);

  static native void moduleSign(byte[] path, byte[] key, long expiresS);

  /** The public half. */
  static native byte[] moduleMakeKey(byte[] key);
}
