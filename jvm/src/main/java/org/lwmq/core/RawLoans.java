package org.lwmq.core;

import java.util.ArrayList;
import java.util.List;

/**
 * The buffers of a raw channel that are lent. They may go back behind its close, and until the last one has, the native
 * channel is not destroyed: it would leave them mapped for the life of the process. Any thread.
 */
final class RawLoans {
  private final List<Returned> late = new ArrayList<>(); // came back while the channel closed
  private int lent;
  private long closed; // the native channel, once nobody but us has it

  /** A buffer that goes back: disposed of where it was received, else abandoned. */
  private record Returned(boolean isReceived, long[] buffer) {
    void to(long channel) {
      if (isReceived) {
        Jni.rawDisposeBuffer(channel, buffer);
      } else {
        Jni.rawAbandonBuffer(channel, buffer);
      }
    }
  }

  synchronized void lend() {
    lent++;
  }

  /** Takes what {@link #lend} has counted. */
  void giveBack(Handle channel, boolean isReceived, long[] buffer) {
    Returned returned = new Returned(isReceived, buffer);
    try {
      channel.run(returned::to);
    } catch (LwmqException e) {
      if (e.status() != Status.CLOSED) {
        throw e;
      }
      giveBackBehindClose(returned);
      return;
    }
    settle();
  }

  /** Takes what {@link #lend} has counted, whatever comes of it. */
  void send(Handle channel, long[] buffer) {
    try {
      channel.run(c -> Jni.rawSendBuffer(c, buffer));
    } catch (LwmqException e) {
      if (e.status() == Status.CLOSED) {
        giveBackBehindClose(new Returned(false, buffer));
      } else {
        settle();
      }
      throw e;
    }
    settle();
  }

  private synchronized void giveBackBehindClose(Returned returned) {
    late.add(returned);
    settle();
  }

  private synchronized void settle() {
    lent--;
    if (closed != 0) { // in between, or before
      destroy(closed);
    }
  }

  /** Takes {@code channel}, which is closed. */
  synchronized void destroy(long channel) {
    late.forEach(returned -> returned.to(channel));
    late.clear();
    closed = channel;
    if (lent == 0) {
      closed = 0;
      Jni.channelDestroy(channel);
    }
  }
}
