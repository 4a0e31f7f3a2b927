package org.lwmq.spark.source;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.lwmq.arrow.ArrowSchemas;
import org.lwmq.core.Deadline;
import org.lwmq.core.Endpoint;
import org.lwmq.core.Writer;
import org.lwmq.core.WriterOptions;
import org.lwmq.spark.batch.StreamSchema;

/** A table is asked by any threads. */
class LwmqTableTest {
  private static final StructType COLUMNS = StructType.fromDDL("a int");
  private static final int SCANS = 60;

  private static LwmqTable table(String address) {
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(Map.of("uri", address));
    return new LwmqTable(COLUMNS, options, Map.of("provider", "lwmq"), null);
  }

  private static void scan(LwmqTable table, int i) {
    table.newScanBuilder(new CaseInsensitiveStringMap(Map.of("timeout", 60_000 + i + "ms")));
  }

  @Test
  void tablesAreComparedWhileScansOfThemAreMade() throws Exception {
    String address = "loop://table-compared";
    byte[] schema = ArrowSchemas.bytes(StreamSchema.arrow(COLUMNS));
    try (Endpoint endpoint = Endpoint.open(address);
        Writer writer = Writer.open(address, schema, WriterOptions.client(), Deadline.after(60_000))) {
      assertEquals(address, endpoint.address());
      assertTrue(writer.isOpen());
      LwmqTable one = table(address);
      LwmqTable other = table(address);
      assertEquals(one, other);
      scan(one, 0);
      assertEquals(one, other); // a scan does not change what a table is
      scan(other, 0);
      CompletableFuture<Void> scans =
          CompletableFuture.runAsync(
              () -> {
                for (int i = 1; i <= SCANS; i++) {
                  scan(one, i);
                  scan(other, i);
                }
              });
      while (!scans.isDone()) {
        one.equals(other);
      }
      scans.get(60, TimeUnit.SECONDS);
      assertEquals(one, other);
    }
  }
}
