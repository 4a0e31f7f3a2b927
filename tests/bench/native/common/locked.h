/* A list under a mutex, its nodes from malloc: what one writes who needs a queue between threads. */
#ifndef LWMQ_BENCH_LOCKED_H
#define LWMQ_BENCH_LOCKED_H

#include <stddef.h>
#include <stdint.h>

/* Any thread: a copy of `bytes` bytes at the end of the one list of the process. */
void locked_put(const void* data, size_t bytes);
/* Any thread, where something is in it: takes the first, of `bytes` bytes. Sum of its words. */
uint64_t locked_take(size_t bytes);

#endif
