package org.lwmq.spark.write;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Iterator;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.junit.jupiter.api.Test;

// rows: P28
class PromptRowsTest {
  private static final InternalRow ROW = new GenericInternalRow(new Object[0]);

  /** A row that does not come before {@code latch} opens. */
  private static Iterator<InternalRow> behind(CountDownLatch latch) {
    return IntStream.range(0, 1).mapToObj(
        i -> {
          try {
            latch.await();
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
          return ROW;
        }).iterator();
  }

  @Test
  void rowsArePublishedWhileTheInputWaits() {
    CountDownLatch published = new CountDownLatch(1);
    try (PromptRows rows = new PromptRows(published::countDown)) {
      Iterator<InternalRow> input = behind(published);
      assertSame(ROW, rows.next(input));
      assertNull(rows.next(input));
    }
  }

  @Test
  void aFailureToPublishIsTheTasks() {
    CountDownLatch called = new CountDownLatch(1);
    RuntimeException lost = new RuntimeException("the endpoint is gone");
    try (PromptRows rows = new PromptRows(
        () -> {
          called.countDown();
          throw lost;
        })) {
      assertSame(lost, assertThrows(RuntimeException.class, () -> rows.next(behind(called))));
    }
  }

  /** The counter has no protection of its own: what both threads did to it at once would be lost. */
  @Test
  void theTaskAndTheTimerNeverWriteAtOnce() {
    int[] count = {0};
    AtomicInteger byTimer = new AtomicInteger();
    int rowsToCome = 300;
    Iterator<InternalRow> slow = IntStream.range(0, rowsToCome).mapToObj(
        i -> {
          try {
            Thread.sleep(1);
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
          return ROW;
        }).iterator();
    try (PromptRows rows = new PromptRows(
        () -> {
          count[0]++;
          byTimer.incrementAndGet();
        })) {
      while (rows.next(slow) != null) {
        count[0]++;
      }
    }
    assertEquals(rowsToCome + byTimer.get(), count[0]);
  }
}
