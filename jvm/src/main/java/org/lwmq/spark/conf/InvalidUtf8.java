package org.lwmq.spark.conf;

/** What a write does about strings that are not UTF-8, which Spark lets pass and Arrow does not allow. */
public enum InvalidUtf8 {
  /** The task fails, and names field and row. */
  ERROR,
  /** What is not UTF-8 becomes U+FFFD, as by {@code make_valid_utf8}. */
  REPLACE
}
