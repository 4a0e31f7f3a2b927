/* beside_bench PEER ROLE SECONDS ADDRESS CORE: a conversation of 64 B beside one of 64 KB, both served by one
 * thread on each side.
 *
 *   PEER   floor (rings by hand), lwmq (a channel of messages, a raw channel), uds, zmq (two pairs each);
 *          lwmq-often, floor-often: look for control while they copy and read, too, each kOften bytes
 *   ROLE   serve (started first) or ask
 *
 * A thread looks for control first, then moves one data message if it can, and never waits. Who asks has one
 * exchange of control on its way at any time, and in every other slice of time sends as much data as there is
 * room for: copied from its own memory, and read to its last byte by who serves. Prints one JSON object: the
 * one-way latency of control beside data, the same without data ("idle"), and the time from one data message
 * to the next, as a mean of each slice ("data"). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common.h"
#include "rings.h"
#include "zmq.h"

enum { kControl = 64, kData = 64 << 10, kRoom = 4 << 20, kOften = 4 << 10 };
static const uint64_t kSliceNs = 10000000, kSettleNs = 1000000; /* of each slice, not counted */

static int server_;
static uint64_t *payload_, *incoming_;
static size_t piece_ = kData; /* of a data message, between two looks for control */
static void (*look_)(void);

static void copy_in(uint8_t* to) {
  for (size_t at = 0; at < kData; at += piece_) {
    if (at > 0) look_();
    memcpy(to + at, (const uint8_t*)payload_ + at, piece_);
  }
}

static void read_out(const uint8_t* from) {
  uint64_t sum = 0;
  for (size_t at = 0; at < kData; at += piece_) {
    if (at > 0) look_();
    sum += read_all(from + at, piece_);
  }
  if (sum != kData / 8) die("another message than was sent");
}

/* ---- floor */

static rings control_rings_, data_rings_;

static void floor_open(const char* address) {
  char path[300];
  snprintf(path, sizeof(path), "%s-data", address);
  rings_open(&data_rings_, path, server_, kData, kRoom);
  rings_open(&control_rings_, address, server_, kControl, kRoom);
}

static void floor_send_control(const uint64_t* words) {
  uint8_t* at;
  while ((at = rings_room(&control_rings_)) == NULL) {
  }
  memcpy(at, words, kControl);
  rings_ship(&control_rings_);
}

static int floor_take_control(uint64_t* words) {
  const uint8_t* at = rings_arrived(&control_rings_);
  if (at == NULL) return 0;
  memcpy(words, at, kControl);
  rings_release(&control_rings_);
  return 1;
}

static int floor_send_data(void) {
  uint8_t* at = rings_room(&data_rings_);
  if (at == NULL) return 0;
  copy_in(at);
  rings_ship(&data_rings_);
  return 1;
}

static int floor_take_data(void) {
  const uint8_t* at = rings_arrived(&data_rings_);
  if (at == NULL) return 0;
  read_out(at);
  rings_release(&data_rings_);
  return 1;
}

static void floor_close(void) {
  rings_close(&control_rings_);
  rings_close(&data_rings_);
}

/* ---- lwmq */

static lwmq_channel *control_channel_, *data_channel_;
static lwmq_send_queue* control_queue_;

static void open_channel(const char* address, const char* what, lwmq_channel_options options,
                         lwmq_channel** out_channel) {
  char uri[300];
  snprintf(uri, sizeof(uri), "ipc://%s-%s", address, what);
  options.size = sizeof(options);
  options.home_thread = 1;
  must(lwmq_channel_create(uri, &options, out_channel));
  if (options.raw == 0) must(lwmq_channel_add_send_queue(*out_channel, NULL, &control_queue_));
  must(lwmq_channel_open(*out_channel, server_ ? LWMQ_ROLE_SERVER : LWMQ_ROLE_CLIENT));
  must(lwmq_channel_wait_connected(*out_channel, 10000));
}

static void lwmq_open(const char* address) {
  const lwmq_channel_options data = {
      .raw = 1, .buffer_bytes = kData, .buffers_send = kRoom / kData, .buffers_receive = kRoom / kData};
  open_channel(address, "control", (lwmq_channel_options){0}, &control_channel_);
  open_channel(address, "data", data, &data_channel_);
}

static void lwmq_send_control(const uint64_t* words) {
  must(lwmq_send_queue_post_bytes(control_queue_, words, kControl));
}

static int lwmq_take_control(uint64_t* words) {
  lwmq_message* message;
  const void* data;
  uint64_t bytes;
  const lwmq_status status = lwmq_channel_receive(control_channel_, 0, &message);
  if (status == LWMQ_E_EMPTY) return 0;
  must(status);
  must(lwmq_message_frame(message, 0, &data, &bytes));
  memcpy(words, data, kControl);
  lwmq_message_destroy(message);
  return 1;
}

