package org.lwmq.spark.read;

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
import org.lwmq.spark.conf.TaskAddress;

/** Scans are values, and what goes to executors can travel. */
class LwmqScanTest {
  private static final StructType COLUMNS = StructType.fromDDL("a int, b string");
  private static final Identity SERVER = new Identity("far.away", "boot", 7, "ab", 1, 2);
  private static final TaskAddress WHERE = new TaskAddress(List.of("ipc://x", "tcp://far.away:7000/x"), SERVER);

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
        new LwmqInputPartition("g", WHERE, List.of(new Range(0, 1, Range.END)), new String[] {"host"});
    LwmqInputPartition there = (LwmqInputPartition) travelled(partition);
    assertEquals(partition.ranges(), there.ranges());
    assertEquals(WHERE, there.where());
    LwmqReaderFactory factory = new LwmqReaderFactory(conf(), "app", found(COLUMNS), 10, List.of(), new byte[] {1});
    assertEquals(found(COLUMNS), ((LwmqReaderFactory) travelled(factory)).columns());
  }

  @Test
  void aTaskOnAnotherHostIsRefusedAndNamesBoth() {
    String refusal = refusal("ipc://x", SERVER);
    assertTrue(refusal.contains("is on host far.away"), refusal);
    assertTrue(refusal.contains("runs on " + Identity.here().host()), refusal);
    assertTrue(refusal.contains("such as tcp://far.away:7000/name"), refusal);
  }

  @Test
  void aTaskOnAnotherHostReachesAnAddressOfANetwork() {
    String address = "tcp://192.0.2.1:7000/x";
    assertEquals(address, new TaskAddress(List.of(address), SERVER).reach());
  }

  @Test
  void aTaskIsRefusedWhereItsAddressDoesNotReach() {
    Identity here = Identity.here();
    Identity process = new Identity(here.host(), here.bootId(), here.netns(), "ab", 7, here.uid());
    Identity network = new Identity(here.host(), here.bootId(), here.netns() + 1, here.instance(), 7, here.uid());
    String ofProcess = refusal("loop://x", process);
    assertTrue(ofProcess.contains("the address reaches one process only"), ofProcess);
    String ofNetwork = refusal("ipc://x", network);
    assertTrue(ofNetwork.contains("is served in network namespace " + network.netns()), ofNetwork);
    String ofNobody = refusal("ipc:///tmp/lwmq-scan-test-" + here.pid(), network);
    assertTrue(ofNobody.startsWith("LWMQ_DATA_LOSS"), "a socket file is reached, and nobody serves it: " + ofNobody);
  }

  private static String refusal(String uri, Identity endpoint) {
    LwmqInputPartition elsewhere =
        new LwmqInputPartition(
            "00", new TaskAddress(List.of(uri), endpoint), List.of(new Range(0, 0, Range.END)), new String[0]);
    byte[] schema = ArrowSchemas.bytes(StreamSchema.declared(COLUMNS, null, null));
    LwmqReaderFactory factory = new LwmqReaderFactory(conf(uri), "app", found(COLUMNS), -1, List.of(), schema);
    Exception refusal = assertThrows(Exception.class, () -> factory.createColumnarReader(elsewhere));
    assertEquals("org.apache.spark.SparkRuntimeException", refusal.getClass().getName());
    assertTrue(refusal.getMessage().startsWith("LWMQ_"), refusal.getMessage());
    return refusal.getMessage();
  }

  private static LwmqScan scan(String generation, long end, StructType columns, int limit) {
    StreamPositions positions =
        new StreamPositions(
            "ipc://x", generation, List.of(new Range(0, 0, end)), true, OptionalLong.of(1), OptionalLong.of(1),
            new byte[0], WHERE);
    return new LwmqScan(columns, found(columns), limit, List.of(), conf(), positions);
  }

  private static StreamColumns found(StructType columns) {
    return StreamColumns.find(columns, columns, StreamSchema.declared(columns, null, null), "ipc://x");
  }

  private static LwmqReadConf conf() {
    return conf("ipc://x");
  }

  private static LwmqReadConf conf(String uri) {
    return LwmqReadConf.of(new CaseInsensitiveStringMap(Map.of("path", uri)));
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
