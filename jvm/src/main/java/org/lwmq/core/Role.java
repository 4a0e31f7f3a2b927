package org.lwmq.core;

/** Who binds an address; the order is that of {@code lwmq_role}. Spark tasks are always clients. */
public enum Role {
  AUTO,
  SERVER,
  CLIENT
}
