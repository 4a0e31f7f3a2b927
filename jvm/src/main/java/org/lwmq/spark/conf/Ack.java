package org.lwmq.spark.conf;

/** When the batches that a read has consumed count as acknowledged. */
public enum Ack {
  /** When the execution that read it has succeeded; a failed one acknowledges nothing. */
  QUERY,
  /** When the task that read it has ended. */
  TASK,
  /** When the task has moved on to the next batch. */
  BATCH
}
