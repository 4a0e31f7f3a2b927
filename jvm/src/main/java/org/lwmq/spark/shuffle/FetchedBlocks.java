package org.lwmq.spark.shuffle;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.network.buffer.ManagedBuffer;
import org.apache.spark.network.shuffle.BlockFetchingListener;
import org.apache.spark.shuffle.FetchFailedException;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.storage.BlockManagerId;
import org.lwmq.core.Memory;
import org.lwmq.spark.shuffle.ExchangeReader.Wanted;

/**
 * Blocks of other executors, fetched by Spark's block transfer: it retries, authenticates and encrypts as the
 * application's settings say. At most {@code spark.reducer.maxSizeInFlight} bytes are asked for at a time, or one
 * block. The task's thread; Netty's threads hand over what has arrived.
 */
final class FetchedBlocks {
  private record Arrived(Wanted wanted, ManagedBuffer buffer, Throwable failure) {}

  private static final String IN_FLIGHT = "spark.reducer.maxSizeInFlight";
  private static final int REQUESTS = 5; // the bytes in flight are asked for in so many pieces, to overlap them
  private static final long LOOK_MS = 100; // between two looks whether the task was killed

  private final ExchangeMemory memory;
  private final TaskContext context;
  private final ShuffleReadMetricsReporter metrics;
  private final long inFlightMax = SparkEnv.get().conf().getSizeAsBytes(IN_FLIGHT, "48m");
  private final Deque<List<Wanted>> requests = new ArrayDeque<>();
  private final BlockingQueue<Arrived> arrived = new LinkedBlockingQueue<>();
  private boolean isClosed; // guarded by `arrived`
  private long inFlight;
  private int outstanding; // blocks that were asked for and have not been taken
  private ExchangeMemory.Block block; // what has been read last

  FetchedBlocks(
      List<Wanted> wanted, ExchangeMemory memory, TaskContext context, ShuffleReadMetricsReporter metrics) {
    this.memory = memory;
    this.context = context;
    this.metrics = metrics;
    Map<BlockManagerId, List<Wanted>> byExecutor = new HashMap<>();
    wanted.forEach(one -> byExecutor.computeIfAbsent(one.location(), id -> new ArrayList<>()).add(one));
    List<List<Wanted>> all = new ArrayList<>();
    byExecutor.values().forEach(blocks -> cut(blocks, all));
    Collections.shuffle(all); // so that tasks do not all begin with the same executor
    requests.addAll(all);
  }

  private void cut(List<Wanted> blocks, List<List<Wanted>> into) {
    List<Wanted> request = new ArrayList<>();
    long bytes = 0;
    for (Wanted one : blocks) {
      if (!request.isEmpty() && bytes + one.bytes() > inFlightMax / REQUESTS) {
        into.add(request);
        request = new ArrayList<>();
        bytes = 0;
      }
      request.add(one);
      bytes += one.bytes();
    }
    into.add(request);
  }

  /** Asks for as much as may be in flight. Does not wait. */
  void request() {
    while (!requests.isEmpty()) {
      long bytes = requests.peek().stream().mapToLong(Wanted::bytes).sum();
      if (inFlight > 0 && inFlight + bytes > inFlightMax) {
        return;
      }
      inFlight += bytes;
      send(requests.poll());
    }
  }

  private void send(List<Wanted> request) {
    Map<String, Wanted> byName = new HashMap<>();
    request.forEach(one -> byName.put(one.id().name(), one));
    outstanding += request.size();
    BlockManagerId from = request.get(0).location();
    SparkEnv.get().blockManager().blockStoreClient().fetchBlocks(
        from.host(), from.port(), from.executorId(), byName.keySet().toArray(new String[0]),
        new BlockFetchingListener() {
          @Override
          public void onBlockFetchSuccess(String id, ManagedBuffer buffer) {
            synchronized (arrived) {
              if (!isClosed) {
                buffer.retain();
                arrived.add(new Arrived(byName.get(id), buffer, null));
              }
            }
          }

          @Override
          public void onBlockFetchFailure(String id, Throwable failure) {
            arrived.add(new Arrived(byName.get(id), null, failure));
          }
        },
        null);
  }

