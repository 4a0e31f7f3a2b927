package org.lwmq.spark.source;

import java.util.concurrent.TimeUnit;
import org.lwmq.core.Deadline;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the waits of one task, or of one plan, say on the log when they last, so that nothing waits in silence. Driver
 * and executor; one thread at a time.
 *
 * <p>A wait says it once, after {@value #AFTER_MS} ms. A stream that is slow by nature does not say it of every batch:
 * between two warnings lies a minute at least.
 */
final class Notices implements Deadline.Watcher {
  /** The advice for waits that the option of this name bounds. */
  static final String TIMEOUT = "The option timeout bounds this wait";

  private static final Logger LOG = LoggerFactory.getLogger(Notices.class);
  private static final long AFTER_MS = 5_000;
  private static final long PAUSE_NS = TimeUnit.MINUTES.toNanos(1);

  private final String who;
  private final String advice;
  private boolean hasTold;
  private long toldAt;

  /**
   * @param who waits: {@code reading ipc://flights, partitions 0, 2}
   * @param advice how such a wait can be bounded
   */
  Notices(String who, String advice) {
    this.who = who;
    this.advice = advice;
  }

  /** {@code deadline}, whose waits say what they wait for. */
  Deadline of(Deadline deadline) {
    return deadline.watchedBy(AFTER_MS, this);
  }

  @Override
  public String explain(String text) {
    return who + " has given up: " + text + ". " + advice + "; `lwmq top` shows who waits for whom";
  }

  @Override
  public void lasts(long waitedMs, String why) {
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
