package org.lwmq.core;

import java.nio.ByteBuffer;

/**
 * A frame of the application's own memory, alive while the library holds it: until the last message that shows it is gone.
 *
 * @param memory where it lies
 * @param released what to run then
 */
record ExternalFrame(ByteBuffer memory, Runnable released) {
  private static final System.Logger LOG = System.getLogger(ExternalFrame.class.getName());

  private static Thread thread; // lives on, and keeps our class loader

  /** Before the first one is lent. */
  static synchronized void serveAll() {
    if (thread == null || !thread.isAlive()) {
      Thread made = new Thread(ExternalFrame::serve, "lwmq-frames");
      made.setDaemon(true);
      made.start();
      thread = made;
    }
  }

  private static void serve() {
    while (true) {
      try {
        Jni.takeReleased().released.run();
      } catch (Throwable e) { // whatever it is: others wait for theirs
        LOG.log(System.Logger.Level.ERROR, "lwmq: what was to run at the release of a frame has failed", e);
      }
    }
  }
}
