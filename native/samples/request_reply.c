/* Requests and replies between two processes. Each request is a message of two frames, a number and what is
 * asked; the reply brings the number back, so that many requests can be on their way at once. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kRequests = 1000, kWaitMs = 10000 };

static lwmq_channel* open_channel(const char* address, int32_t role, lwmq_send_queue** out_queue) {
  lwmq_channel* channel;
  CHECK(lwmq_channel_create(address, NULL, &channel));
  CHECK(lwmq_channel_add_send_queue(channel, NULL, out_queue));
  CHECK(lwmq_channel_open(channel, role));
  return channel;
}

static void post_pair(lwmq_send_queue* queue, uint32_t number, uint64_t value) {
  lwmq_message* message;
  CHECK(lwmq_message_create(2, &message));
  CHECK(lwmq_message_append(message, &number, sizeof number));
  CHECK(lwmq_message_append(message, &value, sizeof value));
  CHECK(lwmq_send_queue_post(queue, &message));
}

static void receive_pair(lwmq_channel* channel, uint32_t* out_number, uint64_t* out_value) {
  lwmq_message* message;
  const void *number, *value;
  uint64_t number_bytes, value_bytes;
  CHECK(lwmq_channel_receive(channel, kWaitMs, &message));
  CHECK(lwmq_message_frame(message, 0, &number, &number_bytes));
  CHECK(lwmq_message_frame(message, 1, &value, &value_bytes));
  if (number_bytes != sizeof *out_number || value_bytes != sizeof *out_value) exit(2);
  memcpy(out_number, number, sizeof *out_number);
  memcpy(out_value, value, sizeof *out_value);
  lwmq_message_destroy(message);
}

static int serve(const char* address) {
  lwmq_send_queue* queue;
  lwmq_channel* channel = open_channel(address, LWMQ_ROLE_SERVER, &queue);
  for (int i = 0; i < kRequests; ++i) {
    uint32_t number;
    uint64_t value;
    receive_pair(channel, &number, &value);
    post_pair(queue, number, value * value);
  }
  lwmq_channel_close(channel, kWaitMs);
  lwmq_channel_destroy(channel);
  return 0;
}

int main(void) {
  char address[64];
  snprintf(address, sizeof address, "ipc://request-reply-%d", (int)getpid());
  const pid_t server = fork(); /* before the library is used: a forked child cannot go on with its parent's */
  if (server == 0) return serve(address);

  lwmq_send_queue* queue;
  lwmq_channel* channel = open_channel(address, LWMQ_ROLE_CLIENT, &queue);
  for (uint32_t i = 0; i < kRequests; ++i) post_pair(queue, i, i); /* all of them, before the first reply */
  uint64_t sum = 0;
  for (uint32_t i = 0; i < kRequests; ++i) {
    uint32_t number;
    uint64_t square;
    receive_pair(channel, &number, &square);
    if (square != (uint64_t)number * number) exit(3);
    sum += square;
  }
  lwmq_channel_destroy(channel);
  int status = 0;
  waitpid(server, &status, 0);
  printf("%d replies, sum of squares %llu\n", kRequests, (unsigned long long)sum);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}
