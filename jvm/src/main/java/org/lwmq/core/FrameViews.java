package org.lwmq.core;

import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Views of frames, each of which keeps a reference of its message. Only the garbage collector knows when nobody holds one
 * any more, and it does not see the memory behind them: so it is asked to look when they keep much. Any thread.
 */
final class FrameViews {
  private static final long KEPT_BYTES_MAX = 256L << 20;

  private static final AtomicLong KEPT_BYTES = new AtomicLong();

  /** At how many it is asked: where much is held in earnest, at twice that. A lost update is a look more, or less. */
  private static volatile long dueBytes = KEPT_BYTES_MAX;

  private FrameViews() {}

  /** Errors as of {@link Message#frame}. */
  static ByteBuffer of(long message, int index) {
    long kept = Jni.messageReference(message);
    ByteBuffer view;
    try {
      view = Jni.messageFrame(kept, index);
    } catch (LwmqException e) {
      Jni.messageDestroy(kept);
      throw e;
    }
    long bytes = Jni.messageBytes(kept);
    Handle.CLEANER.register(view, () -> leave(kept, bytes));
    long all = KEPT_BYTES.addAndGet(bytes);
    if (all > dueBytes) {
      dueBytes = 2 * all;
      System.gc();
    }
    return view.asReadOnlyBuffer();
  }

  private static void leave(long kept, long bytes) {
    Jni.messageDestroy(kept);
    if (KEPT_BYTES.addAndGet(-bytes) < KEPT_BYTES_MAX / 2) {
      dueBytes = KEPT_BYTES_MAX;
    }
  }
}
