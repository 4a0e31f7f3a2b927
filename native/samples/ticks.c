/* Millions of small messages: posted many with one call, and read where they landed. A loan holds what has
 * come until the next receive; nothing is copied out of the peer's buffers, and nothing is to be destroyed.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kTogether = 100, kWaitMs = 10000 };
static const uint64_t kTicks = 1000000;

typedef struct tick {
  uint64_t number;
  double price;
} tick;

/* A ring of 4 MiB: more than a core's own cache, so that both sides seldom ask for one line at a time. */
static const lwmq_channel_options kOptions = {
    .size = sizeof kOptions, .buffer_bytes = 64 << 10, .buffers_send = 64, .home_thread = 1};

static int quote(const char* address) {
  lwmq_channel* channel;
  lwmq_send_queue* queue;
  CHECK(lwmq_channel_create(address, &kOptions, &channel));
  CHECK(lwmq_channel_add_send_queue(channel, NULL, &queue));
  CHECK(lwmq_channel_open(channel, LWMQ_ROLE_SERVER));
  tick ticks[kTogether];
  lwmq_bytes frames[kTogether];
  for (uint64_t i = 0; i < kTogether; ++i) frames[i] = (lwmq_bytes){&ticks[i], sizeof ticks[i]};
  for (uint64_t number = 0; number < kTicks; number += kTogether) {
    for (uint64_t i = 0; i < kTogether; ++i) ticks[i] = (tick){number + i, 100.0 + (double)(i % 7)};
    uint64_t posted;
    CHECK(lwmq_send_queue_post_many(queue, frames, kTogether, &posted));  /* copied: ours again */
    if (number % 10000 == 0) CHECK(lwmq_channel_flush(channel, kWaitMs)); /* no further ahead than that */
  }
  CHECK(lwmq_channel_close(channel, kWaitMs));
  lwmq_channel_destroy(channel);
  return 0;
}

int main(void) {
  char address[64];
  snprintf(address, sizeof address, "ipc://ticks-%d", (int)getpid());
  const pid_t quoting = fork(); /* before the library is used */
  if (quoting == 0) return quote(address);

  lwmq_channel* channel;
  lwmq_loan* loan;
  CHECK(lwmq_channel_create(address, &kOptions, &channel));
  CHECK(lwmq_channel_open(channel, LWMQ_ROLE_CLIENT));
  CHECK(lwmq_loan_create(256, &loan));
  uint64_t seen = 0;
  double highest = 0;
  while (seen < kTicks) {
    const lwmq_lent* lent;
    uint32_t count;
    CHECK(lwmq_channel_receive_loan(channel, kWaitMs, loan, &lent, &count));
    for (uint32_t i = 0; i < count; ++i) {
      tick one;
      if (lent[i].bytes != sizeof one) exit(3);
      memcpy(&one, lent[i].data, sizeof one); /* it is 8-byte aligned, and may be read in place as well */
      if (one.number != seen++) exit(4);
      if (one.price > highest) highest = one.price;
    }
  }
  lwmq_loan_destroy(loan);
  lwmq_channel_destroy(channel);
  int status = 0;
  waitpid(quoting, &status, 0);
  printf("%llu ticks, the highest %.0f\n", (unsigned long long)seen, highest);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 5;
}
