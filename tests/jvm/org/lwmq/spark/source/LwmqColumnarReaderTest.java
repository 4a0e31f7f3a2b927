package org.lwmq.spark.source;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.lwmq.arrow.ArrowSchemas;
import org.lwmq.core.Block;
import org.lwmq.core.Deadline;
import org.lwmq.core.Endpoint;
import org.lwmq.core.Memory;
import org.lwmq.core.Range;
import org.lwmq.core.Reader;
import org.lwmq.core.ReaderOptions;
import org.lwmq.core.Role;
import org.lwmq.core.StreamState;
import org.lwmq.core.Writer;
import org.lwmq.core.WriterOptions;
import org.lwmq.spark.conf.LwmqReadConf;
import org.lwmq.spark.vector.Blocks;
import org.lwmq.spark.vector.SparkTypes;
import scala.Option;

/** A task that ends on its own thread while another one reads: what feeds a process does. */
class LwmqColumnarReaderTest {
  private static final long LIMIT_S = 60;
  private static final int WINDOW_BYTES = 131_072;

  private final Deadline soon = Deadline.after(TimeUnit.SECONDS.toMillis(LIMIT_S));
  private final Blocks.Made made = Blocks.numbersTextsAndLists();
  private final TaskContext task = TaskContext$.MODULE$.empty();

  LwmqColumnarReaderTest() {
    TaskContext$.MODULE$.setTaskContext(task);
  }

  @AfterEach
  void end() {
    TaskContext$.MODULE$.unset();
  }

  private Writer writer(String address) {
    WriterOptions small = WriterOptions.client().withMemory(WINDOW_BYTES / 2, WINDOW_BYTES, 0);
    return Writer.open(address, ArrowSchemas.bytes(made.schema()), small, soon);
  }

  private void write(Writer writer, byte[] message) {
    Block block = writer.allocate(message.length, soon);
    Memory.wrap(block.address(), message.length).put(message);
    writer.publish(block, 0, message.length, Blocks.ROWS, Writer.IPC_MESSAGE);
  }

  /** Of a task that is this thread's. */
  private PartitionReader<ColumnarBatch> reader(String address, String trust) {
    LwmqReadConf conf =
        LwmqReadConf.of(
            new CaseInsensitiveStringMap(Map.of("path", address, "trust", trust, "ack", "batch")));
    StreamState state = StreamState.describe(address, true, soon);
    StructType columns = SparkTypes.of(made.schema());
    LwmqReaderFactory factory =
        new LwmqReaderFactory(
            conf, "app", StreamColumns.find(columns, columns, made.schema(), address), -1, state.schema());
    return factory.createColumnarReader(
        new LwmqInputPartition(
            state.generation(), state.endpoint(), List.of(new Range(0, Range.EARLIEST, Range.END)), new String[0]));
  }

  private static <T> FutureTask<T> onAnother(Callable<T> call) {
    FutureTask<T> future = new FutureTask<>(call);
    Thread thread = new Thread(future);
    thread.setDaemon(true);
    thread.start();
    return future;
  }

  @Test
  void aTaskEndsBesideAThreadThatWaitsForABatch() throws Exception {
    String address = "loop://columnar-waits";
    try (Endpoint endpoint = Endpoint.open(address);
        Writer writer = writer(address)) {
      assertEquals(address, endpoint.address());
      assertTrue(writer.isOpen());
      PartitionReader<ColumnarBatch> reader = reader(address, "user");
      CountDownLatch running = new CountDownLatch(1);
      FutureTask<SparkRuntimeException> end =
          onAnother(
              () -> {
                running.countDown();
                return assertThrows(SparkRuntimeException.class, reader::next);
              });
      running.await();
      task.markTaskCompleted(Option.empty());
      reader.close(); // as Spark does, too
      String why = end.get(LIMIT_S, TimeUnit.SECONDS).getMessage();
      assertTrue(why.startsWith("LWMQ_INTERRUPTED: "), why);
      assertThrows(SparkRuntimeException.class, reader::next);
    }
  }

  @Test
  void whatAThreadThatIsOverHasReadGoesWithItsTask() throws Exception {
    String address = "loop://columnar-over";
    try (Endpoint endpoint = Endpoint.open(address);
        Writer writer = writer(address)) {
      assertEquals(address, endpoint.address());
      write(writer, made.message());
      PartitionReader<ColumnarBatch> reader = reader(address, "user");
      Thread reading = new Thread(() -> assertDoesNotThrow(reader::next));
      reading.start();
      reading.join();
      check(reader.get());
      task.markTaskCompleted(Option.empty());
      assertNull(reader.get());
    }
  }

  @Test
  void rowsOfAnotherThreadOutliveTheirTask() throws Exception {
    rowsOutliveTheirTask("loop://columnar-rows", "user");
  }

  @Test
  void rowsOfAnotherThreadOutliveTheirTaskWhereTheyWereCopied() throws Exception {
    rowsOutliveTheirTask("loop://columnar-copied", "verify");
  }

  private void rowsOutliveTheirTask(String address, String trust) throws Exception {
    try (Endpoint endpoint = Endpoint.open(address);
        Writer writer = writer(address)) {
      assertEquals(address, endpoint.address());
      write(writer, made.message());
      PartitionReader<ColumnarBatch> reader = reader(address, trust);
      CountDownLatch isRead = new CountDownLatch(1);
      CountDownLatch hasEnded = new CountDownLatch(1);
      FutureTask<Boolean> reading =
          onAnother(
              () -> {
                assertTrue(reader.next());
                ColumnarBatch batch = reader.get();
                isRead.countDown();
                hasEnded.await();
                check(batch);
                return assertThrows(SparkRuntimeException.class, reader::next).getMessage().contains("is over");
              });
      isRead.await();
      task.markTaskCompleted(Option.empty());
      reader.close();
      overwrite(address, writer);
      hasEnded.countDown();
      assertTrue(reading.get(LIMIT_S, TimeUnit.SECONDS));
    }
  }

  /** Several times the window, as often as a block that was free would be written. */
  private void overwrite(String address, Writer writer) {
    ReaderOptions options = new ReaderOptions(Role.CLIENT, false, false, 0, 0, "r", null, false, null, 0, null, 0);
    try (Reader others = Reader.open(address, options, soon)) {
      for (int i = 0; i < 40; i++) {
        write(writer, new byte[made.message().length]);
        others.next(soon).close();
      }
    }
  }

  private static void check(ColumnarBatch batch) {
    assertEquals(Blocks.ROWS, batch.numRows());
    for (int i = 0; i < Blocks.ROWS; i++) {
      assertEquals(Blocks.isNull(i), batch.column(0).isNullAt(i));
      if (!Blocks.isNull(i)) {
        assertEquals(i, batch.column(0).getLong(i));
        assertEquals(Blocks.text(i), batch.column(1).getUTF8String(i).toString());
      }
      assertEquals(i % 3, batch.column(2).getArray(i).numElements());
    }
    assertFalse(batch.column(0).isNullAt(0));
  }
}
