/* libzmq from the pyzmq wheel, opened at run time; LWMQ_BENCH_ZMQ is its path. */
#ifndef LWMQ_BENCH_ZMQ_H
#define LWMQ_BENCH_ZMQ_H

#include <stddef.h>

enum { kZmqPair = 0, kZmqLinger = 17, kZmqSendMark = 23, kZmqReceiveMark = 24, kZmqDontWait = 1 };

typedef struct zmq_calls {
  void* (*ctx_new)(void);
  int (*ctx_term)(void*);
  void* (*socket)(void*, int);
  int (*bind)(void*, const char*);
  int (*connect)(void*, const char*);
  int (*send)(void*, const void*, size_t, int);
  int (*recv)(void*, void*, size_t, int);
  int (*close)(void*);
  int (*setsockopt)(void*, int, const void*, size_t);
} zmq_calls;

zmq_calls load_zmq(void);

#endif
