package org.lwmq.spark.source;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/**
 * Which fields of a declared stream take no nulls. Made in the driver, asked by the tasks once per batch.
 *
 * <p>A DataFrame rarely promises what its rows keep, so its writer is let in and its batches are looked at.
 */
final class NullRules implements Serializable {
  private final boolean[] refuses; // by field node, in pre-order
  private final String[] paths;

  private NullRules(List<Boolean> refuses, List<String> paths) {
    this.refuses = new boolean[refuses.size()];
    for (int k = 0; k < this.refuses.length; k++) {
      this.refuses[k] = refuses.get(k);
    }
    this.paths = paths.toArray(new String[0]);
  }

  static NullRules of(Schema declared) {
    List<Boolean> refuses = new ArrayList<>();
    List<String> paths = new ArrayList<>();
    declared.getFields().forEach(field -> add(field, field.getName(), refuses, paths));
    return new NullRules(refuses, paths);
  }

  /** SCHEMA when node {@code k} has nulls and must not. */
  void check(int k, long nulls) {
    if (nulls > 0 && refuses[k]) {
      throw new LwmqException(Status.SCHEMA, nulls + " nulls in " + paths[k]
          + ", which the stream declares not null: filter them out, or declare the field nullable");
    }
  }

  private static void add(Field field, String path, List<Boolean> refuses, List<String> paths) {
    refuses.add(!field.isNullable());
    paths.add(path);
    field.getChildren().forEach(child -> add(child, path + "." + child.getName(), refuses, paths));
  }
}
