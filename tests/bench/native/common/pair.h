/* Two channels of one process that have met. */
#ifndef LWMQ_BENCH_PAIR_H
#define LWMQ_BENCH_PAIR_H

#include <lwmq/lwmq.h>

typedef struct pair {
  lwmq_channel *sender, *receiver;
  lwmq_send_queue* queue; /* of the sender: one thread posts, no bounds */
} pair;

/* At an address of loop://, which nobody else has. */
pair make_pair(const char* address, lwmq_channel_options options);
/* The halves of it, for two threads: each is the home of its own. The sender waits for the receiver. */
void open_receiver(const char* address, lwmq_channel_options options, pair* to);
void open_sender(const char* address, lwmq_channel_options options, pair* to);
/* Waits for the next message, reads all of its one frame and gives it back. Sum of its words. */
uint64_t read_next(const pair* from);

#endif
