package org.lwmq.spark.read;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.spark.scheduler.JobFailed;
import org.apache.spark.scheduler.JobResult;
import org.apache.spark.scheduler.JobSucceeded$;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.junit.jupiter.api.Test;
import scala.Option;
import scala.collection.immutable.List$;

/** Which executions count as succeeded, and when that is said. */
class LwmqSettlementTest {
  private final List<String> told = new ArrayList<>();
  private boolean isGone;

  private final LwmqSettlement settlement =
      new LwmqSettlement(
          "app",
          new LwmqSettlement.Settler() {
            @Override
            public void settle(
                Supplier<List<String>> uris, List<String> readers, boolean succeeded, Consumer<String> gone) {
              uris.get().forEach(uri -> told.add(uri + " " + readers + " " + succeeded));
              if (isGone) {
                uris.get().forEach(gone);
              }
            }

            @Override
            public void close() {
              told.add("closed");
            }
          });

  LwmqSettlementTest() {
    settlement.watch("ipc://a");
  }

  @Test
  void anExecutionIsOverAtItsOwnEnd() {
    start(1, "5");
    end(1, true);
    assertTrue(told.isEmpty());
    executed(5, "");
    assertEquals(List.of("ipc://a [spark/app/5] true"), told);
  }

  @Test
  void anExecutionIsNotOverWhileOneOfItsJobsRuns() {
    start(1, "5");
    start(2, "5");
    end(1, true);
    executed(5, "");
    assertTrue(told.isEmpty());
    end(2, true);
    assertEquals(List.of("ipc://a [spark/app/5] true"), told);
  }

  @Test
  void aFailedExecutionAcknowledgesNothing() {
    start(1, "5");
    end(1, false);
    executed(5, "it went wrong");
    assertEquals(List.of("ipc://a [spark/app/5] false"), told);
  }

  @Test
  void aJobThatAdaptiveExecutionCancelsDoesNotFailItsExecution() {
    start(1, "5");
    end(1, false);
    executed(5, "");
    assertEquals(List.of("ipc://a [spark/app/5] true"), told);
  }

  @Test
  void anExecutionWithinAnotherSettlesNothing() {
    start(1, "5");
    executed(6, "");
    assertTrue(told.isEmpty());
  }

  @Test
  void aJobAfterTheEndOfItsExecutionSpeaksForItself() {
    executed(5, "");
    start(1, "5");
    end(1, true);
    start(2, "5");
    end(2, false);
    assertEquals(List.of("ipc://a [spark/app/5] true", "ipc://a [spark/app/5] false"), told);
  }

  @Test
  void whoIsGoneIsNotAskedAgain() {
    isGone = true;
    executed(5, "");
    start(1, "5");
    end(1, true);
    start(2, "5");
    end(2, true);
    assertEquals(1, told.size());
  }

  @Test
  void whoWasReadLastHearsFirst() {
    settlement.watch("ipc://b");
    executed(5, "");
    start(1, "5");
    end(1, true);
    assertEquals(List.of("ipc://b [spark/app/5] true", "ipc://a [spark/app/5] true"), told);
  }

  private void start(int job, String root) {
    Properties properties = new Properties();
    properties.setProperty("spark.sql.execution.root.id", root);
    scala.collection.immutable.Seq<StageInfo> stages = List$.MODULE$.<StageInfo>empty();
    settlement.onJobStart(new SparkListenerJobStart(job, 0, stages, properties));
  }

  private void end(int job, boolean succeeded) {
    JobResult result = succeeded ? JobSucceeded$.MODULE$ : new JobFailed(new IllegalStateException("no"));
    settlement.onJobEnd(new SparkListenerJobEnd(job, 0, result));
  }

  private void executed(long id, String error) {
    settlement.onOtherEvent(new SparkListenerSQLExecutionEnd(id, 0, Option.apply(error), Option.empty()));
  }
}
