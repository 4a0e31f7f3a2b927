/* What every peer of the native benchmark looks like: two processes, one conversation, whole messages.
 *
 * The same work for all: the sender copies the payload from its own memory into the message (or the peer
 * does), the receiver reads every byte of it. */
#ifndef LWMQ_BENCH_PEER_H
#define LWMQ_BENCH_PEER_H

#include "common.h"

typedef struct peer {
  const char* name;
  /* `server` is 1 in the process that was started first. Ends the process with a text on failure. */
  void (*open)(const char* address, int server, size_t bytes);
  /* Sends `bytes` bytes; waits for room. */
  void (*send)(const void* data, size_t bytes);
  /* Waits for the next message, reads every byte of it and returns their sum: a result that cannot be
     optimised away. */
  uint64_t (*receive)(size_t bytes);
  void (*close)(void);
} peer;

extern const peer kFloor, kFutex, kLwmq, kLwmqMany, kUnixSocket, kZeroMq, kPosixQueue;

#endif
