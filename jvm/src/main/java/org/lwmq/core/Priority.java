package org.lwmq.core;

/** Of a send queue; the order is that of {@code lwmq.h}, from 1. The two ends are strict, the others weighted. */
public enum Priority {
  TIME_CRITICAL,
  HIGHEST,
  ABOVE_NORMAL,
  NORMAL,
  BELOW_NORMAL,
  LOWEST,
  IDLE
}
