package org.lwmq.spark.batch;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Random;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;
import org.lwmq.arrow.ArrowSchemas;
import org.lwmq.arrow.IpcBlock;
import org.lwmq.core.Batch;
import org.lwmq.core.Block;
import org.lwmq.core.Deadline;
import org.lwmq.core.Endpoint;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Memory;
import org.lwmq.core.Reader;
import org.lwmq.core.ReaderOptions;
import org.lwmq.core.Role;
import org.lwmq.core.Status;
import org.lwmq.core.Writer;
import org.lwmq.core.WriterOptions;

/** Columns over blocks: where their values lie, and what a block that lies can do. */
class WindowColumnVectorTest {
  private static final long SEED = 20_261_121;
  private static final int ROUNDS = 20_000;

  // rows: P05
  @Test
  void valuesLieInTheWindowOfTheWriter() {
    Blocks.Made made = Blocks.numbersTextsAndLists();
    String address = "loop://window-column-vector";
    Deadline soon = Deadline.after(60_000);
    try (Endpoint endpoint = Endpoint.open(address);
        Writer writer = Writer.open(address, ArrowSchemas.bytes(made.schema()), WriterOptions.client(), soon)) {
      Block block = writer.allocate(made.message().length, soon);
      long written = block.address();
      block.buffer().put(made.message());
      writer.publish(block, 0, made.message().length, Blocks.ROWS, Writer.IPC_MESSAGE);
      ReaderOptions options = new ReaderOptions(Role.CLIENT, false, false, 0, 0, "here", null, false, null, 0, null, 0, null, List.of());
      try (Reader reader = Reader.open(address, options, soon);
          Batch batch = reader.next(soon)) {
        Schema schema = ArrowSchemas.parse(reader.schema(soon));
        assertEquals(made.schema(), schema);
        WindowColumnVector[] columns = columns(batch.address(), batch.bytes(), schema);
        check(columns);
        for (WindowColumnVector column : columns) {
          long offset = column.valuesAddress() - batch.windowAddress();
          assertTrue(offset >= 0 && offset < batch.windowBytes(), "a value lies outside of the window");
        }
        assertTrue(written != 0 && !batch.isCopy());
      }
      assertEquals(address, endpoint.address());
    }
  }

  @Test
  void oneClassServesAllTypes() {
    Blocks.Made made = Blocks.numbersTextsAndLists();
    ByteBuffer memory = Blocks.direct(made.message());
    for (WindowColumnVector column : columns(address(memory), memory.capacity(), made.schema())) {
      assertSame(WindowColumnVector.class, column.getClass());
    }
    assertTrue(java.lang.reflect.Modifier.isFinal(WindowColumnVector.class.getModifiers()));
  }

  /** Each round changes some bytes of a block. Whatever they say: the values, or an error, and the JVM lives. */
  @Test
  void aBlockThatLiesCannotCrashTheJvm() {
    Random random = new Random(SEED);
    Blocks.Made made = Blocks.numbersTextsAndLists();
    int metadata = ByteBuffer.wrap(made.message()).order(ByteOrder.LITTLE_ENDIAN).getInt(4);
    int refused = 0;
    for (int round = 0; round < ROUNDS; round++) {
      byte[] bytes = made.message().clone();
      int reach = round % 2 == 0 ? 8 + metadata : bytes.length;
      for (int i = 0; i <= round % 4; i++) {
        bytes[random.nextInt(reach)] = (byte) (random.nextBoolean() ? random.nextInt() : 0xFF);
      }
      ByteBuffer memory = Blocks.direct(bytes);
      try {
        for (WindowColumnVector column : columns(address(memory), memory.capacity(), made.schema())) {
          touch(column);
        }
      } catch (LwmqException | SparkRuntimeException e) {
        refused++;
      } finally {
        Reference.reachabilityFence(memory); // the columns know its address alone
      }
    }
    assertTrue(refused > ROUNDS / 10, "seed " + SEED + ": only " + refused + " of " + ROUNDS + " blocks were refused");
  }

  @Test
  void aBlockThatEndsEarlyIsRefused() {
    Blocks.Made made = Blocks.numbersTextsAndLists();
    for (int length = 0; length < made.message().length; length += 8) {
      ByteBuffer memory = Blocks.direct(java.util.Arrays.copyOf(made.message(), made.message().length));
      int shown = length;
      LwmqException refusal =
          assertThrows(LwmqException.class, () -> columns(address(memory), shown, made.schema()));
      Reference.reachabilityFence(memory);
      assertEquals(Status.CORRUPT, refusal.status());
    }
  }

