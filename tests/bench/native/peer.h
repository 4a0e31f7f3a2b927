/* What every peer of the native benchmark looks like: two processes, one conversation, whole messages.
 *
 * The same work for all: the sender copies the payload from its own memory into the message (or the peer
 * does), the receiver reads every byte of it. But for those named `-built`, whose sender makes it in the
 * message, and for those named `-handed`: their buffers were written before the run, and nobody touches
 * them. */
#ifndef LWMQ_BENCH_PEER_H
#define LWMQ_BENCH_PEER_H

#include "common.h"

typedef struct peer {
  const char* name;
  /* `server` is 1 in the process that was started first. Ends the process with a text on failure. */
  void (*open)(const char* address, int server, size_t bytes);
  /* Sends `bytes` bytes, which stay as they are until it is closed; waits for room. */
  void (*send)(const void* data, size_t bytes);
  /* Waits for the next message, reads every byte of it and returns their sum: a result that cannot be
     optimised away. Handed over: the sum that an ordinary message of that length has. */
  uint64_t (*receive)(size_t bytes);
  void (*close)(void);
  /* Where it can: the same for `count` of them, and for as many as have come (at most kMany), of which it
     returns the sum of all. */
  void (*send_many)(const void* data, size_t bytes, size_t count);
  uint64_t (*receive_many)(size_t bytes, size_t* out_count);
  int untouched; /* whether nobody touches what is handed over */
} peer;

enum { kMany = 128 };

extern const peer kFloor, kFloorBuilt, kFloorHanded, kFloorPieces, kFutex, kLwmq, kLwmqBuilt, kLwmqMany,
    kLwmqLent, kLwmqEachLent, kLwmqHanded, kLwmqPieces, kLwmqTcp, kLwmqTcpUring, kLwmqTcpMany, kLwmqTcps,
    kUnixSocket, kTcpSocket, kTcpCrc, kTcpCrcBuilt, kLwmqTcpBuilt, kTcpGcm, kZeroMq, kZeroMqTcp, kPosixQueue;

/* Of the peers named `-pieces`, which send one message of a multiple of kPiece as a sequence of so many bytes
 * each, through kPieceRing: the reader is in one while the writer is in the next. */
enum { kPiece = 64 << 10, kPieceRing = 2 << 20 };

/* What `data` says, made anew at `at`. */
static inline void build(void* at, const void* data, size_t bytes) {
  uint64_t* const words = at;
  for (size_t i = 0; i < bytes / 8; ++i) words[i] = 1;
  words[0] = *(const uint64_t*)data;
}

/* The port at loopback that stands for an address, for the peers named `-tcp`. */
static inline int port_of(const char* address) {
  unsigned hash = 5381;
  for (const char* at = address; *at != '\0'; ++at) hash = hash * 33 + (unsigned char)*at;
  return 20000 + (int)(hash % 10000);
}

/* Each way, whatever their size: what does not depend on it shall not depend on their number. */
enum { kHandedBuffers = 16 };
/* A buffer that is handed over says by its length what a message says by its first word. */
static inline size_t handed_bytes(const void* data, size_t bytes) {
  return *(const uint64_t*)data == kStop ? bytes - 8 : bytes;
}

#endif