static int lwmq_send_data(void) {
  lwmq_buffer buffer;
  const lwmq_status status = lwmq_raw_get_buffer(data_channel_, 0, &buffer);
  if (status == LWMQ_E_FULL) return 0;
  must(status);
  copy_in(buffer.data);
  buffer.bytes = kData;
  must(lwmq_raw_send_buffer(data_channel_, &buffer));
  return 1;
}

static int lwmq_take_data(void) {
  lwmq_buffer buffer;
  const lwmq_status status = lwmq_raw_receive_buffer(data_channel_, 0, &buffer);
  if (status == LWMQ_E_EMPTY) return 0;
  must(status);
  read_out(buffer.data);
  must(lwmq_raw_dispose_buffer(data_channel_, &buffer));
  return 1;
}

static void lwmq_close(void) {
  lwmq_channel_close(control_channel_, 1000);
  lwmq_channel_close(data_channel_, 0);
  lwmq_channel_destroy(control_channel_);
  lwmq_channel_destroy(data_channel_);
}

/* ---- local sockets that keep messages apart */

static int control_socket_, data_socket_;

static int connected(const char* address, const char* what) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  const int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "%s-%s", address, what);
  const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
  const int made = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  const int room = kRoom;
  if (made < 0 || setsockopt(made, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) != 0) die("socket");
  if (server_) {
    if (bind(made, (struct sockaddr*)&name, size) != 0 || listen(made, 1) != 0) die("bind");
    const int accepted = accept(made, NULL, NULL);
    close(made);
    return accepted;
  }
  const struct timespec pause = {.tv_nsec = 10000000};
  for (int tries = 0; connect(made, (struct sockaddr*)&name, size) != 0; ++tries) {
    if (tries == 500) die("connect");
    nanosleep(&pause, NULL);
  }
  return made;
}

static void uds_open(const char* address) {
  control_socket_ = connected(address, "control");
  data_socket_ = connected(address, "data");
}

static int uds_send(int socket, const void* data, size_t bytes) {
  const ssize_t sent = send(socket, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN) die("send");
  return sent == (ssize_t)bytes;
}

static int uds_take(int socket, void* data, size_t bytes) {
  const ssize_t taken = recv(socket, data, bytes, MSG_DONTWAIT);
  if (taken == 0 || (taken < 0 && errno != EAGAIN)) die("recv");
  return taken == (ssize_t)bytes;
}

static void uds_send_control(const uint64_t* words) {
  if (!uds_send(control_socket_, words, kControl)) die("no room for control");
}

static int uds_take_control(uint64_t* words) { return uds_take(control_socket_, words, kControl); }
static int uds_send_data(void) { return uds_send(data_socket_, payload_, kData); }

static int uds_take_data(void) {
  if (!uds_take(data_socket_, incoming_, kData)) return 0;
  read_out((const uint8_t*)incoming_);
  return 1;
}

static void uds_close(void) {
  close(control_socket_);
  close(data_socket_);
}

/* ---- zmq */

static zmq_calls zmq_;
static void *context_, *control_pair_, *data_pair_;

static void* zmq_pair(const char* address, const char* what) {
  char uri[300];
  snprintf(uri, sizeof(uri), "ipc://@%s-%s", address, what);
  void* made = zmq_.socket(context_, kZmqPair);
  const int mark = kRoom / kData, linger_ms = 1000;
  zmq_.setsockopt(made, kZmqSendMark, &mark, sizeof(mark));
  zmq_.setsockopt(made, kZmqReceiveMark, &mark, sizeof(mark));
  zmq_.setsockopt(made, kZmqLinger, &linger_ms, sizeof(linger_ms));
  if ((server_ ? zmq_.bind : zmq_.connect)(made, uri) != 0) die("zmq");
  return made;
}

static void zmq_open(const char* address) {
  zmq_ = load_zmq();
  context_ = zmq_.ctx_new();
  control_pair_ = zmq_pair(address, "control");
  data_pair_ = zmq_pair(address, "data");
}

static void zmq_send_control(const uint64_t* words) {
  if (zmq_.send(control_pair_, words, kControl, 0) != kControl) die("zmq_send");
}

static int zmq_take_control(uint64_t* words) {
  return zmq_.recv(control_pair_, words, kControl, kZmqDontWait) == kControl;
}

static int zmq_send_data(void) { return zmq_.send(data_pair_, payload_, kData, kZmqDontWait) == kData; }

