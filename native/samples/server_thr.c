/* The receiving end of a throughput measurement: times COUNT messages from the first one on, and says how
 * many came in a second. See client_thr.c. */
#include "thr.h"

enum { kTogether = 256 };

/* The next messages; how many. */
static uint64_t receive_some(lwmq_channel* channel, lwmq_loan* loan, const task* asked, uint32_t timeout_ms) {
  const lwmq_lent* lent;
  uint32_t count;
  CHECK(lwmq_channel_receive_loan(channel, timeout_ms, loan, &lent, &count));
  for (uint32_t i = 0; i < count; ++i) {
    if (lent[i].bytes == asked->bytes) continue;
    fprintf(stderr, "a message of %llu bytes, %llu were to come: say the same at both ends\n",
            (unsigned long long)lent[i].bytes, (unsigned long long)asked->bytes);
    exit(1);
  }
  return count;
}

int main(int argc, char** argv) {
  const task asked = read_task(argc, argv);
  lwmq_channel* channel = make_channel(&asked);
  lwmq_loan* loan;
  CHECK(lwmq_loan_create(kTogether, &loan));
  CHECK(lwmq_channel_open(channel, LWMQ_ROLE_SERVER));
  CHECK(lwmq_channel_wait_connected(channel, LWMQ_FOREVER));
  const uint64_t before = receive_some(channel, loan, &asked, LWMQ_FOREVER); /* the clock does not run yet */
  const double begin = now_s();
  uint64_t come = before;
  while (come < asked.count) come += receive_some(channel, loan, &asked, kWaitMs);
  print_throughput(&asked, come - before, now_s() - begin);
  lwmq_loan_destroy(loan);
  lwmq_channel_close(channel, 0);
  lwmq_channel_destroy(channel);
  return 0;
}
