package org.lwmq.spark.conf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.lwmq.core.Delivery;
import org.lwmq.core.LwmqException;
import org.lwmq.core.Retain;
import org.lwmq.core.Status;

/** How options are written, and what is said about one that cannot be read. */
class OptionsTest {
  @Test
  void sizesHaveUnits() {
    assertEquals(512, write("bufferBytes", "512").bufferBytes());
    assertEquals(4L << 20, write("bufferBytes", "4MiB").bufferBytes());
    assertEquals(4L << 20, write("bufferBytes", "4m").bufferBytes());
    assertEquals(4_000_000, write("bufferBytes", "4MB").bufferBytes());
    assertEquals(64_000, write("bufferBytes", "64kb").bufferBytes());
    assertEquals(1500, write("bufferBytes", "1.5kB").bufferBytes());
    assertEquals(3L << 29, write("stagingBytes", "1.5GiB").stagingBytes());
    refused("bufferBytes", "4 miles", "is not a size: write 512, 64KiB, 4MiB");
    refused("bufferBytes", "1.5", "a whole number of bytes");
    refused("bufferBytes", "9999999TiB", "at most 9223372036854775807");
  }

  @Test
  void durationsHaveUnitsAndBareNumbersAreSeconds() {
    assertEquals(1500, read("timeout", "1.5").timeoutMs());
    assertEquals(200, read("timeout", "200ms").timeoutMs());
    assertEquals(120_000, read("timeout", "2min").timeoutMs());
    assertEquals(30_000, read("ack", "task").timeoutMs());
    refused("timeout", "soon", "is not a duration: write 100ms, 5s, 2m, 1h");
  }

  @Test
  void wordsAreOneOfTheirKind() {
    assertEquals(Delivery.JOB, write("delivery", "job").delivery());
    assertEquals(Retain.ALL, write("retain", "all").retain());
    assertEquals(Ack.BATCH, read("ack", "BATCH").ack());
    assertTrue(read("trust", "verify").verify());
    refused("delivery", "soon", "none of live, task, job");
    assertEquals(ColumnarWrite.AUTO, write("delivery", "job").columnarWrite());
    assertEquals(ColumnarWrite.TRUE, write("columnarWrite", "true").columnarWrite());
    refused("columnarWrite", "yes", "none of auto, true, false");
    assertEquals(InvalidUtf8.ERROR, write("delivery", "job").invalidUtf8());
    assertEquals(InvalidUtf8.REPLACE, write("invalidUtf8", "Replace").invalidUtf8());
    refused("invalidUtf8", "ignore", "none of error, replace");
    refused("trust", "blind", "none of user, verify");
    refused("partitions", "-1", "is not a count");
    refused("delivery", "jbo", "did you mean 'job'?");
  }

  @Test
  void numbersThatCannotBeAreRefusedWithTheBounds() {
    refused("partitions", "0", "1 to 16384 are possible");
    refused("readers", "0", "1 to 2147483647 are possible");
    refused("writers", "0", "1 to 2147483647 are possible");
    refused("buffers", "0", "1 to 4000 are possible");
    refused("windowBytes", "100TiB", "are possible, for the machine has no more bytes of memory");
  }

  @Test
  void settingsOfAProviderGoWithItsAddress() {
    assertEquals("tcp://h:1?auth=none", write("auth", "none", "tcp://h:1").uri());
    assertEquals("tcp://h:1?stream=s&auth=none", write("ack", "task", "tcp://h:1?auth=none&stream=s").uri());
    assertEquals("ipc://x", write("auth", "none", "ipc://x").uri(), "it takes no such setting");
    CaseInsensitiveStringMap slip = options("auht", "none", "tcp://h:1");
    LwmqException refusal = assertThrows(LwmqException.class, () -> GivenOptions.ofCall(slip));
    assertTrue(refusal.getMessage().endsWith("did you mean auth?"), refusal.getMessage());
  }

  @Test
  void patienceMayHaveNoLimit() {
    assertEquals(0, read("ack", "task").stallMs());
    assertEquals(250, read("stall", "250ms").stallMs());
    assertEquals(-1, read("stall", "forever").stallMs());
    assertEquals(0, write("delivery", "job").expelAfterMs());
    assertEquals(10_000, write("expelAfter", "10s").expelAfterMs());
    assertEquals(2000, write("delivery", "job", "ipc://x?expel_after=2s&stall=1s").expelAfterMs());
    refused("stall", "soon", "is not a duration: write 100ms, 5s, 2m, 1h");
  }

  @Test
  void wordsAreTakenInAnyCase() {
    assertEquals(-1, read("stall", "FOREVER").stallMs());
    assertEquals(Integer.MAX_VALUE, read("timeout", "Forever").timeoutMs());
    assertTrue(read("trust", "VERIFY").verify());
    assertEquals("earliest", read("startingOffsets", "EARLIEST").startingOffsets());
  }

