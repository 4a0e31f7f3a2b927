package org.lwmq.spark.batch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
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

  // rows: P31
  @Test
  void schemasOfThousandsOfColumnsAreWritten() {
    StructType schema = new StructType();
    String[] types = {"string", "bigint", "array<string>", "struct<a:int,b:string>", "boolean", "decimal(30,2)"};
    for (int i = 0; i < 3000; i++) {
      schema = schema.add("c" + i, types[i % types.length]);
    }
    List<InternalRow> rows = RandomRows.rows(SEED, schema, 12);
    SQLConf.get().setConfString("spark.sql.codegen.factoryMode", "NO_CODEGEN"); // Spark's would take half a minute
    try {
      roundTrip(schema, rows, true, 4 << 20);
      roundTrip(schema, rows, false, 4 << 20);
    } finally {
      SQLConf.get().unsetConf("spark.sql.codegen.factoryMode");
    }
  }

  @Test
  void rowsOfEveryTypeAreStoredAlikeByGeneratedAndByInterpretedCode() {
    String types = "b boolean, y tinyint, s smallint, i int, l bigint, f float, d double, d9 decimal(9,2),"
        + " d38 decimal(38,18), t string, bin binary, n void, at array<string>, aat array<array<string>>,"
        + " m map<string,int>, st struct<a:int,b:string,c:struct<d:decimal(30,3),e:boolean>>,"
        + " deep array<struct<a:map<int,string>,b:array<boolean>>>";
    StructType narrow = StructType.fromDDL(types);
    StructType wide = narrow;
    while (BatchNode.of(wide).size() <= AppenderCompiler.NODES_MAX) {
      wide = wide.add("filler" + wide.size(), "int");
    }
    for (StructType schema : new StructType[] {narrow, wide}) {
      List<InternalRow> rows = RandomRows.rows(SEED, schema, 200);
      roundTrip(schema, rows, true, 1 << 20);
      roundTrip(schema, rows, false, 32 << 10);
    }
  }

  @Test
  void theWidestSchemasThatAreCompiledFitAClass() {
    int n = AppenderCompiler.NODES_MAX;
    for (String name : List.of("string", "bigint", "decimal(38,0)", "interval", "boolean", "binary")) {
      DataType type = StructType.fromDDL("c " + name).apply(0).dataType();
      StructType flat = new StructType();
      StructType lists = new StructType();
      for (int i = 0; i < n - 1; i++) {
        flat = flat.add("c" + i, type);
        lists = i < n / 2 ? lists.add("c" + i, new ArrayType(type, true)) : lists;
      }
      for (StructType schema : new StructType[] {flat, lists, new StructType().add("s", flat)}) {
        assertFalse(AppenderCompiler.of(BatchNode.of(schema)).get() instanceof InterpretedAppender);
      }
    }
  }

  // rows: P31
  @Test
  void listsAndStructsMayLieAHundredAndFiftyDeep() {
    for (int depth : new int[] {12, 150}) {
      DataType arrays = DataTypes.StringType;
      DataType structs = DataTypes.StringType;
      DataType both = DataTypes.LongType;
      Object array = UTF8String.fromString("down here");
      Object struct = array;
      Object mixed = 17L;
      for (int i = 0; i < depth; i++) {
        arrays = new ArrayType(arrays, true);
        structs = new StructType().add("s", structs);
        both = i % 2 == 0 ? new StructType().add("n", "int").add("s", both) : new ArrayType(both, true);
        array = new GenericArrayData(i < 3 ? new Object[] {array, array, null} : new Object[] {array});
        struct = new GenericInternalRow(new Object[] {struct});
        mixed = i % 2 == 0 ? new GenericInternalRow(new Object[] {i, mixed}) : new GenericArrayData(new Object[] {mixed});
      }
      StructType schema = new StructType().add("a", arrays).add("s", structs).add("b", both);
      List<InternalRow> rows = new ArrayList<>();
      for (int i = 0; i < 100; i++) {
        rows.add(new GenericInternalRow(new Object[] {
            i % 3 == 0 ? null : array, i % 5 == 0 ? null : struct, i % 7 == 0 ? null : mixed}));
      }
      MemorySink sink = write(schema, rows, true, 4 << 20);
      assertTrue(sink.batches.size() <= 4, sink.batches.size() + " batches");
      assertTrue(sink.asked.stream().allMatch(bytes -> bytes <= 4 << 20), sink.asked + " bytes asked for");
      RandomRows.assertHas(sink, schema, rows);
    }
  }

  @Test
  void aThousandColumnsShareASmallBuffer() {
    StructType schema = new StructType();
    for (int i = 0; i < 1000; i++) {
      schema = schema.add("c" + i, i % 2 == 0 ? "string" : "bigint");
    }
    List<InternalRow> rows = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      Object[] values = new Object[1000];
      for (int j = 0; j < values.length; j++) {
        values[j] = j % 2 == 0 ? UTF8String.fromString("value " + j) : (Object) (long) j;
      }
      rows.add(new GenericInternalRow(values));
    }
    MemorySink sink = roundTrip(schema, rows, true, 256 << 10);
    assertTrue(sink.batches.size() <= 10, sink.batches.size() + " batches");
  }

  @Test
  void aLongListIsLaidOutOnce() {
    StructType schema = StructType.fromDDL(
        "ast array<struct<a:string,b:string>>, at array<string>, aa array<array<bigint>>, m map<string,array<string>>");
    UTF8String text = UTF8String.fromString("some text");
    Object[] structs = new Object[60_000];
    Object[] texts = new Object[structs.length];
    Object[] lists = new Object[structs.length];
    for (int i = 0; i < structs.length; i++) {
      structs[i] = new GenericInternalRow(new Object[] {text, text});
      texts[i] = text;
      lists[i] = new GenericArrayData(new Object[] {1L, 2L});
    }
    Object[] textLists = new Object[structs.length];
    java.util.Arrays.fill(textLists, new GenericArrayData(new Object[] {text, text}));
    List<InternalRow> rows = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      rows.add(new GenericInternalRow(new Object[] {
          new GenericArrayData(structs), new GenericArrayData(texts), new GenericArrayData(lists),
          new ArrayBasedMapData(new GenericArrayData(texts), new GenericArrayData(textLists))}));
    }
    MemorySink sink = roundTrip(schema, rows, true, 4 << 20);
    assertEquals(sink.batches.size(), sink.asked.size(), "no block was asked for in vain");
  }

  @Test
  void aLargeRowMakesNoLaterBatchLarger() {
    StructType schema = StructType.fromDDL("i int, t string");
    List<InternalRow> rows = new ArrayList<>();
    for (int i = 0; i < 100_000; i++) {
      UTF8String text = UTF8String.fromString(i == 5000 ? "x".repeat(20 << 20) : "small");
      rows.add(new GenericInternalRow(new Object[] {i, text}));
    }
    MemorySink sink = roundTrip(schema, rows, true, 1 << 20);
    assertEquals(1, sink.asked.stream().filter(bytes -> bytes > 2 << 20).count(), sink.asked + " bytes asked for");
    assertTrue(sink.batches.size() <= 6, sink.batches.size() + " batches");
  }

  @Test
  void aBatchThatTheWindowCannotHoldIsHalved() {
    StructType schema = StructType.fromDDL("t string");
    List<InternalRow> rows = RandomRows.rows(SEED, schema, 10_000);
    MemorySink sink = new MemorySink();
    sink.window = 40 << 10;
    write(sink, schema, rows, true, 1 << 20);
    RandomRows.assertHas(sink, schema, rows);
    assertTrue(sink.batches.stream().allMatch(batch -> batch.length <= 40 << 10));
  }

  @Test
  void aNullUnderANullStructIsNoneEvenWhereTheStreamTakesNone() {
    StructType schema = StructType.fromDDL("s struct<a:int,b:struct<c:string>>, l array<struct<a:int>>, m map<int,struct<a:int>>");
    Schema declared = StreamSchema.arrow(StructType.fromDDL(
        "s struct<a:int not null,b:struct<c:string not null> not null>, l array<struct<a:int not null>>,"
            + " m map<int,struct<a:int not null>>"));
    InternalRow one = new GenericInternalRow(new Object[] {1});
    InternalRow none = new GenericInternalRow(new Object[] {null});
    UTF8String text = UTF8String.fromString("t");
    List<InternalRow> rows = List.of(
        row(null, null, null),
        row(row(1, row(text)), array(one, null), map(null, one)),
        row(null, array(), map(null, null)));
    MemorySink sink = new MemorySink();
    try (RowBatches batches = new RowBatches(sink, BatchNode.of(schema), NullRules.of(declared), 1 << 20)) {
      batches.writeAll(rows.iterator());
      batches.flush();
    }
    RandomRows.assertHas(sink, schema, rows);
    refusesNull(schema, declared, row(row(null, row(text)), null, null), "1 nulls in s.a,");
    refusesNull(schema, declared, row(row(1, null), null, null), "1 nulls in s.b,");
    refusesNull(schema, declared, row(row(1, none), null, null), "1 nulls in s.b.c,");
    refusesNull(schema, declared, row(null, array(none, one, null, none), null), "2 nulls in l.element.a,");
    refusesNull(schema, declared, row(null, null, map(one, none)), "1 nulls in m.entries.value.a,");
  }

  @Test
  void aNullOfADataFrameThatPromisedNoneIsANull() {
    StructType promised = StructType.fromDDL(
        "i int not null, t string not null, b boolean not null, d decimal(30,1) not null, s struct<x:int not null> not null");
    StructType honest = promised.asNullable();
    List<InternalRow> rows = List.of(
        row(null, null, null, null, null), row(1, UTF8String.fromString("t"), true, null, row((Object) null)));
    UnsafeProjection projection = UnsafeProjection.create(honest);
    for (boolean unsafe : new boolean[] {true, false}) {
      MemorySink sink = new MemorySink();
      NullRules rules = NullRules.of(StreamSchema.arrow(honest));
      try (RowBatches batches = new RowBatches(sink, BatchNode.of(promised), rules, 1 << 20)) {
        batches.writeAll(rows.stream().map(row -> unsafe ? (InternalRow) projection.apply(row) : row).iterator());
        batches.flush();
      }
      RandomRows.assertHas(sink, honest, rows);
    }
  }

  private static InternalRow row(Object... values) {
    return new GenericInternalRow(values);
  }

  private static GenericArrayData array(Object... values) {
    return new GenericArrayData(values);
  }

  private static ArrayBasedMapData map(Object... values) {
    Object[] keys = new Object[values.length];
    for (int i = 0; i < keys.length; i++) {
      keys[i] = i;
    }
    return new ArrayBasedMapData(new GenericArrayData(keys), new GenericArrayData(values));
  }

  private static void refusesNull(StructType schema, Schema declared, InternalRow row, String text) {
    MemorySink sink = new MemorySink();
    try (RowBatches batches = new RowBatches(sink, BatchNode.of(schema), NullRules.of(declared), 1 << 20)) {
      batches.write(row);
      LwmqException refused = assertThrows(LwmqException.class, batches::flush);
      assertTrue(refused.getMessage().contains(text), refused.getMessage());
    }
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
    write(sink, schema, rows, unsafe, batchBytes);
    return sink;
  }

  private static void write(
      MemorySink sink, StructType schema, List<InternalRow> rows, boolean unsafe, long batchBytes) {
    UnsafeProjection projection = UnsafeProjection.create(schema);
    NullRules rules = NullRules.of(StreamSchema.arrow(schema));
    try (RowBatches batches = new RowBatches(sink, BatchNode.of(schema), rules, batchBytes)) {
      batches.writeAll(rows.stream().map(row -> unsafe ? (InternalRow) projection.apply(row) : row).iterator());
      batches.flush();
    }
    assertEquals(rows.size(), sink.rows());
  }

  private static MemorySink roundTrip(StructType schema, List<InternalRow> rows, boolean unsafe, long batchBytes) {
    MemorySink sink = write(schema, rows, unsafe, batchBytes);
    RandomRows.assertHas(sink, schema, rows);
    return sink;
  }
}
