package org.lwmq.core;

import java.util.ArrayList;
import java.util.List;

/**
 * The received buffers of a raw channel that are lent. They may go back behind its close, and until the last one has, the
 * native channel is not destroyed: it would leave them mapped for the life of the process. Any thread.
 */
final class RawLoans {
  private final List<long[]> late = new ArrayList<>(); // came back while the channel closed
  private int lent;
  private long closed; // the native channel, once nobody but us has it

  synchronized void lend() {
    lent++;
  }

  /** Takes what {@link #lend} has counted. */
  void giveBack(Handle channel, long[] buffer) {
    try {
      channel.run(c -> Jni.rawDisposeBuffer(c, buffer));
    } catch (LwmqException e) {
      if (e.status() != Status.CLOSED) {
        throw e;
      }
      giveBackBehindClose(buffer);
      return;
    }
    synchronized (this) {
      lent--;
      if (closed != 0) { // in between
        destroy(closed);
      }
    }
  }

  private synchronized void giveBackBehindClose(long[] buffer) {
    lent--;
    late.add(buffer);
    if (closed != 0) {
      destroy(closed);
    }
  }

  /** Takes {@code channel}, which is closed. */
  synchronized void destroy(long channel) {
    late.forEach(buffer -> Jni.rawDisposeBuffer(channel, buffer));
    late.clear();
    closed = channel;
    if (lent == 0) {
      closed = 0;
      Jni.channelDestroy(channel);
    }
  }
}
