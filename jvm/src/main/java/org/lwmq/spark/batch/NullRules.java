package org.lwmq.spark.batch;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.Schema;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/**
 * Which fields of a declared stream take no nulls. Made in the driver, asked by the tasks once per batch.
 *
 * <p>A DataFrame rarely promises what its rows keep, so its writer is let in and its batches are looked at. A null counts
 * where what it is part of is there: a struct that is null itself has no fields that could be missing.
 */
public final class NullRules implements Serializable {
  private final boolean[] refuses; // by field node, in pre-order
  private final String[] paths;

  private NullRules(List<Boolean> refuses, List<String> paths) {
    this.refuses = new boolean[refuses.size()];
    for (int k = 0; k < this.refuses.length; k++) {
      this.refuses[k] = refuses.get(k);
    }
    this.paths = paths.toArray(new String[0]);
  }

  public static NullRules of(Schema declared) {
    List<Boolean> refuses = new ArrayList<>();
    List<String> paths = new ArrayList<>();
    declared.getFields().forEach(field -> add(field, field.getName(), refuses, paths));
    return new NullRules(refuses, paths);
  }

  boolean refuses(int k) {
    return refuses[k];
  }

  /** SCHEMA when node {@code k} has nulls and must not. */
  void check(int k, long nulls) {
    if (nulls > 0 && refuses[k]) {
      throw new LwmqException(Status.SCHEMA, nulls + " nulls in " + paths[k]
          + ", which the stream declares not null: filter them out, or declare the field nullable");
    }
  }

  /** SCHEMA when a vector, or one below it, has nulls where the stream takes none. */
  void check(List<FieldVector> vectors) {
    int k = 0;
    for (FieldVector vector : vectors) {
      k = check(vector, k, null);
    }
  }

  /** Checks nodes from {@code k} on and answers the next. Elements not in {@code there} (null: all are) do not count. */
  private int check(FieldVector vector, int k, BitSet there) {
    int n = vector.getValueCount();
    BitSet present = new BitSet(n);
    present.set(0, n);
    if (there != null) {
      present.and(there);
    }
    int parents = present.cardinality();
    for (int i = 0; vector.getNullCount() > 0 && i < n; i++) {
      if (vector.isNull(i)) {
        present.clear(i);
      }
    }
    check(k, parents - present.cardinality());
    BitSet below = vector instanceof ListVector list ? elements(list, present) : present;
    int next = k + 1;
    for (FieldVector child : vector.getChildrenFromFields()) {
      next = check(child, next, below);
    }
    return next;
  }

  private static BitSet elements(ListVector list, BitSet present) {
    BitSet elements = new BitSet();
    for (int i = present.nextSetBit(0); i >= 0; i = present.nextSetBit(i + 1)) {
      elements.set(list.getElementStartIndex(i), list.getElementEndIndex(i));
    }
    return elements;
  }

  private static void add(Field field, String path, List<Boolean> refuses, List<String> paths) {
    refuses.add(!field.isNullable());
    paths.add(path);
    field.getChildren().forEach(child -> add(child, path + "." + child.getName(), refuses, paths));
  }
}
