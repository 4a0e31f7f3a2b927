package org.lwmq.spark.conf;

/**
 * Whether a write takes whole column batches from a plan that has them. The session extension of this jar does that.
 */
public enum ColumnarWrite {
  /** If the session has the extension. */
  AUTO,
  /** Yes. A session without the extension is an error. */
  TRUE,
  /** No: the write takes rows. */
  FALSE
}
