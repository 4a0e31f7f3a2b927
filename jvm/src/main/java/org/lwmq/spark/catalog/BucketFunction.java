package org.lwmq.spark.catalog;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Murmur3HashFunction;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.StructType;

/**
 * {@code lwmq.bucket(n, key)}: the partition of a key among {@code n}, which is {@code pmod(hash(key), n)}. Streams
 * with a partition key and DataFrames after {@code repartition(n, key)} have it. Spark finds by this function that two
 * streams are partitioned alike.
 */
final class BucketFunction implements UnboundFunction {
  static final String NAME = "bucket";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String description() {
    return "bucket(n, key): the partition of a key in a stream of n partitions, pmod(hash(key), n)";
  }

  /** {@code input} has {@code n} and the key, or, where Spark compares partitionings, the key alone. */
  @Override
  public BoundFunction bind(StructType input) {
    boolean isOfPartitioning = input.length() == 1;
    if (!isOfPartitioning && !(input.length() == 2 && input.apply(0).dataType() instanceof IntegerType)) {
      throw new UnsupportedOperationException("bucket(n, key) has a number and a key, not " + input.sql());
    }
    return new OfType(input.apply(input.length() - 1).dataType());
  }

  /** For keys of one type. */
  private record OfType(DataType key) implements ScalarFunction<Integer> {
    private static final long SEED = 42; // of Spark's hash partitioning

    @Override
    public String name() {
      return NAME;
    }

    @Override
    public String canonicalName() {
      return "lwmq." + NAME;
    }

    @Override
    public DataType[] inputTypes() {
      return new DataType[] {DataTypes.IntegerType, key};
    }

    @Override
    public DataType resultType() {
      return DataTypes.IntegerType;
    }

    @Override
    public boolean isResultNullable() {
      return false;
    }

    @Override
    public Integer produceResult(InternalRow input) {
      int buckets = input.getInt(0);
      if (buckets < 1) {
        throw new IllegalArgumentException("bucket(" + buckets + ", key): a stream has at least one partition");
      }
      return Math.floorMod((int) Murmur3HashFunction.hash(input.get(1, key), key, SEED), buckets);
    }
  }
}
