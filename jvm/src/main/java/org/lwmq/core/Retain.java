package org.lwmq.core;

/** How long a stream keeps a batch; the order is that of {@code lwmq_retain}. */
public enum Retain {
  /** Until as many distinct readers as asked for have acknowledged it. */
  UNTIL_ACKED,
  /** Until the endpoint closes. */
  ALL,
  /** Until the readers present have passed it. */
  NONE
}
