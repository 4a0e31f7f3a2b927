/* The sending end of a throughput measurement: COUNT messages of BYTES bytes, one call for each.
 *
 *     sample_server_thr ipc://thr 64 10000000 &  sample_client_thr ipc://thr 64 10000000
 */
#include <string.h>

#include "thr.h"

enum { kFlushEach = 1000 }; /* no further ahead than that: the queue has no bound */

int main(int argc, char** argv) {
  const task asked = read_task(argc, argv);
  lwmq_channel* channel = make_channel(&asked);
  lwmq_send_queue* queue;
  CHECK(lwmq_channel_add_send_queue(channel, NULL, &queue));
  CHECK(lwmq_channel_open(channel, LWMQ_ROLE_CLIENT));
  CHECK(lwmq_channel_wait_connected(channel, kWaitMs));
  void* content = malloc(asked.bytes + 1);
  if (content == NULL) {
    fprintf(stderr, "no memory for a message of %llu bytes\n", (unsigned long long)asked.bytes);
    return 1;
  }
  memset(content, 'x', asked.bytes);
  for (uint64_t i = 0; i < asked.count; ++i) {
    CHECK(lwmq_send_queue_post_bytes(queue, content, asked.bytes)); /* copied: ours again */
    if (i % kFlushEach == 0) CHECK(lwmq_channel_flush(channel, kWaitMs));
  }
  CHECK(lwmq_channel_close(channel, kWaitMs));
  lwmq_channel_destroy(channel);
  free(content);
  return 0;
}
