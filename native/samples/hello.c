/* The shortest conversation: two ends, one message. With an argument, one end per process:
 *
 *     sample_hello ipc://hello &  sample_hello ipc://hello
 *
 * whoever comes first serves and waits for the greeting, the second one sends it. */
#include "check.h"

int main(int argc, char** argv) {
  lwmq_channel* channel;
  lwmq_send_queue* queue;
  lwmq_channel_statistics now = {.size = sizeof now};
  CHECK(lwmq_channel_create(argc > 1 ? argv[1] : "ipc://hello", NULL, &channel));
  CHECK(lwmq_channel_add_send_queue(channel, NULL, &queue));
  CHECK(lwmq_channel_open(channel, LWMQ_ROLE_AUTO));
  CHECK(lwmq_channel_wait_connected(channel, 10000));
  CHECK(lwmq_channel_query(channel, &now));
  lwmq_message* message = NULL;
  if (now.is_server)
    CHECK(lwmq_channel_receive(channel, 10000, &message));
  else
    CHECK(lwmq_send_queue_post_bytes(queue, "hello", 5));
  CHECK(lwmq_channel_close(channel, 10000)); /* behind it, what was said was heard */
  printf(message ? "somebody said hello\n" : "said hello\n");
  lwmq_message_destroy(message);
  lwmq_channel_destroy(channel);
  return 0;
}
