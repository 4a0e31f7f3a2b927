package org.lwmq.spark.batch;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import java.util.function.ToIntFunction;
import java.util.stream.Stream;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BitVectorHelper;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.RowToColumnConverter;
import org.apache.spark.sql.execution.vectorized.OffHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;
import org.lwmq.arrow.IpcBlock;
import org.lwmq.spark.vector.VectorFactory;

/** Rows come to the sinks of their partitions, whole and in their order. Which partition is Spark's: tests/spark. */
class ColumnSplitterTest {
  private static final long SEED = 20_261_129;
  private static final int ROWS = 10_000; // more than a slice
  private static final int PARTITIONS = 7;
  private static final StructType FLAT = StructType.fromDDL(
      "b boolean, y tinyint, s smallint, i int, l bigint, f float, d double, d9 decimal(9,2), d38 decimal(38,18),"
          + " t string, bin binary, day date, ts timestamp, ym interval year to month, i2 int not null");

  private final List<InternalRow> rows = RandomRows.rows(SEED, FLAT, ROWS);

  @Test
  void columnsOnTheHeap() {
    try (ColumnarBatch batch = batch(OnHeapColumnVector.allocateColumns(ROWS, FLAT))) {
      split(batch);
    }
  }

  @Test
  void columnsOffTheHeap() {
    try (ColumnarBatch batch = batch(OffHeapColumnVector.allocateColumns(ROWS, FLAT))) {
      split(batch);
    }
  }

  @Test
  void arrowColumnsWhichHaveNoValuesUnderTheirNulls() {
    try (BufferAllocator allocator = new RootAllocator();
        VectorSchemaRoot root = VectorSchemaRoot.create(StreamSchema.arrow(FLAT), allocator)) {
      split(RandomRows.arrowBatch(root, rows));
    }
  }

  @Test
  void nullsOfAWindowMayHaveBytes() {
    StructType schema = StructType.fromDDL("i int, t string");
    List<InternalRow> texts = new ArrayList<>();
    for (int i = 0; i < 300; i++) {
      texts.add(new GenericInternalRow(new Object[] {i, UTF8String.fromString("w".repeat(i < 3 ? 50_000 : 10))}));
    }
    MemorySink window = new MemorySink();
    try (BufferAllocator allocator = new RootAllocator();
        VectorSchemaRoot root = VectorSchemaRoot.create(StreamSchema.arrow(schema), allocator)) {
      ColumnarBatch batch = RandomRows.arrowBatch(root, texts);
      for (int i = 0; i < 3; i++) {
        BitVectorHelper.unsetBit(((VarCharVector) root.getVector(1)).getValidityBuffer(), i);
        texts.set(i, new GenericInternalRow(new Object[] {i, null}));
      }
      new ArrowBatches(window, NullRules.of(StreamSchema.arrow(schema))).write(root);
      assertTrue(batch.column(1).isNullAt(0));
    }
    byte[] bytes = window.batches.get(0);
    long memory = Platform.allocateMemory(bytes.length + 64);
    long aligned = BatchLayout.align(memory);
    Platform.copyMemory(bytes, Platform.BYTE_ARRAY_OFFSET, null, aligned, bytes.length);
    IpcBlock.Columns read =
        IpcBlock.read(aligned, bytes.length, false, StreamSchema.arrow(schema), new int[] {0, 1});
    ColumnVector[] columns = new ColumnVector[2];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = VectorFactory.over(read.columns()[i], schema.apply(i).dataType());
    }
    split(schema, new ColumnarBatch(columns, texts.size()), texts, row -> row.getInt(0) % PARTITIONS);
    Platform.freeMemory(memory);
  }

  private ColumnarBatch batch(WritableColumnVector[] vectors) {
    RowToColumnConverter converter = new RowToColumnConverter(FLAT);
    rows.forEach(row -> converter.convert(row, vectors));
    return new ColumnarBatch(vectors, ROWS);
  }

  private void split(ColumnarBatch batch) {
    split(FLAT, batch, rows, row -> Math.floorMod(row.getInt(FLAT.fieldIndex("i2")), PARTITIONS));
  }

  private static void split(
      StructType schema, ColumnarBatch batch, List<InternalRow> rows, ToIntFunction<InternalRow> partitionOf) {
    Function<BatchSink, BatchEncoder> encoderOver = BatchEncoder.exact(schema, 4 << 10, 32 << 10);
    MemorySink[] sinks = Stream.generate(MemorySink::new).limit(PARTITIONS).toArray(MemorySink[]::new);
    BatchEncoder[] encoders = Arrays.stream(sinks).map(encoderOver).toArray(BatchEncoder[]::new);
    try (ColumnSplitter splitter =
        new ColumnSplitter(schema, PARTITIONS, new int[0], partitionOf, partition -> encoders[partition])) {
      splitter.write(batch);
    }
    for (int partition = 0; partition < PARTITIONS; partition++) {
      encoders[partition].flush();
      int wanted = partition;
      RandomRows.assertHas(
          sinks[partition], schema, rows.stream().filter(row -> partitionOf.applyAsInt(row) == wanted).toList());
    }
  }
}
