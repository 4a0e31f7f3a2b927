package org.lwmq.spark.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.lwmq.arrow.ArrowSchemas;
import org.lwmq.core.Identity;
import org.lwmq.core.Range;
import org.lwmq.spark.batch.StreamSchema;
import org.lwmq.spark.conf.LwmqReadConf;

/** Scans are values, and what goes to executors can travel. */
class LwmqScanTest {
  private static final StructType COLUMNS = StructType.fromDDL("a int, b string");
  private static final Identity SERVER = new Identity("far.away", "boot", 7, "ab", 1, 2);

  @Test
  void scansOfTheSameBatchesAreEqual() {
    assertEquals(scan("g", 3, COLUMNS, -1).toBatch(), scan("g", 3, COLUMNS, -1).toBatch());
    assertEquals(scan("g", 3, COLUMNS, -1).hashCode(), scan("g", 3, COLUMNS, -1).hashCode());
  }

  @Test
  void scansOfOtherBatchesColumnsOrLimitsAreNot() {
    LwmqScan scan = scan("g", 3, COLUMNS, -1);
    assertNotEquals(scan, scan("h", 3, COLUMNS, -1));
    assertNotEquals(scan, scan("g", 4, COLUMNS, -1));
    assertNotEquals(scan, scan("g", 3, StructType.fromDDL("a int"), -1));
    assertNotEquals(scan, scan("g", 3, COLUMNS, 10));
  }

  @Test
  void partitionsAndFactoriesTravel() throws IOException, ClassNotFoundException {
    LwmqInputPartition partition =
        new LwmqInputPartition("g", SERVER, List.of(new Range(0, 1, Range.END)), new String[] {"host"});
    LwmqInputPartition there = (LwmqInputPartition) travelled(partition);
    assertEquals(partition.ranges(), there.ranges());
    assertEquals(SERVER, there.endpoint());
    LwmqReaderFactory factory = new LwmqReaderFactory(conf(), "app", found(COLUMNS), 10, new byte[] {1});
    assertEquals(found(COLUMNS), ((LwmqReaderFactory) travelled(factory)).columns());
  }

  @Test
  void aTaskOnAnotherHostIsRefusedAndNamesBoth() {
    LwmqInputPartition elsewhere =
        new LwmqInputPartition("00", SERVER, List.of(new Range(0, 0, Range.END)), new String[0]);
    byte[] schema = ArrowSchemas.bytes(StreamSchema.arrow(COLUMNS));
    LwmqReaderFactory factory = new LwmqReaderFactory(conf(), "app", found(COLUMNS), -1, schema);
    Exception refusal = assertThrows(Exception.class, () -> factory.createColumnarReader(elsewhere));
    assertTrue(refusal.getMessage().startsWith("LWMQ_ADDRESS: "), refusal.getMessage());
    assertTrue(refusal.getMessage().contains("is on host far.away"), refusal.getMessage());
    assertTrue(refusal.getMessage().contains("runs on " + Identity.here().host()), refusal.getMessage());
    assertEquals("org.apache.spark.SparkRuntimeException", refusal.getClass().getName());
  }

  private static LwmqScan scan(String generation, long end, StructType columns, int limit) {
    StreamPositions positions =
        new StreamPositions(
            "ipc://x", generation, List.of(new Range(0, 0, end)), true, OptionalLong.of(1), OptionalLong.of(1),
            new byte[0], SERVER);
    return new LwmqScan(columns, found(columns), limit, conf(), positions);
  }

  private static StreamColumns found(StructType columns) {
    return StreamColumns.find(columns, columns, StreamSchema.arrow(columns), "ipc://x");
  }

  private static LwmqReadConf conf() {
    return LwmqReadConf.of(new CaseInsensitiveStringMap(Map.of("path", "ipc://x")));
  }

  private static Object travelled(Object object) throws IOException, ClassNotFoundException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(object);
    }
    try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
      return in.readObject();
    }
  }
}
