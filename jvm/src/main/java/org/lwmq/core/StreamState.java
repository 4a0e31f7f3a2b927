package org.lwmq.core;

import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;

/**
 * What an endpoint says about its stream at one moment. Asking is no reading: nothing is consumed.
 *
 * @param generation of the endpoint, 32 hex digits; sequence numbers of one generation mean nothing in another
 * @param state see {@link State}
 * @param readers acknowledgements that a batch needs before it is released
 * @param schema an Arrow IPC stream that holds only its schema message; null while undeclared
 * @param endpoint the process that serves the stream
 */
public record StreamState(
    String generation,
    State state,
    int retain,
    int readers,
    int producersOpen,
    int readersOpen,
    byte[] schema,
    List<Partition> partitions,
    Identity endpoint) {

  /**
   * UNDECLARED: no schema yet. OPEN: more may come. ENDED: the last open producer has ended, and there is something to read,
   * if only the end. CONSUMED: ended, and acknowledged to its end; only a new producer brings more.
   */
  public enum State {
    UNDECLARED,
    OPEN,
    ENDED,
    CONSUMED
  }

  private static final long LOOK_AGAIN_NANOS = 50_000_000;

  /**
   * Sequence numbers of one partition.
   *
   * @param firstSeq lowest retained
   * @param unackedSeq lowest not acknowledged: where "earliest" begins
   * @param nextSeq of the next batch to be written
   * @param rows from unackedSeq to nextSeq
   * @param bytes likewise
   */
  public record Partition(long firstSeq, long unackedSeq, long nextSeq, long rows, long bytes) {}

  /**
   * Asks the endpoint at {@code address}; waits until there is one and, with {@code waitDeclared}, until the stream
   * has a schema. TIMED_OUT says what was waited for.
   */
  public static StreamState describe(String address, boolean waitDeclared, Deadline deadline) {
    byte[] name = Jni.uri(address);
    return deadline.awaitInLongSlices("waiting for the stream at " + address, slice -> once(name, waitDeclared, slice));
  }

  /**
   * As {@link #describe} of a declared stream; where it was read to its end, waits until the next producer has come.
   * TIMED_OUT says so.
   */
  public static StreamState describeUnread(String address, Deadline deadline) {
    byte[] name = Jni.uri(address);
    return deadline.awaitInLongSlices(
        "waiting for the stream at " + address,
        slice -> {
          StreamState state = once(name, true, slice);
          if (state.state() == State.CONSUMED) {
            LockSupport.parkNanos(LOOK_AGAIN_NANOS);
            throw new LwmqException(
                Status.TIMED_OUT, address + ": the stream was read to its end, and no producer has come since. To read it"
                    + " twice: retain=\"all\" at the producer, or .cache() of the first read");
          }
          return state;
        });
  }

  /** As {@link #describe}, but never waits longer than one short exchange: for a look at whether somebody serves. */
  public static StreamState look(String address, int timeoutMs) {
    return once(Jni.uri(address), false, timeoutMs);
  }

  /**
   * Acknowledges everything consumed under {@code reader}, or, with {@code acknowledge} false, forgets that it was
   * consumed, so that it will be read again.
   */
  public static void settle(String address, String reader, boolean acknowledge, int timeoutMs) {
    Jni.streamSettle(Jni.uri(address), Jni.utf8(reader), acknowledge, timeoutMs);
  }

  private static StreamState once(byte[] address, boolean waitDeclared, int timeoutMs) {
    byte[][] bytes = new byte[5][];
    long[] numbers = Jni.streamDescribe(address, waitDeclared, timeoutMs, bytes);
    Identity endpoint =
        new Identity(
            Identity.text(bytes[2]), Identity.text(bytes[3]), numbers[Jni.STATE_NETNS], Identity.hex(bytes[4]),
            numbers[Jni.STATE_PID], numbers[Jni.STATE_UID]);
    List<Partition> partitions =
        IntStream.range(0, (numbers.length - Jni.STATE_PARTITIONS) / 5)
            .map(i -> Jni.STATE_PARTITIONS + 5 * i)
            .mapToObj(i -> new Partition(numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3], numbers[i + 4]))
            .toList();
    int state = (int) Math.min(numbers[Jni.STATE_STATE], State.CONSUMED.ordinal());
    return new StreamState(
        Identity.hex(bytes[0]), State.values()[state], (int) numbers[Jni.STATE_RETAIN],
        (int) numbers[Jni.STATE_READERS], (int) numbers[Jni.STATE_PRODUCERS_OPEN],
        (int) numbers[Jni.STATE_READERS_OPEN], bytes[1], partitions, endpoint);
  }
}
