/* lwmq, through lwmq.h: messages up to 32 KB, raw buffers (fill in place, read in place) above. Our queues
 * have no bound, those of the others do: a flush for each kFlushEach messages keeps the sender as near to its
 * reader. `lwmq` makes one call for each message, `lwmq-many` one for up to kMany, `lwmq-lent` likewise, and
 * reads them where they landed, as `lwmq-each-lent` does, which posts one by one. The buffers make a ring of
 * kRing: more than a core's own cache, less than the common one. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peer.h"

enum { kRawFrom = 32 << 10, kBuffersMin = 2, kRing = 4 << 20, kFlushEach = 1000 };

static lwmq_channel* channel_;
static lwmq_send_queue* queue_;
static int raw_;
static const char* network_;      /* tcp or tcps; NULL: shared memory */
static const char* options_ = ""; /* of its addresses */
static int64_t before_flush_ = kFlushEach;

/* The option of a key, in a file that whoever comes first makes; the runner removes it. */
static const char* key_of(const char* address) {
  static char option[300];
  snprintf(option, sizeof(option), "?psk=/dev/shm/%s.psk", address);
  const int file = open(option + strlen("?psk="), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return option;
  char key[65];
  memset(key, 'a', sizeof(key) - 1);
  key[64] = '\n';
  if (write(file, key, sizeof(key)) != (ssize_t)sizeof(key)) die("write");
  close(file);
  return option;
}

static void open_channel(const char* address, int server, const lwmq_channel_options* options) {
  char uri[600];
  if (network_ != NULL)
    snprintf(uri, sizeof(uri), "%s://127.0.0.1:%d%s", network_, port_of(address), options_);
  else
    snprintf(uri, sizeof(uri), "ipc://%s", address);
  must(lwmq_channel_create(uri, options, &channel_));
  if (options->raw == 0) must(lwmq_channel_add_send_queue(channel_, NULL, &queue_));
  must(lwmq_channel_open(channel_, server ? LWMQ_ROLE_SERVER : LWMQ_ROLE_CLIENT));
  must(lwmq_channel_wait_connected(channel_, 10000));
}

static void ours_open(const char* address, int server, size_t bytes) {
  lwmq_channel_options options = {.size = sizeof(options), .home_thread = 1};
  raw_ = bytes >= kRawFrom;
  options.raw = raw_;
  options.buffer_bytes = raw_ ? bytes : kRawFrom;
  const size_t fit = kRing / options.buffer_bytes;
  options.buffers_send = options.buffers_receive = (uint32_t)(fit > kBuffersMin ? fit : kBuffersMin);
  open_channel(address, server, &options);
}

static void flush_now_and_then(uint64_t posted) {
  before_flush_ -= (int64_t)posted;
  if (before_flush_ > 0) return;
  before_flush_ = kFlushEach;
  must(lwmq_channel_flush(channel_, LWMQ_FOREVER));
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

const peer kLwmq = {
    .name = "lwmq",
    .open = ours_open,
    .send = ours_send,
    .receive = ours_receive,
    .close = ours_close,
};

/* ---- Many with one call ----------------------------------------------------------------------------- */

static lwmq_bytes many_[kMany];

static void many_open(const char* address, int server, size_t bytes) {
  if (bytes >= kRawFrom) die("lwmq-many: messages below 32 KB");
  ours_open(address, server, bytes);
}

static void many_send(const void* data, size_t bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) many_[i] = (lwmq_bytes){data, bytes};
  uint64_t posted;
  must(lwmq_send_queue_post_many(queue_, many_, count, &posted));
  flush_now_and_then(posted);
}

static uint64_t many_receive(size_t bytes, size_t* out_count) {
  lwmq_message* messages[kMany];
  uint32_t count;
  must(lwmq_channel_receive_many(channel_, kMany, LWMQ_FOREVER, messages, &count));
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count; ++i) sum += read_and_destroy(messages[i], bytes);
  *out_count = count;
  return sum;
}

const peer kLwmqMany = {
    .name = "lwmq-many",
    .open = many_open,
    .send = ours_send,
    .receive = ours_receive,
    .close = ours_close,
    .send_many = many_send,
    .receive_many = many_receive,
};

/* ---- Lent ------------------------------------------------------------------------------------------- */

static lwmq_loan* loan_;

static void lent_open(const char* address, int server, size_t bytes) {
  many_open(address, server, bytes);
  must(lwmq_loan_create(kMany, &loan_));
}

static uint64_t lent_receive(size_t bytes, size_t* out_count) {
  const lwmq_lent* lent;
  uint32_t count;
  must(lwmq_channel_receive_loan(channel_, LWMQ_FOREVER, loan_, &lent, &count));
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count; ++i)
    sum += read_all(lent[i].data, bytes < lent[i].bytes ? bytes : lent[i].bytes);
  *out_count = count;
  return sum;
}

