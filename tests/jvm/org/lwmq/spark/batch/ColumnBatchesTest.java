package org.lwmq.spark.batch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.IntStream;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
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
import org.lwmq.core.LwmqException;
import org.lwmq.spark.vector.VectorFactory;
import org.lwmq.spark.vector.WindowColumnVector;

/** Column batches of Spark's go in, and come out through Arrow Java. */
class ColumnBatchesTest {
  private static final long SEED = 20_261_121;
  private static final StructType FLAT = StructType.fromDDL(
      "b boolean, y tinyint, s smallint, i int, l bigint, f float, d double, d9 decimal(9,2), d18 decimal(18,4),"
          + " d38 decimal(38,18), t string, bin binary, day date, ts timestamp, ntz timestamp_ntz,"
          + " ym interval year to month, ds interval day to second, i2 int not null, t2 string not null");
  private static final StructType NESTED =
      StructType.fromDDL("i int, a array<string>, st struct<x:bigint,t:string>, m map<string,int>");

  @Test
  void columnsOnTheHeapKeepTheirValues() {
    flat(OnHeapColumnVector.allocateColumns(2000, FLAT), 4 << 20, 1);
  }

  @Test
  void columnsOffTheHeapKeepTheirValues() {
    flat(OffHeapColumnVector.allocateColumns(2000, FLAT), 4 << 20, 1);
  }

  @Test
  void aBatchLargerThanABlockIsCutByRows() {
    flat(OnHeapColumnVector.allocateColumns(2000, FLAT), 100 << 10, 5);
  }

  @Test
  void arrowVectorsAreCopiedAsTheyLie() {
    for (StructType schema : new StructType[] {FLAT, NESTED}) {
      List<InternalRow> rows = RandomRows.rows(SEED, schema, 2000);
      for (long batchBytes : new long[] {4 << 20, 64 << 10}) {
        MemorySink sink = new MemorySink();
        try (BufferAllocator allocator = new RootAllocator();
            VectorSchemaRoot root = VectorSchemaRoot.create(StreamSchema.arrow(schema), allocator)) {
          write(sink, schema, RandomRows.arrowBatch(root, rows), batchBytes);
        }
        assertTrue(batchBytes > 1 << 20 ? sink.batches.size() == 1 : sink.batches.size() > 1);
        RandomRows.assertHas(sink, schema, rows);
      }
    }
  }

  @Test
  void columnsOfAWindowAreCopiedAsTheyLie() {
    List<InternalRow> rows = RandomRows.rows(SEED, FLAT, 400);
    try (Window window = new Window(rows)) {
      for (long batchBytes : new long[] {4 << 20, 20 << 10}) {
        MemorySink sink = new MemorySink();
        write(sink, FLAT, window.batch(), batchBytes);
        RandomRows.assertHas(sink, FLAT, rows);
      }
    }
  }

  @Test
  void offsetsThatLieAreRefusedBeforeAByteIsCopied() {
    try (Window window = new Window(RandomRows.rows(SEED, FLAT, 400))) {
      long offsets = window.column(FLAT.fieldIndex("t2")).offsets(200);
      int honest = Platform.getInt(null, offsets);
      for (int lie : new int[] {-1, 0, honest + (1 << 20), Integer.MAX_VALUE}) {
        Platform.putInt(null, offsets, lie);
        MemorySink sink = new MemorySink();
        IllegalStateException refused = assertThrows(
            IllegalStateException.class, () -> write(sink, FLAT, window.batch(), 4 << 20));
        assertTrue(refused.getMessage().contains("t2"), refused.getMessage());
      }
    }
  }

  @Test
  void nestedColumnsThatAreNotArrowGoRowByRow() {
    List<InternalRow> rows = RandomRows.rows(SEED, NESTED, 500);
    WritableColumnVector[] vectors = OnHeapColumnVector.allocateColumns(500, NESTED);
    MemorySink sink = new MemorySink();
    write(sink, NESTED, batch(vectors, NESTED, rows), 4 << 20);
    RandomRows.assertHas(sink, NESTED, rows);
  }

  @Test
  void aPieceThatTheWindowCannotHoldIsHalved() {
    for (boolean arrow : new boolean[] {true, false}) {
      List<InternalRow> rows = RandomRows.rows(SEED, FLAT, 500);
      MemorySink sink = new MemorySink();
      sink.window = 20 << 10;
      try (BufferAllocator allocator = new RootAllocator();
          VectorSchemaRoot root = VectorSchemaRoot.create(StreamSchema.arrow(FLAT), allocator)) {
        write(sink, FLAT,
            arrow ? RandomRows.arrowBatch(root, rows) : batch(OnHeapColumnVector.allocateColumns(500, FLAT), FLAT, rows), 4 << 20);
      }
      RandomRows.assertHas(sink, FLAT, rows);
    }
  }

