package org.lwmq.arrow;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.ArrowFieldNode;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.DictionaryEncoding;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.util.ArrowUtils;
import org.junit.jupiter.api.Test;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Memory;
import org.lwmq.core.Status;
import org.lwmq.spark.batch.VectorFactory;
import org.lwmq.spark.batch.WindowColumnVector;

/** Schemas that say what Arrow does not have, and columns whose lengths do not agree with each other. */
class HostileSchemaTest {
  private static final long SEED = 20_261_122;

  @Test
  void widthsThatArrowDoesNotHaveAreCorruptAndNameTheField() {
    List<ArrowType> impossible =
        List.of(
            new ArrowType.Int(24, true),
            new ArrowType.Int(128, true),
            new ArrowType.Decimal(10, 2, 8),
            new ArrowType.Time(TimeUnit.SECOND, 64),
            new ArrowType.Time(TimeUnit.NANOSECOND, 8),
            new ArrowType.FixedSizeBinary(1 << 29),
            new ArrowType.FixedSizeBinary(-1));
    for (ArrowType type : impossible) {
      refused(field("bad", type));
      refused(field("outer", new ArrowType.Struct(), field("bad", type)));
    }
    Field number = field("n", new ArrowType.Int(64, true));
    refused(field("bad", new ArrowType.FixedSizeList(-1), number));
    refused(field("bad", new ArrowType.FixedSizeList(Integer.MAX_VALUE), number));
    refused(field("bad", new ArrowType.List()));
    refused(field("bad", new ArrowType.Map(false), number));
    refused(field("bad", new ArrowType.RunEndEncoded(), number));
    refused(field("bad", new ArrowType.RunEndEncoded(), field("ends", new ArrowType.Utf8()), number));
    refused(field("bad", new ArrowType.Int(64, true), number));
  }

  @Test
  void whateverASchemaSaysItIsASchemaOrCorrupt() {
    byte[] good =
        ArrowSchemas.bytes(
            new Schema(
                List.of(
                    field("t", new ArrowType.Utf8()),
                    field("l", new ArrowType.List(), field("e", new ArrowType.Decimal(10, 2, 128))))));
    Random random = new Random(SEED);
    int refused = 0;
    for (int round = 0; round < 20_000; round++) {
      byte[] bad = good.clone();
      for (int i = 0; i <= round % 4; i++) {
        bad[random.nextInt(bad.length)] = (byte) (random.nextBoolean() ? random.nextInt() : 0xFF);
      }
      try {
        ArrowSchemas.parse(bad);
      } catch (LwmqException e) {
        refused++;
        assertTrue(e.status() == Status.CORRUPT || e.status() == Status.SCHEMA, () -> "seed " + SEED + ": " + e);
      }
    }
    assertTrue(refused > 1000, "seed " + SEED + ": only " + refused + " were refused");
  }

  @Test
  void fewerRunEndsThanRunsAreCorrupt() {
    Field ends = field("run_ends", new ArrowType.Int(32, true));
    Field values = field("values", new ArrowType.Int(64, true));
    Schema schema = new Schema(List.of(field("r", new ArrowType.RunEndEncoded(), ends, values)));
    byte[] four = {1, 0, 0, 0};
    byte[] message =
        message(
            1000,
            List.of(new ArrowFieldNode(1000, 0), new ArrowFieldNode(1, 0), new ArrowFieldNode(100, 0)),
            List.of(new byte[0], four, new byte[0], new byte[800]));
    LwmqException refusal = assertThrows(LwmqException.class, () -> read(message, schema));
    assertEquals(Status.CORRUPT, refusal.status());
    assertTrue(refusal.getMessage().contains("has 100 runs, and where 1 end"), refusal.getMessage());
  }

