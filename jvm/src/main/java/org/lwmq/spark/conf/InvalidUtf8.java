package org.lwmq.spark.conf;

/** What a write does with strings that are not UTF-8. Spark lets them pass, but Arrow does not allow them. */
public enum InvalidUtf8 {
  /** The task fails; the error names the field and the row. */
  ERROR,
  /** Wrong bytes become U+FFFD, as Spark's {@code make_valid_utf8} does it. */
  REPLACE
}
