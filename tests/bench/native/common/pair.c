#include "pair.h"

#include "common.h"

void open_receiver(const char* address, lwmq_channel_options options, pair* to) {
  options.size = sizeof(options);
  must(lwmq_channel_create(address, &options, &to->receiver));
  must(lwmq_channel_open(to->receiver, LWMQ_ROLE_SERVER));
}

void open_sender(const char* address, lwmq_channel_options options, pair* to) {
  options.size = sizeof(options);
  must(lwmq_channel_create(address, &options, &to->sender));
  must(lwmq_channel_add_send_queue(to->sender, NULL, &to->queue));
  must(lwmq_channel_open(to->sender, LWMQ_ROLE_CLIENT));
  must(lwmq_channel_wait_connected(to->sender, 10000));
}

pair make_pair(const char* address, lwmq_channel_options options) {
  pair made;
  open_receiver(address, options, &made);
  open_sender(address, options, &made);
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
