package org.lwmq.spark.batch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.CalendarIntervalType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;

/** Rows of any type from a seed, and their comparison with what a sink has got. */
final class RandomRows {
  private RandomRows() {}

  static List<InternalRow> rows(long seed, StructType schema, int count) {
    Random random = new Random(seed);
    List<InternalRow> rows = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      rows.add(row(random, schema));
    }
    return rows;
  }

  /** Reads with Arrow Java and Spark's own vectors, and compares row by row. */
  static void assertHas(MemorySink sink, StructType schema, List<InternalRow> rows) {
    UnsafeProjection expected = UnsafeProjection.create(schema);
    UnsafeProjection actual = UnsafeProjection.create(schema);
    int[] next = {0};
    sink.read(StreamSchema.arrow(schema), root -> {
      ColumnarBatch batch = batch(root);
      for (int i = 0; i < root.getRowCount(); i++) {
        int row = next[0]++;
        assertEquals(expected.apply(rows.get(row)), actual.apply(batch.getRow(i)), "row " + row);
      }
    });
    assertEquals(rows.size(), next[0]);
  }

  /** {@code rows} in Arrow's vectors, which {@code root} owns. */
  static ColumnarBatch arrowBatch(VectorSchemaRoot root, List<InternalRow> rows) {
    ArrowWriter writer = ArrowWriter.create(root);
    rows.forEach(writer::write);
    writer.finish();
    return batch(root);
  }

  private static ColumnarBatch batch(VectorSchemaRoot root) {
    ColumnVector[] columns = root.getFieldVectors().stream().map(ArrowColumnVector::new).toArray(ColumnVector[]::new);
    return new ColumnarBatch(columns, root.getRowCount());
  }

  static InternalRow row(Random random, StructType schema) {
    Object[] values = new Object[schema.size()];
    for (int i = 0; i < values.length; i++) {
      StructField field = schema.apply(i);
      values[i] = field.nullable() && random.nextInt(5) == 0 ? null : value(random, field.dataType());
    }
    return new GenericInternalRow(values);
  }

  static Object value(Random random, DataType type) {
    if (type instanceof NullType) {
      return null;
    }
    if (type instanceof BooleanType) {
      return random.nextBoolean();
    }
    if (type instanceof ByteType) {
      return (byte) random.nextInt();
    }
    if (type instanceof ShortType) {
      return (short) random.nextInt();
    }
    if (type instanceof FloatType) {
      return random.nextFloat();
    }
    if (type instanceof DoubleType) {
      return random.nextDouble();
    }
    if (type instanceof DecimalType decimal) {
      int bits = 1 + random.nextInt((int) (decimal.precision() * 3.2));
      return Decimal.apply(
          new scala.math.BigDecimal(new java.math.BigDecimal(
              new java.math.BigInteger(bits, random).multiply(java.math.BigInteger.valueOf(random.nextInt(3) - 1)),
              decimal.scale())),
          decimal.precision(), decimal.scale());
    }
    if (type instanceof StringType) {
      return UTF8String.fromString("wörd".repeat(random.nextInt(30)));
    }
    if (type instanceof BinaryType) {
      byte[] bytes = new byte[random.nextInt(100)];
      random.nextBytes(bytes);
      return bytes;
    }
    if (type instanceof ArrayType array) {
      return array(random, array.elementType(), array.containsNull());
    }
    if (type instanceof MapType map) {
      int entries = random.nextInt(4);
      Object[] keys = new Object[entries];
      Object[] values = new Object[entries];
      for (int i = 0; i < entries; i++) {
        keys[i] = value(random, map.keyType());
        values[i] = random.nextInt(4) == 0 ? null : value(random, map.valueType());
      }
      return new ArrayBasedMapData(new GenericArrayData(keys), new GenericArrayData(values));
    }
    if (type instanceof StructType struct) {
      return row(random, struct);
    }
    assertTrue(!(type instanceof VariantType || type instanceof CalendarIntervalType));
    return BatchNode.of(new StructType().add("v", type)).get(0).width == 8
        ? (Object) random.nextLong()
        : (Object) random.nextInt();
  }

  static GenericArrayData array(Random random, DataType type, boolean nulls) {
    Object[] values = new Object[random.nextInt(6)];
    for (int i = 0; i < values.length; i++) {
      values[i] = nulls && random.nextInt(4) == 0 ? null : value(random, type);
    }
    return new GenericArrayData(values);
  }
}