  @Test
  void nullsOfArrowVectorsCountWhereTheirParentIsThere() {
    StructType schema = StructType.fromDDL("s struct<a:int,b:struct<c:string>>, l array<struct<a:int>>");
    Schema declared = StreamSchema.arrow(StructType.fromDDL(
        "s struct<a:int not null,b:struct<c:string not null> not null>, l array<struct<a:int not null>>"));
    InternalRow none = row((Object) null);
    InternalRow good = row(row(1, row(UTF8String.fromString("t"))), new GenericArrayData(new Object[] {row(1), null}));
    List<InternalRow> rows = List.of(good, row(null, null), row(null, new GenericArrayData(new Object[0])), good);
    MemorySink sink = new MemorySink();
    writeArrow(sink, schema, declared, rows);
    RandomRows.assertHas(sink, schema, rows);
    InternalRow badStruct = row(row(1, none), null);
    InternalRow badElement = row(null, new GenericArrayData(new Object[] {row(1), none, null, none}));
    for (InternalRow bad : List.of(badStruct, badElement)) {
      LwmqException refused = assertThrows(
          LwmqException.class, () -> writeArrow(new MemorySink(), schema, declared, List.of(good, bad, good)));
      String text = bad == badStruct ? "1 nulls in s.b.c," : "2 nulls in l.element.a,";
      assertTrue(refused.getMessage().contains(text), refused.getMessage());
    }
  }

  private static void writeArrow(MemorySink sink, StructType schema, Schema declared, List<InternalRow> rows) {
    try (BufferAllocator allocator = new RootAllocator();
        VectorSchemaRoot root = VectorSchemaRoot.create(StreamSchema.arrow(schema), allocator)) {
      write(sink, schema, NullRules.of(declared), RandomRows.arrowBatch(root, rows), 4 << 20);
    }
  }

  private static InternalRow row(Object... values) {
    return new GenericInternalRow(values);
  }

  @Test
  void aBatchWithoutRowsIsNotPublished() {
    MemorySink sink = new MemorySink();
    write(sink, FLAT, new ColumnarBatch(OnHeapColumnVector.allocateColumns(1, FLAT), 0), 4 << 20);
    assertEquals(0, sink.batches.size());
  }

  /** A batch of {@code FLAT} as it lies in a window, in memory of its own. */
  private static final class Window implements AutoCloseable {
    private final long memory;
    private final int rows;
    private final ColumnVector[] columns;

    Window(List<InternalRow> from) {
      MemorySink sink = new MemorySink();
      NullRules rules = NullRules.of(StreamSchema.arrow(FLAT));
      try (RowBatches batches = new RowBatches(sink, BatchNode.of(FLAT), rules, 4 << 20)) {
        from.forEach(batches::write);
        batches.flush();
      }
      assertEquals(1, sink.batches.size());
      byte[] bytes = sink.batches.get(0);
      rows = from.size();
      memory = Platform.allocateMemory(bytes.length + 128);
      long aligned = (memory + 63) & -64;
      Platform.copyMemory(bytes, Platform.BYTE_ARRAY_OFFSET, null, aligned, bytes.length);
      int[] all = IntStream.range(0, FLAT.size()).toArray();
      IpcBlock.Columns read = IpcBlock.read(aligned, bytes.length, false, StreamSchema.arrow(FLAT), all);
      columns = new ColumnVector[FLAT.size()];
      for (int i = 0; i < columns.length; i++) {
        columns[i] = VectorFactory.over(read.columns()[i], FLAT.apply(i).dataType());
      }
    }

    WindowColumnVector column(int i) {
      return (WindowColumnVector) columns[i];
    }

    ColumnarBatch batch() {
      return new ColumnarBatch(columns, rows);
    }

    @Override
    public void close() {
      Platform.freeMemory(memory);
    }
  }

  private static void flat(WritableColumnVector[] vectors, long batchBytes, int batchesAtLeast) {
    List<InternalRow> rows = RandomRows.rows(SEED, FLAT, 2000);
    MemorySink sink = new MemorySink();
    try (ColumnarBatch batch = batch(vectors, FLAT, rows)) {
      write(sink, FLAT, batch, batchBytes);
    }
    assertTrue(sink.batches.size() >= batchesAtLeast, sink.batches.size() + " batches");
    RandomRows.assertHas(sink, FLAT, rows);
  }

  private static ColumnarBatch batch(WritableColumnVector[] vectors, StructType schema, List<InternalRow> rows) {
    RowToColumnConverter converter = new RowToColumnConverter(schema);
    rows.forEach(row -> converter.convert(row, vectors));
    return new ColumnarBatch(vectors, rows.size());
  }

  private static void write(MemorySink sink, StructType schema, ColumnarBatch batch, long batchBytes) {
    write(sink, schema, NullRules.of(StreamSchema.arrow(schema)), batch, batchBytes);
  }

  private static void write(
      MemorySink sink, StructType schema, NullRules rules, ColumnarBatch batch, long batchBytes) {
    List<BatchNode> nodes = BatchNode.of(schema);
    try (RowBatches rows = new RowBatches(sink, nodes, rules, batchBytes)) {
      new ColumnBatches(sink, schema, nodes, rules, batchBytes, rows).write(batch);
      rows.flush();
    }
    assertEquals(batch.numRows(), sink.rows());
  }
}
