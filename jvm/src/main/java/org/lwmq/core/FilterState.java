package org.lwmq.core;

/**
 * One filter of a channel and what it has done: extents of both ways, over all its peers.
 *
 * @param settings cut at 255 bytes
 * @param sourced of its own
 * @param held now
 * @param failed extents on which it could not do its work
 * @param timed extents whose time it has measured: {@link Channel#latencyNs}
 */
public record FilterState(
    String name, String settings, long seen, long dropped, long changed, long sourced, long held, long failed,
    long timed) {}
