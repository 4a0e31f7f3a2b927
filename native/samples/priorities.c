/* Several send queues on one channel: an alarm overtakes what was posted before it and has not been shipped.
 * Order holds within a queue; between queues the priority decides. */
#include "check.h"

static lwmq_send_queue* add_queue(lwmq_channel* channel, uint32_t priority) {
  const lwmq_send_queue_options options = {
      .size = sizeof options, .kind = LWMQ_QUEUE_MONO_UNBOUNDED, .priority = priority};
  lwmq_send_queue* queue;
  CHECK(lwmq_channel_add_send_queue(channel, &options, &queue));
  return queue;
}

int main(void) {
  lwmq_channel *sender, *receiver;
  CHECK(lwmq_channel_create("loop://priorities", NULL, &sender));
  CHECK(lwmq_channel_create("loop://priorities", NULL, &receiver));
  lwmq_send_queue* bulk = add_queue(sender, LWMQ_PRIORITY_LOWEST);
  lwmq_send_queue* alarms = add_queue(sender, LWMQ_PRIORITY_TIME_CRITICAL);

  /* Posting is possible before anybody is connected: the queues hold what comes. */
  CHECK(lwmq_channel_open(sender, LWMQ_ROLE_SERVER));
  for (int i = 0; i < 3; ++i) {
    char text[32];
    const int bytes = snprintf(text, sizeof text, "bulk %d", i);
    CHECK(lwmq_send_queue_post_bytes(bulk, text, (uint64_t)bytes));
  }
  CHECK(lwmq_send_queue_post_bytes(alarms, "alarm", 5));

  CHECK(lwmq_channel_open(receiver, LWMQ_ROLE_CLIENT));
  for (int i = 0; i < 4; ++i) {
    lwmq_message* message;
    const void* data;
    uint64_t bytes;
    CHECK(lwmq_channel_receive(receiver, 10000, &message));
    CHECK(lwmq_message_frame(message, 0, &data, &bytes));
    printf("%.*s\n", (int)bytes, (const char*)data);
    lwmq_message_destroy(message);
  }
  lwmq_channel_destroy(receiver);
  lwmq_channel_destroy(sender);
  return 0;
}
