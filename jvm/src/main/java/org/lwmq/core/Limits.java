package org.lwmq.core;

/**
 * What an address allows, before it is opened.
 *
 * @param bufferBytesMax of one transport buffer
 * @param buffersMax of both directions together
 * @param inlineBytesMax the largest frame that a message holds without an allocation
 * @param canShareWindow memory reaches the peer without a copy
 * @param isInProcess both ends are in one process, and a posted message itself is handed over
 * @param isOneWay the server posts and its clients receive; UNSUPPORTED for calls that need both ways
 * @param isInNetwork the address means something else in another network namespace
 * @param registeredBytesMax how many bytes this process may now register with the device of the address (RDMA);
 *     {@code Long.MAX_VALUE}: no limit of the process
 * @param regionsMax how many regions of memory that device registers, for all processes together. Both are 0 where
 *     nothing is registered or the device is not known
 * @param lossMs after that time a peer whose host gives no sign of life is lost, unless the address says otherwise
 *     ({@code silent}); 0: the kernel reports it at once
 */
public record Limits(
    long bufferBytesMax, long buffersMax, long inlineBytesMax, int framesMax, boolean canSend, boolean canReceive,
    boolean canMulticast, boolean canShareWindow, boolean isReliable, boolean isOrdered, boolean canErase,
    boolean isInProcess, boolean isOneWay, boolean isInNetwork, long registeredBytesMax, long regionsMax, long lossMs) {
  /** Never waits. ADDRESS: no provider takes it. */
  public static Limits of(String address) {
    long[] n = Jni.queryLimits(Jni.uri(address));
    long flags = n[4]; // LWMQ_CAN_*, LWMQ_IS_*, from the lowest bit
    return new Limits(
        n[0], n[1], n[2], (int) n[3], (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0,
        (flags & 16) != 0, (flags & 32) != 0, (flags & 64) != 0, (flags & 128) != 0, (flags & 256) != 0,
        (flags & 512) != 0, n[5] < 0 ? Long.MAX_VALUE : n[5], n[6], n[7]);
  }
}
