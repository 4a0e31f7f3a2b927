package org.lwmq.spark.read;

import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.lwmq.core.Batch;
import org.lwmq.core.Deadline;
import org.lwmq.core.Endpoints;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Range;
import org.lwmq.core.Reader;
import org.lwmq.core.ReaderOptions;
import org.lwmq.core.Role;
import org.lwmq.core.Status;
import org.lwmq.core.StreamState;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Settles with endpoints, one after the other, on a thread that ends when it is idle. Driver.
 *
 * <p>A settlement that cannot be delivered is logged. Its batches stay unacknowledged, and the endpoint keeps them if
 * it lives.
 */
final class StreamSettler implements LwmqSettlement.Settler {
  private static final Logger LOG = LoggerFactory.getLogger(StreamSettler.class);
  private static final int SETTLE_MS = 500;
  private static final int END_MS = 50;
  private static final int IDLE_S = 10;
  private static final int CLOSE_S = 5;

  private final ThreadPoolExecutor thread =
      new ThreadPoolExecutor(
          1, 1, IDLE_S, TimeUnit.SECONDS, new LinkedBlockingQueue<>(),
          work -> {
            Thread made = new Thread(work, "lwmq-settlement");
            made.setDaemon(true);
            return made;
          });

  StreamSettler() {
    thread.allowCoreThreadTimeOut(true);
  }

  @Override
  public void settle(Supplier<List<String>> uris, List<String> readers, boolean succeeded, Consumer<String> gone) {
    Runnable work =
        () -> {
          for (String uri : uris.get()) {
            if (!settle(uri, readers, succeeded)) {
              gone.accept(uri);
            }
          }
        };
    try {
      thread.execute(work);
    } catch (RejectedExecutionException e) { // the ends of the last jobs come after the end of the application
      LOG.info("lwmq: {} are not settled: the application has ended", readers);
    }
  }

  /** Also closes the endpoints that this driver keeps, except those with something that was not read yet. */
  @Override
  public void close() {
    thread.shutdown();
    try {
      if (!thread.awaitTermination(CLOSE_S, TimeUnit.SECONDS)) {
        LOG.warn("lwmq: {} settlements were not delivered before the application ended", thread.getQueue().size());
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    Endpoints.closeRead();
  }

  /**
   * Reads the end of an empty stream. No task could have read a batch of it, but a producer that closes waits until a
   * reader has heard of its end.
   */
  private static void hearEnd(String uri, String name) {
    StreamState state = StreamState.look(uri, SETTLE_MS);
    boolean isEmpty = state.partitions().stream().allMatch(p -> p.nextSeq() == 0);
    if (state.state() != StreamState.State.ENDED || !isEmpty) {
      return;
    }
    List<Range> onlyTheEnd =
        IntStream.range(0, state.partitions().size()).mapToObj(i -> new Range(i, Range.LATEST, Range.END)).toList();
    ReaderOptions options =
        new ReaderOptions(Role.CLIENT, true, false, 0, 0, name, state.generation(), false, onlyTheEnd, 0, null, 0, null, List.of());
    try (Reader reader = Reader.open(uri, options, Deadline.after(SETTLE_MS));
        Batch none = reader.next(Deadline.after(END_MS))) {
      LOG.debug("lwmq: heard the end of {}: {}", uri, none == null);
    } catch (LwmqException e) {
      if (e.status() != Status.TIMED_OUT) { // the next producer has come
        throw e;
      }
    }
  }

  /** False when nobody answers at {@code uri} any more. */
  private static boolean settle(String uri, List<String> readers, boolean succeeded) {
    try {
      for (String reader : readers) {
        StreamState.settle(uri, reader, succeeded, SETTLE_MS);
      }
      if (succeeded && !readers.isEmpty()) {
        hearEnd(uri, readers.get(0));
      }
      return true;
    } catch (LwmqException e) {
      LOG.info("lwmq: {} was not told that {} ended: {}", uri, readers, e.getMessage());
      return e.status() != Status.TIMED_OUT && e.status() != Status.PEER_LOST && e.status() != Status.CLOSED;
    }
  }
}