  /** The batches of the next block, valid until the next call; null: all blocks were read. Waits. */
  Iterator<ByteBuffer> next() {
    free();
    request();
    if (outstanding == 0) {
      return null;
    }
    Arrived next = take();
    outstanding--;
    inFlight -= next.wanted.bytes();
    if (next.failure != null) {
      throw failed(next.wanted, "it cannot be fetched: " + next.failure.getMessage(), next.failure);
    }
    try {
      return copy(next).iterator();
    } catch (IOException e) {
      throw failed(next.wanted, "it cannot be read: " + e.getMessage(), e);
    } finally {
      next.buffer.release();
    }
  }

  private Arrived take() {
    long start = System.nanoTime();
    try {
      while (true) {
        Arrived next = arrived.poll(LOOK_MS, TimeUnit.MILLISECONDS);
        if (next != null) {
          metrics.incFetchWaitTime(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start));
          return next;
        }
        context.killTaskIfInterrupted();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      context.killTaskIfInterrupted();
      throw new IllegalStateException("the task was interrupted while it waited for blocks", e);
    }
  }

  /** Copies a block into memory of ours, each batch where it is aligned. */
  private List<ByteBuffer> copy(Arrived from) throws IOException {
    ByteBuffer bytes = from.buffer.nioByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
    metrics.incRemoteBlocksFetched(1);
    metrics.incRemoteBytesRead(bytes.remaining());
    List<Integer> lengths = new ArrayList<>();
    long room = 0;
    for (int at = bytes.position(); at < bytes.limit(); ) {
      long length = bytes.limit() - at < SentBlock.LENGTH_BYTES ? -1 : bytes.getLong(at);
      at += SentBlock.LENGTH_BYTES;
      if (length <= 0 || length > bytes.limit() - at) {
        throw new IOException("a batch of " + length + " bytes, where " + (bytes.limit() - at) + " are left");
      }
      lengths.add((int) length);
      room += ExchangeMemory.align(length);
      at += (int) length;
    }
    block = memory.allocate(room);
    List<ByteBuffer> batches = new ArrayList<>();
    long target = block.address();
    int at = bytes.position();
    for (int length : lengths) {
      ByteBuffer batch = Memory.wrap(target, length);
      batch.put(0, bytes, at + SentBlock.LENGTH_BYTES, length);
      batches.add(batch);
      target += ExchangeMemory.align(length);
      at += SentBlock.LENGTH_BYTES + length;
    }
    return batches;
  }

  private void free() {
    if (block != null) {
      memory.free(block);
      block = null;
    }
  }

  /** Gives back what has arrived. What arrives later is not kept. Twice is allowed. */
  void close() {
    free();
    requests.clear();
    synchronized (arrived) {
      isClosed = true;
    }
    for (Arrived unread = arrived.poll(); unread != null; unread = arrived.poll()) {
      if (unread.buffer != null) {
        unread.buffer.release();
      }
    }
  }

  /** Spark's FetchFailed, upon which the map task of {@code block} runs again. */
  static RuntimeException failed(Wanted block, String why, Throwable cause) {
    String text = "lwmq: partition " + block.id().reduceId() + " of map task " + block.id().mapId() + " in shuffle "
        + block.id().shuffleId() + " from executor " + block.location().executorId() + ": " + why;
    FetchFailedException failure = new FetchFailedException(block.location(), block.id().shuffleId(),
        block.id().mapId(), block.mapIndex(), block.id().reduceId(), text, cause);
    FetchedBlocks.<RuntimeException>raise(failure);
    return new IllegalStateException(failure);
  }

  /** FetchFailedException is a checked exception, and Spark's iterators declare none. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> void raise(Throwable failure) throws E {
    throw (E) failure;
  }
}
