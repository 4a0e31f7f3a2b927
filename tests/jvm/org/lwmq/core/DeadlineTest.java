package org.lwmq.core;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** How the time of a wait is cut into slices, and what is said when it is over. */
class DeadlineTest {
  /** A call that is given 0 does not wait and says EMPTY, where the caller asked for a wait. */
  @Test
  void theLastSliceIsNotZeroWhileThereIsTime() {
    for (int i = 0; i < 50; i++) {
      Deadline deadline = Deadline.after(2);
      LwmqException late = assertThrows(
          LwmqException.class,
          () -> deadline.await("nothing", slice -> {
            assertTrue(slice > 0 || deadline.isOver(), "a slice of 0 with time left");
            throw new LwmqException(Status.TIMED_OUT, "nothing");
          }));
      assertEquals(Status.TIMED_OUT, late.status());
    }
  }

  @Test
  void eachReasonToStopCounts() {
    Deadline first = Deadline.after(10_000).cancelledBy(() -> true).cancelledBy(() -> false);
    LwmqException end = assertThrows(LwmqException.class, () -> first.checkCancelled("waiting"));
    assertEquals(Status.INTERRUPTED, end.status());
    assertThrows(NullPointerException.class, () -> Deadline.never().cancelledBy(null));
  }

  /** As long a wait as seven slices would take. */
  private static List<Integer> slices(boolean isLong) {
    List<Integer> asked = new ArrayList<>();
    Deadline.Call<String> call =
        slice -> {
          asked.add(slice);
          if (asked.size() < 7) {
            throw new LwmqException(Status.TIMED_OUT.code(), new byte[0]);
          }
          return "came";
        };
    Deadline never = Deadline.never();
    assertEquals("came", isLong ? never.awaitInLongSlices("nothing", call) : never.await("nothing", call));
    return asked;
  }

  @Test
  void anInterruptIsNoticedWithinASliceHoweverLongTheWait() {
    assertEquals(List.of(200, 200, 200, 200, 200, 200, 200), slices(false));
    assertEquals(List.of(200, 400, 800, 1600, 1600, 1600, 1600), slices(true));
  }

  @Test
  void aTimeOutWithoutATextSaysWhatWasWaitedForAndHowLong() {
    for (Status answer : List.of(Status.TIMED_OUT, Status.EMPTY, Status.FULL)) {
      LwmqException late = assertThrows(
          LwmqException.class,
          () -> Deadline.after(0).await("waiting for a bus at loop://stop", slice -> {
            throw new LwmqException(answer.code(), new byte[0]);
          }));
      assertEquals(Status.TIMED_OUT, late.status());
      assertTrue(
          late.getMessage().matches("the time was over waiting for a bus at loop://stop, after \\d+ ms"),
          late.getMessage());
    }
  }

  @Test
  void aTimeOutKeepsATextOfItsOwnAndSaysHowLongWasWaited() {
    LwmqException late = assertThrows(
        LwmqException.class,
        () -> Deadline.after(0).await("nothing", slice -> {
          throw new LwmqException(Status.TIMED_OUT.code(), "readers hold 3 batches".getBytes(UTF_8));
        }));
    assertTrue(late.getMessage().matches("readers hold 3 batches \\(waited \\d+ ms\\)"), late.getMessage());
  }

  @Test
  void eachWaitThatLastsIsToldOnceWithWhatItWaitsFor() {
    List<String> told = new ArrayList<>();
    Deadline deadline = Deadline.never().watchedBy(0, (waitedMs, why) -> told.add(why)).cancelledBy(() -> false);
    for (LwmqException answer : List.of(
        new LwmqException(Status.TIMED_OUT, "no batch has come"), new LwmqException(Status.TIMED_OUT.code(), new byte[0]))) {
      int[] left = {3};
      deadline.awaitDone("waiting for a batch", slice -> {
        if (--left[0] >= 0) {
          throw answer;
        }
      });
    }
    assertEquals(List.of("no batch has come", "waiting for a batch"), told);
  }

  @Test
  void aWaitThatDoesNotLastIsNotTold() {
    Deadline deadline = Deadline.after(1).watchedBy(60_000, (waitedMs, why) -> {
      throw new AssertionError(why);
    });
    Deadline.Call<String> call = slice -> {
      throw new LwmqException(Status.TIMED_OUT, "no batch has come");
    };
    assertThrows(LwmqException.class, () -> deadline.await("waiting for a batch", call));
  }

  @Test
  void theLongestDeadlineIsNotOverAtOnce() {
    assertEquals(Deadline.SLICE_MS, Deadline.after(Long.MAX_VALUE).slice(Deadline.SLICE_MS));
    assertEquals(0, Deadline.after(Long.MIN_VALUE).slice(Deadline.SLICE_MS));
  }
}
