package org.lwmq.core;

/** When what a writer publishes becomes visible; the order is that of {@code lwmq_delivery}. */
public enum Delivery {
  /** At once. */
  LIVE,
  /** When the writer has committed. */
  TASK,
  /** When the job has committed. */
  JOB
}
