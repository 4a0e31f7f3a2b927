package org.lwmq.spark.conf;

import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;

/** A column of a stream in the expressions of Spark's connectors, whatever characters its name has. */
public final class StreamColumn {
  private StreamColumn() {}

  public static NamedReference reference(String name) {
    return Expressions.column(quoted(name));
  }

  /** The partition of {@code name} among {@code partitions}, as the function {@code bucket} of the catalog has it. */
  public static Transform bucket(int partitions, String name) {
    return Expressions.bucket(partitions, quoted(name));
  }

  private static String quoted(String name) {
    return "`" + name.replace("`", "``") + "`";
  }
}
