package org.lwmq.spark.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;
import org.junit.jupiter.api.Test;
import org.lwmq.core.LwmqException;

/** Rows go in through the generated appender, and come out through Arrow Java. */
class RowBatchesTest {
  private static final long SEED = 20_261_120;

  // rows: P31
  @Test
  void everyTypeComesBackAsItWentIn() {
    StructType schema = StructType.fromDDL(
        "b boolean, y tinyint, s smallint, i int, l bigint, f float, d double, d9 decimal(9,2), d18 decimal(18,4),"
            + " d38 decimal(38,18), t string, bin binary, day date, ts timestamp, ntz timestamp_ntz,"
            + " ym interval year to month, ds interval day to second, n void,"
            + " ai array<int>, at array<string>, aat array<array<string>>,"
            + " m map<string,int>, st struct<a:int,b:string,c:struct<d:decimal(30,3),e:boolean>>,"
            + " deep array<struct<a:map<int,string>,b:array<boolean>>>, sn struct<x:int not null,y:string not null>,"
            + " i2 int not null, t2 string not null");
    List<InternalRow> rows = RandomRows.rows(SEED, schema, 3000);
    for (boolean unsafe : new boolean[] {true, false}) {
      roundTrip(schema, rows, unsafe, 1 << 20);
      roundTrip(schema, rows, unsafe, 8 << 10);
    }
  }

  // rows: P31
  @Test
  void intervalsAndVariantsKeepTheirParts() {
    StructType schema = StructType.fromDDL("ci interval, v variant, av array<variant>");
    byte[] metadata = {1, 0, 0};
    List<InternalRow> rows = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      VariantVal variant = new VariantVal(new byte[] {12, (byte) i}, metadata);
      rows.add(new GenericInternalRow(new Object[] {
          i % 7 == 0 ? null : new CalendarInterval(i, -i, i * 1_000_003L),
          i % 5 == 0 ? null : variant,
          new GenericArrayData(new Object[] {variant, null})}));
    }
    MemorySink sink = write(schema, rows, true, 1 << 20);
    List<Integer> seen = new ArrayList<>();
    sink.read(StreamSchema.arrow(schema), batch -> {
      for (int i = 0; i < batch.getRowCount(); i++) {
        seen.add(i);
        assertEquals(i % 5 == 0, batch.getVector("v").isNull(i));
        var interval = (org.apache.arrow.vector.PeriodDuration) batch.getVector("ci").getObject(i);
        if (i % 7 == 0) {
          assertEquals(null, interval);
        } else {
          assertEquals(i, interval.getPeriod().toTotalMonths());
          assertEquals(-i, interval.getPeriod().getDays());
          assertEquals(i * 1_000_003_000L, interval.getDuration().toNanos());
        }
      }
    });
    assertEquals(100, seen.size());
  }

  @Test
  void aValueLargerThanTheBatchMakesTheBatchLarger() {
    StructType schema = StructType.fromDDL("t string, a array<array<bigint>>");
    String large = "x".repeat(3 << 20);
    Object[] longs = new Object[50_000];
    for (int i = 0; i < longs.length; i++) {
      longs[i] = (long) i;
    }
    GenericArrayData many = new GenericArrayData(new Object[] {new GenericArrayData(longs), null});
    List<InternalRow> rows = List.of(
        new GenericInternalRow(new Object[] {UTF8String.fromString("a"), null}),
        new GenericInternalRow(new Object[] {UTF8String.fromString(large), many}),
        new GenericInternalRow(new Object[] {UTF8String.fromString("b"), many}));
    roundTrip(schema, rows, true, 64 << 10);
    roundTrip(schema, rows, false, 64 << 10);
  }

  @Test
  void aRowThatDoesNotFitAnyMoreIsWholeInTheNextBatch() {
    StructType schema = StructType.fromDDL("a array<string>, t string");
    List<InternalRow> rows = new ArrayList<>();
    for (int i = 0; i < 5000; i++) {
      Object[] parts = new Object[i % 40];
      for (int j = 0; j < parts.length; j++) {
        parts[j] = UTF8String.fromString("part " + i + "." + j + "-".repeat(i % 97));
      }
      rows.add(new GenericInternalRow(new Object[] {new GenericArrayData(parts), UTF8String.fromString("t" + i)}));
    }
    MemorySink sink = roundTrip(schema, rows, true, 32 << 10);
    assertTrue(sink.batches.size() > 20, sink.batches.size() + " batches");
  }

  @Test
  void bodiesBeginOnACacheLineAndBatchesAreNotMostlyHoles() {
    StructType schema = StructType.fromDDL("i bigint, t string, b boolean");
    List<InternalRow> rows = new ArrayList<>();
    for (int i = 0; i < 10; i++) {
      rows.add(new GenericInternalRow(new Object[] {(long) i, UTF8String.fromString("t" + i), i % 2 == 0}));
    }
    MemorySink sink = roundTrip(schema, rows, true, 4 << 20);
    assertEquals(1, sink.batches.size());
    assertEquals(0, (8 + sink.metadataBytes(0)) % 64);
    assertTrue(sink.batches.get(0).length < 2048, sink.batches.get(0).length + " bytes for ten rows");
  }

  @Test
  void aThousandColumnsFitCompiledMethods() {
    StructType schema = new StructType();
    for (int i = 0; i < 1000; i++) {
      schema = schema.add("c" + i, i % 2 == 0 ? "string" : "bigint");
    }
    List<InternalRow> rows = RandomRows.rows(SEED, schema, 50);
    roundTrip(schema, rows, true, 1 << 20);
  }

  @Test
  void noRowsMakeNoBatch() {
    MemorySink sink = write(StructType.fromDDL("i int"), List.of(), true, 1 << 20);
    assertEquals(0, sink.batches.size());
  }

  @Test
  void aNullWhereTheStreamTakesNoneIsRefusedByName() {
    StructType schema = StructType.fromDDL("a int, b struct<c:string>");
    Schema declared = StreamSchema.arrow(StructType.fromDDL("a int, b struct<c:string not null>"));
    MemorySink sink = new MemorySink();
    try (RowBatches batches = new RowBatches(sink, BatchNode.of(schema), NullRules.of(declared), 1 << 20)) {
      batches.write(new GenericInternalRow(
          new Object[] {1, new GenericInternalRow(new Object[] {null})}));
      LwmqException refused = assertThrows(LwmqException.class, batches::flush);
      assertTrue(refused.getMessage().contains("b.c"), refused.getMessage());
    }
    assertEquals(0, sink.batches.size());
  }

  private static MemorySink write(StructType schema, List<InternalRow> rows, boolean unsafe, long batchBytes) {
    MemorySink sink = new MemorySink();
    UnsafeProjection projection = UnsafeProjection.create(schema);
    NullRules rules = NullRules.of(StreamSchema.arrow(schema));
    try (RowBatches batches = new RowBatches(sink, BatchNode.of(schema), rules, batchBytes)) {
      batches.writeAll(rows.stream().map(row -> unsafe ? (InternalRow) projection.apply(row) : row).iterator());
      batches.flush();
    }
    assertEquals(rows.size(), sink.rows);
    return sink;
  }

  private static MemorySink roundTrip(StructType schema, List<InternalRow> rows, boolean unsafe, long batchBytes) {
    MemorySink sink = write(schema, rows, unsafe, batchBytes);
    RandomRows.assertHas(sink, schema, rows);
    return sink;
  }
}