static int zmq_take_data(void) {
  if (zmq_.recv(data_pair_, incoming_, kData, kZmqDontWait) != kData) return 0;
  read_out((const uint8_t*)incoming_);
  return 1;
}

static void zmq_close(void) {
  zmq_.close(control_pair_);
  zmq_.close(data_pair_);
  zmq_.ctx_term(context_);
}

static const struct peer {
  const char* name;
  size_t piece;
  void (*open)(const char* address);
  void (*send_control)(const uint64_t* words);
  /* 1: there was one. */
  int (*take_control)(uint64_t* words);
  int (*send_data)(void); /* 0: no room */
  int (*take_data)(void);
  void (*close)(void);
} kPeers[] = {
    {"floor", kData, floor_open, floor_send_control, floor_take_control, floor_send_data, floor_take_data,
     floor_close},
    {"floor-often", kOften, floor_open, floor_send_control, floor_take_control, floor_send_data,
     floor_take_data, floor_close},
    {"lwmq", kData, lwmq_open, lwmq_send_control, lwmq_take_control, lwmq_send_data, lwmq_take_data,
     lwmq_close},
    {"lwmq-often", kOften, lwmq_open, lwmq_send_control, lwmq_take_control, lwmq_send_data, lwmq_take_data,
     lwmq_close},
    {"uds", kData, uds_open, uds_send_control, uds_take_control, uds_send_data, uds_take_data, uds_close},
    {"zmq", kData, zmq_open, zmq_send_control, zmq_take_control, zmq_send_data, zmq_take_data, zmq_close}};
enum { kPeerCount = sizeof(kPeers) / sizeof(kPeers[0]) };

/* ---- The two sides */

static const struct peer* peer_ = kPeers;
static uint64_t control_[kControl / 8];
static void answer(void) {
  if (control_[0] != kStop && peer_->take_control(control_)) peer_->send_control(control_);
}

static void serve(void) {
  look_ = answer;
  while (control_[0] != kStop) {
    answer();
    peer_->take_data();
  }
}

static samples* kept_;                  /* of the slice that is on, once it has settled */
static uint64_t asked_ns_, data_count_; /* when control was sent last; data messages sent */

static void ask_again(void) {
  if (!peer_->take_control(control_)) return;
  const uint64_t now = now_ns();
  if (kept_ != NULL) add_sample(kept_, now - asked_ns_);
  asked_ns_ = now;
  peer_->send_control(control_);
}

/* Until `end`. */
static void ask(uint64_t end, int loaded) {
  for (uint64_t looks = 0; looks % 16 != 0 || now_ns() < end; ++looks) {
    ask_again();
    if (loaded) data_count_ += (uint64_t)peer_->send_data();
  }
}

static void measure(double seconds) {
  samples idle = make_samples(), beside = make_samples(), data = make_samples();
  look_ = ask_again;
  control_[0] = 1;
  asked_ns_ = now_ns();
  peer_->send_control(control_);
  const uint64_t end = now_ns() + (uint64_t)(2e9 * seconds);
  for (uint64_t begun; (begun = now_ns()) < end;) {
    kept_ = NULL;
    ask(begun + kSettleNs, 0);
    kept_ = &idle;
    ask(begun + kSliceNs, 0);
    kept_ = NULL;
    ask(now_ns() + kSettleNs, 1);
    kept_ = &beside;
    data_count_ = 0;
    const uint64_t loaded = now_ns();
    ask(loaded + kSliceNs, 1);
    if (data_count_ > 0) add_sample(&data, (now_ns() - loaded) / data_count_);
  }
  while (!peer_->take_control(control_)) {
  }
  control_[0] = kStop;
  peer_->send_control(control_);
  const size_t exchanges = beside.count;
  printf("{");
  print_percentiles(beside, 2.0, "");
  print_percentiles(idle, 2.0, "idle_");
  print_percentiles(data, 1.0, "data_");
  printf("\"exchanges\": %zu}\n", exchanges);
  while (!peer_->take_control(control_)) {
  }
}

int main(int argc, char** argv) {
  if (argc != 6) die("usage: beside_bench PEER ROLE SECONDS ADDRESS CORE");
  while (peer_ < kPeers + kPeerCount && strcmp(peer_->name, argv[1]) != 0) ++peer_;
  if (peer_ == kPeers + kPeerCount) die("no such peer");
  server_ = strcmp(argv[2], "serve") == 0;
  piece_ = peer_->piece;
  stay_on(atoi(argv[5]));
  payload_ = make_payload(kData);
  incoming_ = make_payload(kData);
  peer_->open(argv[4]);
  if (server_)
    serve();
  else
    measure(strtod(argv[3], NULL));
  peer_->close();
  return 0;
}
