package org.lwmq.spark.batch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.execution.RowToColumnConverter;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Status;

/** Strings that are not UTF-8 are found wherever they are, and those that are never. */
class Utf8Test {
  private static final long SEED = 20_261_125;
  private static final byte[] BROKEN = {'o', 'k', (byte) 0xc1};

  @Test
  void everySequenceUpToFourBytesIsJudgedAsByTheJavaLibrary() {
    int[] interesting = {
        0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0xec, 0xed, 0xef, 0xf0, 0xf3, 0xf4,
        0xf5};
    for (int a : interesting) {
      for (int b : interesting) {
        for (int c : interesting) {
          for (int d : interesting) {
            byte[] bytes = {(byte) a, (byte) b, (byte) c, (byte) d};
            judge(bytes);
            if (c == 0 && d == 0) {
              judge(new byte[] {(byte) a, (byte) b});
              judge(new byte[] {(byte) a});
            }
            if (d == 0) {
              judge(new byte[] {(byte) a, (byte) b, (byte) c});
            }
          }
        }
      }
    }
  }

  @Test
  void aBadByteIsFoundAtAnyPlaceOfALongText() {
    Random random = new Random(SEED);
    String alphabet = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaäß漢字😀";
    for (int round = 0; round < 5000; round++) {
      StringBuilder text = new StringBuilder();
      for (int i = random.nextInt(120); i > 0; i--) {
        text.appendCodePoint(alphabet.codePointAt(alphabet.offsetByCodePoints(0, random.nextInt(38))));
      }
      byte[] bytes = text.toString().getBytes(StandardCharsets.UTF_8);
      judge(bytes);
      if (bytes.length > 0) {
        bytes[random.nextInt(bytes.length)] ^= (byte) (1 << random.nextInt(8));
        judge(bytes);
      }
    }
  }

  @Test
  void aCharacterCutInTwoIsNoTextEvenWhereTheHalvesMeet() {
    StructType schema = StructType.fromDDL("t string");
    List<InternalRow> rows = List.of(
        row(UTF8String.fromBytes(new byte[] {(byte) 0xc3})), row(UTF8String.fromBytes(new byte[] {(byte) 0xa4})));
    assertTrue(refusal(schema, rows, false).contains("t of row 0 "));
  }

