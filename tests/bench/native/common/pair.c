#include "pair.h"

#include "common.h"

pair make_pair(const char* address, lwmq_channel_options options) {
  pair made;
  options.size = sizeof(options);
  must(lwmq_channel_create(address, &options, &made.receiver));
  must(lwmq_channel_open(made.receiver, LWMQ_ROLE_SERVER));
  must(lwmq_channel_create(address, &options, &made.sender));
  must(lwmq_channel_add_send_queue(made.sender, NULL, &made.queue));
  must(lwmq_channel_open(made.sender, LWMQ_ROLE_CLIENT));
  must(lwmq_channel_wait_connected(made.sender, 10000));
  return made;
}

uint64_t read_next(const pair* from) {
  lwmq_message* message;
  const void* data;
  uint64_t bytes;
  must(lwmq_channel_receive(from->receiver, LWMQ_FOREVER, &message));
  must(lwmq_message_frame(message, 0, &data, &bytes));
  const uint64_t sum = read_all(data, bytes);
  lwmq_message_destroy(message);
  return sum;
}
