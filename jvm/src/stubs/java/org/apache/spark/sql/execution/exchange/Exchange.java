package org.apache.spark.sql.execution.exchange;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * What javac is told of Spark's class of this name, of which ours is a subclass. It is compiled against, and no part of
 * the jar.
 *
 * <p>Spark's own has methods that Scala's traits have mixed in. They are final and declared with raw types, so Java
 * takes them for methods that clash with the ones of TreeNode, and refuses every subclass.
 */
public abstract class Exchange extends SparkPlan {
  @Override
  public Seq<Attribute> output() {
    throw new UnsupportedOperationException();
  }

  @Override
  public Seq<SparkPlan> children() {
    throw new UnsupportedOperationException();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> newChildren) {
    throw new UnsupportedOperationException();
  }
}