  @Test
  void daysThatDoNotFitSparksMicrosecondsAreRefusedAndNotWrapped() {
    assertEquals(-86_400_000_000L * 3 + 4000, firstInterval(-3, 4));
    assertEquals(106_751_991L * 86_400_000_000L, firstInterval(106_751_991, 0));
    Exception refusal = assertThrows(SparkRuntimeException.class, () -> firstInterval(106_751_992, 0));
    assertEquals(
        "LWMQ_SCHEMA: field i: 9223372108800000 ms does not fit Spark's microseconds SQLSTATE: P0001", refusal.getMessage());
  }

  private static long firstInterval(int days, int millis) {
    Blocks.Made made = Blocks.daysAndMillis(days, millis);
    ByteBuffer memory = Blocks.direct(made.message());
    IpcBlock.Columns read = IpcBlock.read(address(memory), memory.capacity(), false, made.schema(), new int[] {0});
    WindowColumnVector column =
        VectorFactory.over(read.columns()[0], SparkTypes.of(made.schema()).apply(0).dataType());
    assertTrue(column.isNullAt(1));
    long first = column.getLong(0);
    Reference.reachabilityFence(memory);
    return first;
  }

  @Test
  void halvesAreFloats() {
    assertEquals(1.5f, HalfFloat.toFloat((short) 0x3E00));
    assertEquals(-0.0f, HalfFloat.toFloat((short) 0x8000));
    assertEquals(0x1p-24f, HalfFloat.toFloat((short) 1));
    assertEquals(65504f, HalfFloat.toFloat((short) 0x7BFF));
    assertEquals(Float.NEGATIVE_INFINITY, HalfFloat.toFloat((short) 0xFC00));
    assertTrue(Float.isNaN(HalfFloat.toFloat((short) 0x7E00)));
  }

  @Test
  void aConstantIsTheSameInEveryRow() {
    WindowColumnVector number = VectorFactory.constant(DataTypes.LongType, 7L, 3);
    assertEquals(7, number.getLong(2));
    assertTrue(!number.hasNull());
    UTF8String text = UTF8String.fromString("x");
    assertEquals(text, VectorFactory.constant(DataTypes.StringType, text, 3).getUTF8String(1));
    assertTrue(VectorFactory.constant(DataTypes.StringType, null, 3).isNullAt(0));
  }

  private static WindowColumnVector[] columns(long address, long bytes, Schema schema) {
    StructType type = SparkTypes.of(schema);
    IpcBlock.Columns read = IpcBlock.read(address, bytes, false, schema, new int[] {0, 1, 2});
    WindowColumnVector[] columns = new WindowColumnVector[read.columns().length];
    for (int i = 0; i < columns.length; i++) {
      columns[i] = VectorFactory.over(read.columns()[i], type.apply(i).dataType());
    }
    return columns;
  }

  private static void check(WindowColumnVector[] columns) {
    for (int row = 0; row < Blocks.ROWS; row++) {
      assertEquals(Blocks.isNull(row), columns[0].isNullAt(row));
      if (Blocks.isNull(row)) {
        assertNull(columns[1].getUTF8String(row));
      } else {
        assertEquals(row, columns[0].getLong(row));
        assertEquals(Blocks.text(row), columns[1].getUTF8String(row).toString());
      }
      ColumnarArray list = columns[2].getArray(row);
      assertEquals(row % 3, list.numElements());
      for (int j = 0; j < list.numElements(); j++) {
        assertEquals(row + j, list.getLong(j));
      }
    }
  }

  /** Looks at every value, to the last byte. */
  private static void touch(WindowColumnVector column) {
    for (int row = 0; row < column.rows(); row++) {
      if (column.isNullAt(row)) {
        continue;
      }
      if (column.dataType().equals(DataTypes.StringType)) {
        column.getUTF8String(row).getBytes();
      } else if (column.dataType().equals(DataTypes.LongType)) {
        column.getLong(row);
      } else {
        ColumnarArray list = column.getArray(row);
        for (int j = 0; j < list.numElements(); j++) {
          list.getLong(j);
        }
      }
    }
  }

  private static long address(ByteBuffer direct) {
    return Memory.address(direct);
  }
}
