package org.lwmq.spark.report;

import java.util.concurrent.TimeUnit;
import org.lwmq.core.Deadline;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Logs the long waits of one task or of one plan, so that nothing waits in silence. Driver and executor; one thread at
 * a time.
 *
 * <p>A wait is logged once, after {@value #AFTER_MS} ms. At least a minute lies between two warnings, so that a stream
 * that is slow by nature does not cause one for every batch.
 */
public final class Notices {
  /** The advice for waits that the option {@code timeout} bounds. */
  public static final String TIMEOUT = "The option timeout bounds this wait";

  private static final Logger LOG = LoggerFactory.getLogger(Notices.class);
  private static final long AFTER_MS = 5_000;
  private static final long PAUSE_NS = TimeUnit.MINUTES.toNanos(1);

  private final String who;
  private final String advice;
  private boolean hasTold;
  private long toldAt;

  /**
   * @param who the one who waits, such as {@code a task that reads ipc://flights, partitions 0, 2}
   * @param advice how the user can bound such a wait
   */
  public Notices(String who, String advice) {
    this.who = who;
    this.advice = advice;
  }

  /** The same deadline, of which long waits are logged. */
  public Deadline of(Deadline deadline) {
    return deadline.watchedBy(AFTER_MS, this::tell);
  }

  private void tell(long waitedMs, String why) {
    long now = System.nanoTime();
    if (hasTold && now - toldAt < PAUSE_NS) {
      return;
    }
    hasTold = true;
    toldAt = now;
    LOG.warn("lwmq: {} has waited for {} s and waits on: {}. {}; `lwmq top` shows who waits for whom",
        who, TimeUnit.MILLISECONDS.toSeconds(waitedMs), why, advice);
  }
}