  @Test
  void anOptionThatNobodyKnowsIsRefusedWithTheOneThatIsMeant() {
    assertEquals("ipc://x", GivenOptions.ofCall(options("FailOnDataLoss", "true", "ipc://x")).get("uri"));
    assertUnknown("retian", "did you mean retain?");
    assertUnknown("window_bytes", "did you mean windowBytes?");
    assertUnknown("mergeSchema", "known are uri, path,");
    assertUnknown("failOnDatLos", "did you mean failOnDataLoss?");
  }

  private static void assertUnknown(String name, String hint) {
    LwmqException unknown =
        assertThrows(LwmqException.class, () -> GivenOptions.ofCall(options(name, "1", "ipc://x")));
    assertEquals(Status.INVALID, unknown.status());
    assertTrue(unknown.getMessage().contains(hint), unknown.getMessage());
  }

  @Test
  void aTableOfTheCatalogHasItsOptionsAmongOtherProperties() {
    Map<String, String> properties = new TreeMap<>(Map.of("provider", "lwmq", "owner", "me", "retain", "all"));
    properties.put("path", "file:/warehouse/t");
    CaseInsensitiveStringMap table = GivenOptions.ofTable(new CaseInsensitiveStringMap(properties));
    assertEquals(Map.of("retain", "all"), Map.copyOf(table));
    properties.put("path", "ipc://x");
    table = GivenOptions.ofTable(new CaseInsensitiveStringMap(properties));
    assertEquals("ipc://x", table.get("uri"));
    assertEquals("ipc://y", GivenOptions.over(table, options("ack", "task", "ipc://y")).get("uri"));
  }

  @Test
  void theWindowIsItsBuffers() {
    assertEquals(0, write("delivery", "job").windowBytes());
    assertEquals(8L * (4 << 20), write("buffers", "8").windowBytes());
  }

  @Test
  void anAddressMayBringOptionsOfItsOwn() {
    LwmqWriteConf conf = write("delivery", "live", "ipc://x?buffer_bytes=1MiB&delivery=job&linger=5s");
    assertEquals("ipc://x", conf.uri());
    assertEquals(1 << 20, conf.bufferBytes());
    assertEquals(Delivery.LIVE, conf.delivery());
    LwmqException unknown = assertThrows(LwmqException.class, () -> write("buffers", "1", "ipc://x?speed=high"));
    assertEquals(Status.ADDRESS, unknown.status());
    assertTrue(unknown.getMessage().contains("option 'speed' of 'ipc://x?speed=high' is unknown"), unknown.getMessage());
  }

  @Test
  void anAddressWithASlipIsRefusedWithTheOneThatIsMeant() {
    assertMeant("ipc://x?window_byte=1MiB", "did you mean 'window_bytes'?");
    assertMeant("flights", "did you mean 'ipc://flights'?");
    assertMeant("ipc://a,ipc://b", "a stream has one");
    assertMeant("ipc://x?partitions=0", "1 to 16384 are possible");
  }

  private static void assertMeant(String address, String hint) {
    LwmqException refusal = assertThrows(LwmqException.class, () -> write("buffers", "1", address));
    assertEquals(Status.ADDRESS, refusal.status());
    assertTrue(refusal.getMessage().contains(hint), refusal.getMessage());
  }

  @Test
  void theAddressYieldsToTheOptionAndWinsOverTheDefault() {
    assertTrue(LwmqReadConf.of(options("ack", "task", "ipc://x?trust=verify")).verify());
    assertEquals(2000, LwmqReadConf.of(options("ack", "task", "ipc://x?timeout=2s")).timeoutMs());
    assertEquals(7000, LwmqReadConf.of(options("timeout", "7s", "ipc://x?timeout=2s")).timeoutMs());
  }

  private static LwmqWriteConf write(String name, String value) {
    return write(name, value, "ipc://x");
  }

  private static LwmqWriteConf write(String name, String value, String uri) {
    return LwmqWriteConf.of(options(name, value, uri));
  }

  private static LwmqReadConf read(String name, String value) {
    return LwmqReadConf.of(options(name, value, "ipc://x"));
  }

  private static CaseInsensitiveStringMap options(String name, String value, String uri) {
    return new CaseInsensitiveStringMap(new TreeMap<>(Map.of("uri", uri, name, value)));
  }

  private static void refused(String name, String value, String wanted) {
    LwmqException refusal =
        assertThrows(
            LwmqException.class,
            () -> {
              write(name, value);
              read(name, value);
            });
    assertEquals(Status.INVALID, refusal.status());
    assertTrue(refusal.getMessage().contains("option " + name + ": '" + value + "' is "), refusal.getMessage());
    assertTrue(refusal.getMessage().contains(wanted), refusal.getMessage());
  }
}
