package org.lwmq.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** How the time of a wait is cut into slices. */
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
}
