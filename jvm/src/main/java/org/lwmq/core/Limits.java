package org.lwmq.core;

/**
 * What an address allows, before it is opened.
 *
 * @param bufferBytesMax of one transport buffer
 * @param buffersMax both directions together
 * @param inlineBytesMax the largest frame that a message holds without an allocation
 * @param lossMs within this time, in milliseconds, a peer that has died is noticed; 0: it cannot die without us
 * @param canShareWindow memory reaches the peer without a copy
 * @param isInProcess both ends in one process: a posted message itself is handed over
 * @param isOneWay who serves posts, who connects receives; what needs both ways is refused with UNSUPPORTED
 */
public record Limits(
    long bufferBytesMax, long buffersMax, long inlineBytesMax, int framesMax, int lossMs, boolean canSend,
    boolean canReceive, boolean canMulticast, boolean canShareWindow, boolean isReliable, boolean isOrdered,
    boolean canErase, boolean isInProcess, boolean isOneWay) {
  /** Never waits. ADDRESS: no provider takes it. */
  public static Limits of(String address) {
    long[] n = Jni.queryLimits(Jni.uri(address));
    long flags = n[4]; // LWMQ_CAN_*, LWMQ_IS_*, from the lowest bit
    return new Limits(
        n[0], n[1], n[2], (int) n[3], (int) n[5], (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0,
        (flags & 8) != 0, (flags & 16) != 0, (flags & 32) != 0, (flags & 64) != 0, (flags & 128) != 0,
        (flags & 256) != 0);
  }
}
