/* lwmq, through lwmq.h: messages up to 32 KB, raw buffers (fill in place, read in place) above. Our queues
 * have no bound, those of the others do: a flush for each kFlushEach messages keeps the sender as near to its
 * reader. */
#include "peer.h"

#include <lwmq/lwmq.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRawFrom = 32 << 10, kRawBuffers = 4, kFlushEach = 1000 };

static lwmq_channel* channel_;
static lwmq_send_queue* queue_;
static int raw_;
static uint64_t posted_;

static void must(lwmq_status status) {
  if (status == LWMQ_OK) return;
  fprintf(stderr, "native_bench: %s: %s\n", lwmq_status_name(status), lwmq_last_error());
  exit(1);
}

static void ours_open(const char* address, int server, size_t bytes) {
  lwmq_channel_options options = {.size = sizeof(options)};
  raw_ = bytes >= kRawFrom;
  if (raw_) {
    options.raw = 1;
    options.buffer_bytes = bytes;
    options.buffers_send = options.buffers_receive = kRawBuffers;
  }
  char uri[300];
  snprintf(uri, sizeof(uri), "ipc://%s", address);
  must(lwmq_channel_create(uri, &options, &channel_));
  if (!raw_) must(lwmq_channel_add_send_queue(channel_, NULL, &queue_));
  must(lwmq_channel_open(channel_, server ? LWMQ_ROLE_SERVER : LWMQ_ROLE_CLIENT));
  must(lwmq_channel_wait_connected(channel_, 10000));
}

static void ours_send(const void* data, size_t bytes) {
  if (!raw_) {
    must(lwmq_send_queue_post_bytes(queue_, data, bytes));
    if (++posted_ % kFlushEach == 0) must(lwmq_channel_flush(channel_, LWMQ_FOREVER));
    return;
  }
  lwmq_buffer buffer;
  must(lwmq_raw_get_buffer(channel_, LWMQ_FOREVER, &buffer));
  memcpy(buffer.data, data, bytes);
  buffer.bytes = bytes;
  must(lwmq_raw_send_buffer(channel_, &buffer));
}

static uint64_t ours_receive(size_t bytes) {
  uint64_t sum;
  if (raw_) {
    lwmq_buffer buffer;
    must(lwmq_raw_receive_buffer(channel_, LWMQ_FOREVER, &buffer));
    sum = read_all(buffer.data, buffer.bytes);
    must(lwmq_raw_dispose_buffer(channel_, &buffer));
    return sum;
  }
  lwmq_message* message;
  must(lwmq_channel_receive(channel_, LWMQ_FOREVER, &message));
  const void* data;
  uint64_t found;
  must(lwmq_message_frame(message, 0, &data, &found));
  sum = read_all(data, bytes < found ? bytes : found);
  lwmq_message_destroy(message);
  return sum;
}

static void ours_close(void) {
  lwmq_channel_close(channel_, 1000);
  lwmq_channel_destroy(channel_);
}

const peer kLwmq = {"lwmq", ours_open, ours_send, ours_receive, ours_close};
