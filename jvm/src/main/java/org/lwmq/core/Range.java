package org.lwmq.core;

import java.io.Serializable;

/** Batches {@code start} (inclusive) to {@code end} (exclusive) of one partition of a stream. */
public record Range(int partition, long start, long end) implements Serializable {
  /** As a start: the lowest retained and not acknowledged. */
  public static final long EARLIEST = -1L;

  /** As a start: the next one to be written. */
  public static final long LATEST = -2L;

  /** As an end: until the stream ends. */
  public static final long END = -3L;
}
