package org.lwmq.core;

/** Which clock gives a frame its timestamp. In the order of {@code LWMQ_TIMESTAMP_*}. */
public enum TimestampSource {
  /** No timestamp. */
  NONE,
  /** Now, as of the kernel's last tick: some milliseconds old, and cheap. */
  SYSTEM,
  /** Now, to 100 ns. */
  PRECISE;

  /** LWMQ_TIMESTAMP_EXPLICIT: a moment that the caller names. */
  static final int EXPLICIT = 3;
}
