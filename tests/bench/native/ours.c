/* lwmq, through lwmq.h: messages up to 32 KB, raw buffers (fill in place, read in place) above. Our queues
 * have no bound, those of the others do: a flush for each kFlushEach messages keeps the sender as near to its
 * reader. `lwmq` makes one call for each message, `lwmq-many` one for up to kMany. Raw buffers make a ring of
 * kRawRing: more than a core's own cache, less than the common one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

enum { kRawFrom = 32 << 10, kRawBuffers = 4, kRawRing = 4 << 20, kFlushEach = 1000, kMany = 100 };

static lwmq_channel* channel_;
static lwmq_send_queue* queue_;
static int raw_;
static uint64_t posted_;

static void open_channel(const char* address, int server, const lwmq_channel_options* options) {
  char uri[300];
  snprintf(uri, sizeof(uri), "ipc://%s", address);
  must(lwmq_channel_create(uri, options, &channel_));
  if (options->raw == 0) must(lwmq_channel_add_send_queue(channel_, NULL, &queue_));
  must(lwmq_channel_open(channel_, server ? LWMQ_ROLE_SERVER : LWMQ_ROLE_CLIENT));
  must(lwmq_channel_wait_connected(channel_, 10000));
}

static void ours_open(const char* address, int server, size_t bytes) {
  lwmq_channel_options options = {.size = sizeof(options), .home_thread = 1};
  raw_ = bytes >= kRawFrom;
  if (raw_) {
    options.raw = 1;
    options.buffer_bytes = bytes;
    const size_t fit = kRawRing / bytes;
    options.buffers_send = options.buffers_receive = (uint32_t)(fit > kRawBuffers ? fit : kRawBuffers);
  }
  open_channel(address, server, &options);
}

static void flush_now_and_then(uint64_t posted) {
  const uint64_t before = posted_;
  posted_ += posted;
  if (posted_ / kFlushEach != before / kFlushEach) must(lwmq_channel_flush(channel_, LWMQ_FOREVER));
}

static void ours_send(const void* data, size_t bytes) {
  if (!raw_) {
    must(lwmq_send_queue_post_bytes(queue_, data, bytes));
    flush_now_and_then(1);
    return;
  }
  lwmq_buffer buffer;
  must(lwmq_raw_get_buffer(channel_, LWMQ_FOREVER, &buffer));
  memcpy(buffer.data, data, bytes);
  buffer.bytes = bytes;
  must(lwmq_raw_send_buffer(channel_, &buffer));
}

static uint64_t read_and_destroy(lwmq_message* message, size_t bytes) {
  const void* data;
  uint64_t found;
  must(lwmq_message_frame(message, 0, &data, &found));
  const uint64_t sum = read_all(data, bytes < found ? bytes : found);
  lwmq_message_destroy(message);
  return sum;
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
  return read_and_destroy(message, bytes);
}

static void ours_close(void) {
  lwmq_channel_close(channel_, 1000);
  lwmq_channel_destroy(channel_);
}

const peer kLwmq = {"lwmq", ours_open, ours_send, ours_receive, ours_close};

/* ---- Many with one call ----------------------------------------------------------------------------- */

static uint8_t* staged_bytes_;
static lwmq_bytes staged_[kMany];
static uint64_t staged_count_;
static lwmq_message* received_[kMany];
static uint32_t received_count_, received_taken_;

static void many_open(const char* address, int server, size_t bytes) {
  if (bytes >= kRawFrom) die("lwmq-many: messages below 32 KB");
  ours_open(address, server, bytes);
  staged_bytes_ = malloc(kMany * bytes);
  if (staged_bytes_ == NULL) die("malloc");
}

static void post_staged(void) {
  uint64_t posted;
  must(lwmq_send_queue_post_many(queue_, staged_, staged_count_, &posted));
  staged_count_ = 0;
  flush_now_and_then(posted);
}

static void many_send(const void* data, size_t bytes) {
  uint8_t* place = staged_bytes_ + staged_count_ * bytes;
  memcpy(place, data, bytes);
  staged_[staged_count_++] = (lwmq_bytes){place, bytes};
  if (staged_count_ == kMany) post_staged();
}

/* What was sent goes out before we wait for an answer, or end. */
static uint64_t many_receive(size_t bytes) {
  if (staged_count_ > 0) post_staged();
  if (received_taken_ == received_count_) {
    must(lwmq_channel_receive_many(channel_, kMany, LWMQ_FOREVER, received_, &received_count_));
    received_taken_ = 0;
  }
  return read_and_destroy(received_[received_taken_++], bytes);
}

static void many_close(void) {
  if (staged_count_ > 0) post_staged();
  free(staged_bytes_);
  ours_close();
}

const peer kLwmqMany = {"lwmq-many", many_open, many_send, many_receive, many_close};

/* ---- Handed over ------------------------------------------------------------------------------------ */

static void handed_open(const char* address, int server, size_t bytes) {
  const lwmq_channel_options options = {.size = sizeof(options),
                                        .home_thread = 1,
                                        .raw = 1,
                                        .buffer_bytes = bytes,
                                        .buffers_send = kHandedBuffers,
                                        .buffers_receive = kHandedBuffers};
  open_channel(address, server, &options);
  lwmq_buffer buffers[kHandedBuffers];
  for (int i = 0; i < kHandedBuffers; ++i) {
    must(lwmq_raw_get_buffer(channel_, 0, &buffers[i]));
    memset(buffers[i].data, 1, bytes);
  }
  for (int i = 0; i < kHandedBuffers; ++i) must(lwmq_raw_abandon_buffer(channel_, &buffers[i]));
}

static void handed_send(const void* data, size_t bytes) {
  lwmq_buffer buffer;
  must(lwmq_raw_get_buffer(channel_, LWMQ_FOREVER, &buffer));
  buffer.bytes = handed_bytes(data, bytes);
  must(lwmq_raw_send_buffer(channel_, &buffer));
}

static uint64_t handed_receive(size_t bytes) {
  (void)bytes;
  lwmq_buffer buffer;
  must(lwmq_raw_receive_buffer(channel_, LWMQ_FOREVER, &buffer));
  const uint64_t words = buffer.bytes / 8;
  must(lwmq_raw_dispose_buffer(channel_, &buffer));
  return words;
}

const peer kLwmqHanded = {"lwmq-handed", handed_open, handed_send, handed_receive, ours_close};
