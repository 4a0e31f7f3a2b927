package org.lwmq.core;

import java.util.List;
import java.util.Optional;
import java.util.stream.IntStream;

/**
 * What an endpoint says about its stream at one moment. Asking is no reading: nothing is consumed.
 *
 * @param generation of the endpoint, 32 hex digits; sequence numbers of one generation mean nothing in another
 * @param state see {@link State}
 * @param readers acknowledgements that a batch needs before it is released
 * @param schema an Arrow IPC stream that holds only its schema message; null while undeclared
 * @param endpoint the process that serves the stream
 * @param addresses at which the endpoint serves the stream, as they are bound
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
    Identity endpoint,
    List<String> addresses) {

  // what lwmq_stream_describe waits for
  private static final int WAIT_SERVED = 0;
  private static final int WAIT_DECLARED = 1;
  private static final int WAIT_FOR_NOBODY = 2;

  /** UNDECLARED: no schema yet. OPEN: more may come. ENDED: the last open producer has ended. */
  public enum State {
    UNDECLARED,
    OPEN,
    ENDED
  }

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
    int wait = waitDeclared ? WAIT_DECLARED : WAIT_SERVED;
    return deadline.awaitInLongSlices("waiting for the stream at " + address, slice -> once(name, wait, slice));
  }

  /** As {@link #describe}, but never waits longer than one short exchange: for a look at whether somebody serves. */
  public static StreamState look(String address, int timeoutMs) {
    return once(Jni.uri(address), WAIT_SERVED, timeoutMs);
  }

  /** Empty: nobody serves {@code address} now. TIMED_OUT: somebody does, and has not answered. */
  public static Optional<StreamState> find(String address, int timeoutMs) {
    try {
      return Optional.of(once(Jni.uri(address), WAIT_FOR_NOBODY, timeoutMs));
    } catch (LwmqException e) {
      if (e.status() == Status.EMPTY) {
        return Optional.empty();
      }
      if (e.status() == Status.TIMED_OUT && !e.hasText()) {
        throw new LwmqException(
            Status.TIMED_OUT, address + ": a process listens there and has not answered in " + timeoutMs + " ms");
      }
      throw e;
    }
  }

  /**
   * Acknowledges everything consumed under {@code reader}, or, with {@code acknowledge} false, forgets that it was
   * consumed, so that it will be read again.
   */
  public static void settle(String address, String reader, boolean acknowledge, int timeoutMs) {
    Jni.streamSettle(Jni.uri(address), Jni.utf8(reader), acknowledge, timeoutMs);
  }

  private static StreamState once(byte[] address, int wait, int timeoutMs) {
    byte[][] bytes = new byte[6][];
    long[] numbers = Jni.streamDescribe(address, wait, timeoutMs, bytes);
    Identity endpoint =
        new Identity(
            Identity.text(bytes[2]), Identity.text(bytes[3]), numbers[Jni.STATE_NETNS], Identity.hex(bytes[4]),
            numbers[Jni.STATE_PID], numbers[Jni.STATE_UID]);
    List<Partition> partitions =
        IntStream.range(0, (numbers.length - Jni.STATE_PARTITIONS) / 5)
            .map(i -> Jni.STATE_PARTITIONS + 5 * i)
            .mapToObj(i -> new Partition(numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3], numbers[i + 4]))
            .toList();
    int state = (int) Math.min(numbers[Jni.STATE_STATE], State.ENDED.ordinal());
    return new StreamState(
        Identity.hex(bytes[0]), State.values()[state], (int) numbers[Jni.STATE_RETAIN],
        (int) numbers[Jni.STATE_READERS], (int) numbers[Jni.STATE_PRODUCERS_OPEN],
        (int) numbers[Jni.STATE_READERS_OPEN], bytes[1], partitions, endpoint,
        Identity.text(bytes[5]).lines().toList());
  }
}
