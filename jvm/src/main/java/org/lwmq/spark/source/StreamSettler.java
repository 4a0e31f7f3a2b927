package org.lwmq.spark.source;

import java.util.List;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.lwmq.core.Endpoints;
import org.lwmq.core.LwmqException;
import org.lwmq.core.StreamState;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Settles with endpoints, one after the other, on a thread that goes away when idle. Driver.
 *
 * <p>What cannot be delivered stays unacknowledged: it is logged, and the endpoint, if it lives, keeps the batches.
 */
final class StreamSettler implements LwmqSettlement.Settler {
  private static final Logger LOG = LoggerFactory.getLogger(StreamSettler.class);
  private static final int SETTLE_MS = 2000;
  private static final int IDLE_S = 10;
  private static final int CLOSE_S = 5;

  private final ThreadPoolExecutor thread =
      new ThreadPoolExecutor(
          1, 1, IDLE_S, TimeUnit.SECONDS, new LinkedBlockingQueue<>(),
          work -> {
            Thread made = new Thread(work, "lwmq-settlement");
            made.setDaemon(true);
            return made;
          });

  StreamSettler() {
    thread.allowCoreThreadTimeOut(true);
  }

  @Override
  public void settle(Set<String> uris, List<String> readers, boolean succeeded) {
    thread.execute(() -> uris.forEach(uri -> readers.forEach(reader -> settle(uri, reader, succeeded))));
  }

  /** Ends the endpoints that this driver kept, too: their streams go with the application. */
  @Override
  public void close() {
    thread.shutdown();
    try {
      if (!thread.awaitTermination(CLOSE_S, TimeUnit.SECONDS)) {
        LOG.warn("lwmq: {} settlements were not delivered before the application ended", thread.getQueue().size());
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    Endpoints.closeAll();
  }

  private static void settle(String uri, String reader, boolean succeeded) {
    try {
      StreamState.settle(uri, reader, succeeded, SETTLE_MS);
    } catch (LwmqException e) {
      LOG.info("lwmq: {} was not told that {} has ended: {}", uri, reader, e.getMessage());
    }
  }
}