  @Test
  void theErrorNamesFieldAndRow() {
    StructType schema = StructType.fromDDL(
        "i int, t string, s struct<x:int,u:string>, a array<string>, aa array<array<string>>, m map<string,string>");
    UTF8String good = UTF8String.fromString("wört");
    UTF8String bad = UTF8String.fromBytes(BROKEN);
    String[] paths = {"t", "s.u", "a.element", "aa.element.element", "m.entries.key", "m.entries.value"};
    for (int at = 0; at < paths.length; at++) {
      for (long batchBytes : new long[] {64, 1 << 20}) {
        List<InternalRow> rows = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
          UTF8String[] s = new UTF8String[paths.length];
          java.util.Arrays.fill(s, good);
          s[at] = i == 37 ? bad : good;
          rows.add(row(
              i, i % 5 == 0 ? null : s[0], i % 7 == 0 ? null : row(i, s[1]),
              i % 3 == 0 ? null : array(good, null, s[2]), array(null, array(), array(good, s[3])),
              new ArrayBasedMapData(array(UTF8String.fromString("k"), s[4]), array(s[5], good))));
        }
        for (boolean unsafe : new boolean[] {true, false}) {
          String text = refusal(schema, rows, unsafe, batchBytes);
          assertTrue(text.contains(paths[at] + " of row 37 of its task is not UTF-8: 3 bytes, 6F 6B C1;"), text);
        }
      }
    }
  }

  @Test
  void withReplaceTheStringsAreRepairedAsSparkDoesIt() {
    StructType schema = StructType.fromDDL(
        "i int, t string, s struct<x:int,u:string>, a array<string>, m map<string,string>, b binary");
    UTF8String bad = UTF8String.fromBytes(BROKEN);
    UTF8String repaired = bad.makeValid();
    List<InternalRow> rows = new ArrayList<>();
    List<InternalRow> expected = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      rows.add(mixed(i, i % 3 == 0 ? bad : UTF8String.fromString("x" + i)));
      expected.add(mixed(i, i % 3 == 0 ? repaired : UTF8String.fromString("x" + i)));
    }
    for (boolean unsafe : new boolean[] {true, false}) {
      MemorySink sink = new MemorySink();
      NullRules rules = NullRules.of(StreamSchema.arrow(schema));
      UnsafeProjection projection = UnsafeProjection.create(schema);
      try (Utf8Rows out =
          new Utf8Rows(new RowBatches(sink, BatchNode.of(schema), rules, 1 << 20), schema, true)) {
        out.writeAll(rows.stream().map(row -> unsafe ? (InternalRow) projection.apply(row) : row).iterator());
        out.flush();
      }
      RandomRows.assertHas(sink, schema, expected);
    }
  }

  @Test
  void columnsWithABadStringGoRowByRow() {
    StructType flat = StructType.fromDDL("i int, t string");
    List<InternalRow> rows = new ArrayList<>();
    List<InternalRow> expected = new ArrayList<>();
    for (int i = 0; i < 1000; i++) {
      UTF8String bad = UTF8String.fromBytes(BROKEN);
      rows.add(row(i, i == 777 ? bad : UTF8String.fromString("x" + i)));
      expected.add(row(i, i == 777 ? bad.makeValid() : UTF8String.fromString("x" + i)));
    }
    for (boolean arrow : new boolean[] {false, true}) {
      try (BufferAllocator allocator = new RootAllocator();
          VectorSchemaRoot root = VectorSchemaRoot.create(StreamSchema.arrow(flat), allocator)) {
        ColumnarBatch batch = arrow ? RandomRows.arrowBatch(root, rows) : heapBatch(flat, rows);
        assertTrue(root.getVector(1) instanceof VarCharVector);
        LwmqException refused =
            assertThrows(LwmqException.class, () -> write(new MemorySink(), flat, batch, false));
        assertTrue(refused.getMessage().contains("t of row 777 "), refused.getMessage());
        MemorySink sink = new MemorySink();
        write(sink, flat, batch, true);
        RandomRows.assertHas(sink, flat, expected);
        assertTrue(sink.batches.size() > 1, "only the piece with the bad string goes by rows");
      }
    }
  }

  private static InternalRow mixed(int i, UTF8String s) {
    return row(
        i, s, i % 4 == 0 ? null : row(i, s), i % 5 == 0 ? null : array(s, null),
        new ArrayBasedMapData(array(s), array(s)), BROKEN);
  }

  private static ColumnarBatch heapBatch(StructType schema, List<InternalRow> rows) {
    WritableColumnVector[] vectors = OnHeapColumnVector.allocateColumns(rows.size(), schema);
    RowToColumnConverter converter = new RowToColumnConverter(schema);
    rows.forEach(row -> converter.convert(row, vectors));
    return new ColumnarBatch(vectors, rows.size());
  }

  private static void write(MemorySink sink, StructType schema, ColumnarBatch batch, boolean repairs) {
    NullRules rules = NullRules.of(StreamSchema.arrow(schema));
    List<BatchNode> nodes = BatchNode.of(schema);
    RowBatches batches = new RowBatches(sink, nodes, rules, 4 << 10);
    try (RowSink rows = repairs ? new Utf8Rows(batches, schema, true) : batches) {
      new ColumnBatches(sink, schema, nodes, rules, 4 << 10, rows).write(batch);
      rows.flush();
    }
  }

  private static String refusal(StructType schema, List<InternalRow> rows, boolean unsafe) {
    return refusal(schema, rows, unsafe, 1 << 20);
  }

  private static String refusal(StructType schema, List<InternalRow> rows, boolean unsafe, long batchBytes) {
    MemorySink sink = new MemorySink();
    NullRules rules = NullRules.of(StreamSchema.arrow(schema));
    UnsafeProjection projection = UnsafeProjection.create(schema);
    try (RowBatches batches = new RowBatches(sink, BatchNode.of(schema), rules, batchBytes)) {
      LwmqException refused = assertThrows(LwmqException.class, () -> {
        batches.writeAll(rows.stream().map(row -> unsafe ? (InternalRow) projection.apply(row) : row).iterator());
        batches.flush();
      });
      assertEquals(Status.INVALID, refused.status());
      return refused.getMessage();
    }
  }

  private static InternalRow row(Object... values) {
    return new GenericInternalRow(values);
  }

  private static GenericArrayData array(Object... values) {
    return new GenericArrayData(values);
  }

  private static void judge(byte[] bytes) {
    boolean valid;
    try {
      StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes));
      valid = true;
    } catch (CharacterCodingException e) {
      valid = false;
    }
    if (valid) {
      assertTrue(Utf8.isValid(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length), () -> java.util.Arrays.toString(bytes));
    } else {
      assertFalse(Utf8.isValid(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length), () -> java.util.Arrays.toString(bytes));
    }
  }
}
