package org.lwmq.spark.vector;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.IntervalDayVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.VectorUnloader;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.complex.impl.UnionListWriter;
import org.apache.arrow.vector.ipc.WriteChannel;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.util.ArrowUtils;

/** Blocks as Arrow Java writes them: columns of a number, a text and a list of numbers, some of them null. */
public final class Blocks {
  public static final int ROWS = 100;

  private Blocks() {}

  /** The schema, and one encapsulated record batch message. */
  public record Made(Schema schema, byte[] message) {}

  public static Made numbersTextsAndLists() {
    try (BufferAllocator allocator = ArrowUtils.rootAllocator().newChildAllocator("blocks", 0, Long.MAX_VALUE);
        BigIntVector numbers = new BigIntVector("n", allocator);
        VarCharVector texts = new VarCharVector("t", allocator);
        ListVector lists = ListVector.empty("l", allocator)) {
      UnionListWriter list = lists.getWriter();
      for (int i = 0; i < ROWS; i++) {
        if (isNull(i)) {
          numbers.setNull(i);
          texts.setNull(i);
        } else {
          numbers.setSafe(i, i);
          texts.setSafe(i, text(i).getBytes(StandardCharsets.UTF_8));
        }
        list.setPosition(i);
        list.startList();
        for (int j = 0; j < i % 3; j++) {
          list.bigInt().writeBigInt(i + j);
        }
        list.endList();
      }
      numbers.setValueCount(ROWS);
      texts.setValueCount(ROWS);
      lists.setValueCount(ROWS);
      return made(List.of(numbers, texts, lists), ROWS);
    }
  }

  /** Two rows of days and milliseconds, the second one null; pyarrow has no word for the type. */
  static Made daysAndMillis(int days, int millis) {
    try (BufferAllocator allocator = ArrowUtils.rootAllocator().newChildAllocator("blocks", 0, Long.MAX_VALUE);
        IntervalDayVector interval = new IntervalDayVector("i", allocator)) {
      interval.setSafe(0, days, millis);
      interval.setNull(1);
      interval.setValueCount(2);
      return made(List.of(interval), 2);
    }
  }

  private static Made made(List<FieldVector> columns, int rows) {
    VectorSchemaRoot root = new VectorSchemaRoot(columns); // not closed: the vectors are the caller's
    root.setRowCount(rows);
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    try (ArrowRecordBatch batch = new VectorUnloader(root).getRecordBatch()) {
      MessageSerializer.serialize(new WriteChannel(Channels.newChannel(out)), batch);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return new Made(root.getSchema(), out.toByteArray());
  }

  public static boolean isNull(int row) {
    return row % 7 == 3;
  }

  public static String text(int row) {
    return "row " + row;
  }

  /** The bytes in native memory. */
  static ByteBuffer direct(byte[] bytes) {
    ByteBuffer buffer = ByteBuffer.allocateDirect(bytes.length);
    buffer.put(bytes).flip();
    return buffer;
  }
}
