package org.lwmq.spark.source;

import java.util.function.BooleanSupplier;
import org.lwmq.core.Block;
import org.lwmq.core.Deadline;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;
import org.lwmq.core.Writer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The window of a task's writer as a sink of batches. Waits for room for as long as it takes readers to make some, and
 * says after a while for whom it waits; a task that is killed waits no longer.
 */
final class WriterSink implements BatchSink {
  private static final Logger LOG = LoggerFactory.getLogger(WriterSink.class);
  private static final long QUIET_MS = 5_000;

  private final Writer writer;
  private final BooleanSupplier cancelled;
  private Block block;
  private long batches;
  private long rows;

  WriterSink(Writer writer, BooleanSupplier cancelled) {
    this.writer = writer;
    this.cancelled = cancelled;
  }

  @Override
  public long allocate(long bytes) {
    try {
      block = writer.allocate(bytes, Deadline.after(QUIET_MS).cancelledBy(cancelled));
    } catch (LwmqException e) {
      if (e.status() != Status.TIMED_OUT) {
        throw e;
      }
      LOG.warn("writing waits for readers to make room: {}", e.getMessage());
      block = writer.allocate(bytes, Deadline.never().cancelledBy(cancelled));
    }
    return block.address();
  }

  @Override
  public long available() {
    return block.bytes();
  }

  @Override
  public void publish(long bytes, long newRows) {
    Block full = block;
    block = null;
    writer.publish(full, 0, bytes, newRows, Writer.IPC_MESSAGE);
    batches++;
    rows += newRows;
  }

  @Override
  public long rows() {
    return rows;
  }

  /** Batches published so far. */
  long batches() {
    return batches;
  }

  @Override
  public void discard() {
    if (block != null) {
      Block unused = block;
      block = null;
      writer.discard(unused);
    }
  }
}