static uint64_t lent_receive_one(size_t bytes) {
  size_t count;
  const uint64_t sum = lent_receive(bytes, &count);
  if (count != 1) die("lent: several messages where one was on its way");
  return sum;
}

static void lent_close(void) {
  lwmq_loan_destroy(loan_);
  ours_close();
}

const peer kLwmqLent = {
    .name = "lwmq-lent",
    .open = lent_open,
    .send = ours_send,
    .receive = lent_receive_one,
    .close = lent_close,
    .send_many = many_send,
    .receive_many = lent_receive,
};

const peer kLwmqEachLent = {
    .name = "lwmq-each-lent",
    .open = lent_open,
    .send = ours_send,
    .receive = lent_receive_one,
    .close = lent_close,
    .receive_many = lent_receive,
};

/* ---- Over TCP ------------------------------------------------------------------------------------------ */

static void tcp_open(const char* address, int server, size_t bytes) {
  network_ = "tcp";
  ours_open(address, server, bytes);
}

static void tcp_uring_open(const char* address, int server, size_t bytes) {
  options_ = "?engine=uring";
  tcp_open(address, server, bytes);
}

static void tcps_open(const char* address, int server, size_t bytes) {
  network_ = "tcps";
  options_ = key_of(address);
  ours_open(address, server, bytes);
}

const peer kLwmqTcp = {
    .name = "lwmq-tcp",
    .open = tcp_open,
    .send = ours_send,
    .receive = ours_receive,
    .close = ours_close,
};

const peer kLwmqTcpUring = {
    .name = "lwmq-tcp-uring",
    .open = tcp_uring_open,
    .send = ours_send,
    .receive = ours_receive,
    .close = ours_close,
};

const peer kLwmqTcpMany = {
    .name = "lwmq-tcp-many",
    .open = tcp_open,
    .send = ours_send,
    .receive = ours_receive,
    .close = ours_close,
    .send_many = many_send,
    .receive_many = many_receive,
};

const peer kLwmqTcps = {
    .name = "lwmq-tcps",
    .open = tcps_open,
    .send = ours_send,
    .receive = ours_receive,
    .close = ours_close,
};

/* ---- Built in place ------------------------------------------------------------------------------------ */

static void built_open(const char* address, int server, size_t bytes) {
  ours_open(address, server, bytes);
  if (!raw_) die("lwmq-built: 64 KB and more");
}

static void built_send(const void* data, size_t bytes) {
  lwmq_buffer buffer;
  must(lwmq_raw_get_buffer(channel_, LWMQ_FOREVER, &buffer));
  build(buffer.data, data, bytes);
  buffer.bytes = bytes;
  must(lwmq_raw_send_buffer(channel_, &buffer));
}

const peer kLwmqBuilt = {
    .name = "lwmq-built",
    .open = built_open,
    .send = built_send,
    .receive = ours_receive,
    .close = ours_close,
};

static void tcp_built_open(const char* address, int server, size_t bytes) {
  network_ = "tcp";
  built_open(address, server, bytes);
}

const peer kLwmqTcpBuilt = {
    .name = "lwmq-tcp-built",
    .open = tcp_built_open,
    .send = built_send,
    .receive = ours_receive,
    .close = ours_close,
};

/* ---- In pieces ----------------------------------------------------------------------------------------- */

static void pieces_open(const char* address, int server, size_t bytes) {
  if (bytes % kPiece != 0) die("lwmq-pieces: whole pieces");
  raw_ = 1;
  const lwmq_channel_options options = {.size = sizeof(options),
                                        .home_thread = 1,
                                        .raw = 1,
                                        .buffer_bytes = kPiece,
                                        .buffers_send = kPieceRing / kPiece,
                                        .buffers_receive = kPieceRing / kPiece};
  open_channel(address, server, &options);
}

static void pieces_send(const void* data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kPiece) ours_send((const uint8_t*)data + at, kPiece);
}

static uint64_t pieces_receive(size_t bytes) {
  uint64_t sum = 0;
  for (size_t at = 0; at < bytes; at += kPiece) sum += ours_receive(kPiece);
  return sum;
}

const peer kLwmqPieces = {
    .name = "lwmq-pieces",
    .open = pieces_open,
    .send = pieces_send,
    .receive = pieces_receive,
    .close = ours_close,
};

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

const peer kLwmqHanded = {
    .name = "lwmq-handed",
    .open = handed_open,
    .send = handed_send,
    .receive = handed_receive,
    .close = ours_close,
    .untouched = 1,
};
