package org.lwmq.spark.conf;

/** Whether a write takes whole column batches from a plan that has them, by the rule of our extension. */
public enum ColumnarWrite {
  /** Where the session has the extension. */
  AUTO,
  /** As AUTO, and a session without the extension is an error. */
  TRUE,
  /** Never: rows. */
  FALSE
}
