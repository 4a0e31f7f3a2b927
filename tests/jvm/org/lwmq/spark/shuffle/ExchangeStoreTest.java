package org.lwmq.spark.shuffle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import org.apache.spark.SparkConf;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class ExchangeStoreTest {
  private final ExchangeStore store = new ExchangeStore(new SparkConf(false).set("spark.lwmq.exchange.memory", "64m"));

  @AfterEach
  void close() {
    store.close();
  }

  private MapOutput output() {
    MapOutput output = new MapOutput(store.memory(), 1);
    output.add(0, store.memory().allocate(100), 100);
    return output;
  }

  private long used() {
    return store.memory().figures().get("used.bytes");
  }

  @Test
  void anOutputIsThereUntilItsShuffleEndsAndItsReadersToo() {
    store.add(3, 17, output());
    MapOutput held = store.find(3, 17);
    store.remove(3);
    assertNull(store.find(3, 17));
    assertEquals(held.pieces(0).get(0).block().size(), used());
    held.release();
    assertEquals(0, used());
  }

  @Test
  void anOutputThatComesAfterTheEndOfItsShuffleIsReleased() {
    store.remove(3);
    store.add(3, 17, output());
    assertEquals(0, used());
    store.add(4, 17, output());
    assertEquals(0, store.find(4, 17).pieces(0).get(0).offset());
  }
}