  /** The value under a null is asked for by whole arrays; an empty dictionary has none to give. */
  @Test
  void aNullOfAnEmptyDictionaryReadsNothingOfThePeers() {
    ByteBuffer memory = ByteBuffer.allocateDirect(256);
    for (int i = 0; i < memory.capacity(); i++) {
      memory.put(i, (byte) 0x7F);
    }
    memory.put(0, (byte) 0); // validity: nothing but nulls
    long at = Memory.address(memory);
    Field plain = field("d", new ArrowType.Int(32, true));
    DictionaryEncoding encoding = new DictionaryEncoding(0, false, new ArrowType.Int(32, true));
    Field field = new Field("d", new FieldType(true, new ArrowType.Int(32, true), encoding), null);
    ArrowColumn none = new ArrowColumn(plain, 0, 0, new long[] {at + 64}, new long[] {0}, new ArrowColumn[0], null);
    ArrowColumn column =
        new ArrowColumn(field, 3, at, new long[] {at + 128}, new long[] {12}, new ArrowColumn[0], none);
    WindowColumnVector vector = VectorFactory.over(column, DataTypes.IntegerType);
    assertTrue(vector.isNullAt(1));
    assertEquals(0, vector.getInt(1));
    assertEquals(0, vector.getInts(0, 3)[2]);
    memory.put(0, (byte) 0xFF); // the peer says that they are values after all
    Exception refusal = assertThrows(SparkRuntimeException.class, () -> vector.getInt(1));
    assertTrue(refusal.getMessage().contains("into a dictionary of 0"), refusal.getMessage());
    Reference.reachabilityFence(memory);
  }

  @Test
  void emptyColumnsOfTextsAndListsReadNothingOfThePeers() {
    ByteBuffer memory = ByteBuffer.allocateDirect(64).putInt(0, 0x7FFFFFFF);
    long at = Memory.address(memory);
    Field text = field("t", new ArrowType.Utf8());
    ArrowColumn empty =
        new ArrowColumn(text, 0, 0, new long[] {at, at}, new long[] {0, 0}, new ArrowColumn[0], null);
    WindowColumnVector texts = VectorFactory.over(empty, DataTypes.StringType);
    assertEquals(0, texts.getUTF8String(0).numBytes());
    Field wide = field("b", new ArrowType.FixedSizeBinary(1 << 20));
    ArrowColumn none = new ArrowColumn(wide, 0, 0, new long[] {at}, new long[] {0}, new ArrowColumn[0], null);
    assertEquals(0, VectorFactory.over(none, DataTypes.BinaryType).getBinary(0).length);
    assertNull(VectorFactory.constant(DataTypes.StringType, null, 1).getUTF8String(0));
    Reference.reachabilityFence(memory);
  }

  private static void refused(Field field) {
    byte[] stream = ArrowSchemas.bytes(new Schema(List.of(field("good", new ArrowType.Bool()), field)));
    LwmqException refusal = assertThrows(LwmqException.class, () -> ArrowSchemas.parse(stream), field.toString());
    // Arrow Java refuses some by itself, as types that it cannot read.
    assertTrue(refusal.status() == Status.CORRUPT || refusal.status() == Status.SCHEMA, refusal.toString());
    assertTrue(refusal.getMessage().matches("field (bad|outer) .*"), refusal.getMessage());
  }

  private static Field field(String name, ArrowType type, Field... children) {
    return new Field(name, new FieldType(true, type, null), List.of(children));
  }

  private static IpcBlock.Columns read(byte[] message, Schema schema) {
    ByteBuffer memory = ByteBuffer.allocateDirect(message.length).put(message);
    IpcBlock.Columns columns = IpcBlock.read(Memory.address(memory), message.length, false, schema, new int[] {0});
    Reference.reachabilityFence(memory); // what was read knows its address alone
    return columns;
  }

  private static byte[] message(int rows, List<ArrowFieldNode> nodes, List<byte[]> buffers) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    try (BufferAllocator allocator = ArrowUtils.rootAllocator().newChildAllocator("hostile", 0, Long.MAX_VALUE)) {
      List<ArrowBuf> made = new ArrayList<>();
      for (byte[] bytes : buffers) {
        ArrowBuf buffer = allocator.buffer(bytes.length);
        buffer.writeBytes(bytes);
        made.add(buffer);
      }
      try (ArrowRecordBatch batch = new ArrowRecordBatch(rows, nodes, made)) {
        MessageSerializer.serialize(new WriteChannel(Channels.newChannel(out)), batch);
      } finally {
        made.forEach(ArrowBuf::close);
      }
    } catch (IOException e) {
      throw new AssertionError(e);
    }
    return out.toByteArray();
  }
}
