/* Frames of the application's own memory: the library shows them without a copy, and says when it needs them
 * no more. One message goes to several channels; the last of them to be done with it releases the memory. */
#include <string.h>

#include "check.h"

enum { kReceivers = 3, kBytes = 1 << 20 };

static void picture_event(void* context, int32_t event) {
  int* holders = context; /* on any thread, once each: a counter that threads share would have to be atomic */
  *holders += event == LWMQ_FRAME_ACQUIRE ? 1 : -1;
}

int main(void) {
  const lwmq_channel_options options = {
      .size = sizeof options, .buffer_bytes = 2 * kBytes, .buffers_send = 2};
  lwmq_channel *servers[kReceivers], *clients[kReceivers];
  lwmq_send_queue* queues[kReceivers];
  for (int i = 0; i < kReceivers; ++i) {
    char address[32];
    snprintf(address, sizeof address, "loop://picture-%d", i);
    CHECK(lwmq_channel_create(address, &options, &servers[i]));
    CHECK(lwmq_channel_add_send_queue(servers[i], NULL, &queues[i]));
    CHECK(lwmq_channel_open(servers[i], LWMQ_ROLE_SERVER));
    CHECK(lwmq_channel_create(address, &options, &clients[i]));
    CHECK(lwmq_channel_open(clients[i], LWMQ_ROLE_CLIENT));
  }

  char* picture = malloc(kBytes);
  if (picture == NULL) return 2;
  memset(picture, 'p', kBytes);
  int holders = 0;
  lwmq_message* message;
  CHECK(lwmq_message_create(0, &message));
  CHECK(lwmq_message_append(message, "picture", 7));
  CHECK(lwmq_message_append_external(message, picture, kBytes, picture_event, &holders));
  for (int i = 0; i < kReceivers; ++i) {
    lwmq_message* reference; /* a handle of its own, on the same frames */
    CHECK(lwmq_message_reference(message, &reference));
    CHECK(lwmq_send_queue_post(queues[i], &reference));
  }
  lwmq_message_destroy(message);

  for (int i = 0; i < kReceivers; ++i) {
    lwmq_message* received;
    const void* data;
    uint64_t bytes;
    CHECK(lwmq_channel_receive(clients[i], 10000, &received));
    CHECK(lwmq_message_frame(received, 1, &data, &bytes));
    printf("receiver %d: %s, %d holder\n", i, data == picture ? "the very picture" : "a copy", holders);
    lwmq_message_destroy(received);
  }
  printf("released: %d holders\n", holders);
  for (int i = 0; i < kReceivers; ++i) {
    lwmq_channel_destroy(clients[i]);
    lwmq_channel_destroy(servers[i]);
  }
  free(picture);
  return holders;
}
