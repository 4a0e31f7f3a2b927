/* shares_bench PEER SHAPE COUNT BYTES SECONDS ADDRESS CORE CORE: one thread sends on the first core; what it
 * sends is shared by many.
 *
 *   PEER    lwmq, zmq (over ipc, both ends in this process)
 *   SHAPE   workers   COUNT threads, on any core, receive from one conversation, each message goes to one of
 * them sources   one thread, on the second core, receives from COUNT conversations in turns
 *
 * Every word of a message is 1, and is read. Prints one JSON object. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "zmq.h"

enum { kMost = 64, kBytesMax = 64 << 10, kFlushEach = 1000, kPatienceMs = 10000 };

static size_t bytes_;
static int count_, conversations_, receivers_, receiving_core_;
static const char* address_;
static const uint64_t* payload_;

/* Of each receiver, on a line of its own. */
static struct { _Alignas(64) _Atomic uint64_t messages; } received_[kMost];

static uint64_t received(void) {
  uint64_t sum = 0;
  for (int i = 0; i < receivers_; ++i)
    sum += atomic_load_explicit(&received_[i].messages, memory_order_acquire);
  return sum;
}

/* ---- lwmq: a receive queue for many threads, or a selector */

static lwmq_channel *serving_[kMost], *asking_[kMost];
static lwmq_send_queue* queues_[kMost];
static lwmq_selector* selector_;

static void lwmq_open(void) {
  lwmq_channel_options options = {.size = sizeof(options)};
  const uint32_t kind = receivers_ > 1 ? LWMQ_QUEUE_MULTI_UNBOUNDED : LWMQ_QUEUE_MONO_UNBOUNDED;
  if (conversations_ > 1) must(lwmq_selector_create(&selector_));
  for (int i = 0; i < conversations_; ++i) {
    char uri[300];
    snprintf(uri, sizeof(uri), "ipc://%s-%d", address_, i);
    options.receive_queue = kind;
    must(lwmq_channel_create(uri, &options, &serving_[i]));
    must(lwmq_channel_open(serving_[i], LWMQ_ROLE_SERVER));
    options.receive_queue = LWMQ_QUEUE_MONO_UNBOUNDED;
    must(lwmq_channel_create(uri, &options, &asking_[i]));
    must(lwmq_channel_add_send_queue(asking_[i], NULL, &queues_[i]));
    must(lwmq_channel_open(asking_[i], LWMQ_ROLE_CLIENT));
    must(lwmq_channel_wait_connected(asking_[i], kPatienceMs));
    if (selector_ != NULL) must(lwmq_selector_add(selector_, serving_[i]));
  }
}

static void* lwmq_begin(void) { return NULL; }

static void lwmq_send(uint64_t number) {
  must(lwmq_send_queue_post_bytes(queues_[number % (uint64_t)conversations_], payload_, bytes_));
  if (number % kFlushEach != 0) return;
  for (int i = 0; i < conversations_; ++i) must(lwmq_channel_flush(asking_[i], LWMQ_FOREVER));
}

static uint64_t lwmq_receive(void* unused) {
  (void)unused;
  lwmq_message* message;
  lwmq_channel* channel;
  const void* data;
  uint64_t bytes;
  if (selector_ != NULL) {
    must(lwmq_selector_receive(selector_, LWMQ_FOREVER, &channel, &message));
  } else {
    must(lwmq_channel_receive(serving_[0], LWMQ_FOREVER, &message));
  }
  must(lwmq_message_frame(message, 0, &data, &bytes));
  const uint64_t sum = read_all(data, bytes);
  lwmq_message_destroy(message);
  return sum;
}

static void lwmq_end(void) {
  for (int i = 0; i < conversations_; ++i) must(lwmq_channel_flush(asking_[i], LWMQ_FOREVER));
}

/* ---- ZeroMQ: PUSH and PULL */

enum { kZmqPull = 7, kZmqPush = 8 };

static zmq_calls zmq_;
static void *context_, *pushing_[kMost];
static char place_[300];

static void* zmq_socket_at(int kind, int binds) {
  void* made = zmq_.socket(context_, kind);
  if (made == NULL || (binds ? zmq_.bind : zmq_.connect)(made, place_) != 0) die(place_);
  return made;
}

static void zmq_open(void) {
  zmq_ = load_zmq();
  context_ = zmq_.ctx_new();
  snprintf(place_, sizeof(place_), "ipc://@%s", address_);
  for (int i = 0; i < conversations_; ++i) pushing_[i] = zmq_socket_at(kZmqPush, conversations_ == 1);
}

static void* zmq_begin(void) { return zmq_socket_at(kZmqPull, conversations_ > 1); }

static void zmq_send(uint64_t number) {
  if (zmq_.send(pushing_[number % (uint64_t)conversations_], payload_, bytes_, 0) < 0) die("zmq_send");
}

static uint64_t zmq_receive(void* socket) {
  static _Thread_local uint64_t incoming[kBytesMax / 8];
  if (zmq_.recv(socket, incoming, bytes_, 0) != (int)bytes_) die("zmq_recv");
  return read_all(incoming, bytes_);
}

static void zmq_end(void) {}

static const struct peer {
  const char* name;
  void (*open)(void);
  void* (*begin)(void); /* of a receiver, on its thread; what receive gets */
  void (*send)(uint64_t number);
  uint64_t (*receive)(void* of);
  void (*end)(void); /* of sending */
} kPeers[] = {{"lwmq", lwmq_open, lwmq_begin, lwmq_send, lwmq_receive, lwmq_end},
              {"zmq", zmq_open, zmq_begin, zmq_send, zmq_receive, zmq_end}};
enum { kPeerCount = sizeof(kPeers) / sizeof(kPeers[0]) };

static const struct peer* peer_ = kPeers;

static void* receive_for_ever(void* place) {
  const int receiver = (int)(intptr_t)place;
  if (receivers_ == 1) stay_on(receiving_core_);
  void* of = peer_->begin();
  uint64_t messages = 0;
  while (peer_->receive(of) == bytes_ / 8)
    atomic_store_explicit(&received_[receiver].messages, ++messages, memory_order_release);
  die("a message that was not sent");
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 9) die("usage: shares_bench PEER SHAPE COUNT BYTES SECONDS ADDRESS CORE CORE");
  while (peer_ < kPeers + kPeerCount && strcmp(peer_->name, argv[1]) != 0) ++peer_;
  const int has_workers = strcmp(argv[2], "workers") == 0;
  count_ = atoi(argv[3]);
  bytes_ = strtoull(argv[4], NULL, 10) / 8 * 8;
  if (peer_ == kPeers + kPeerCount || count_ < 1 || count_ > kMost || bytes_ == 0 || bytes_ > kBytesMax)
    die("no such peer, count or size");
  receivers_ = has_workers ? count_ : 1;
  conversations_ = has_workers ? 1 : count_;
  address_ = argv[6];
  payload_ = make_payload(bytes_);
  receiving_core_ = atoi(argv[8]);
  peer_->open();
  for (intptr_t i = 0; i < receivers_; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, receive_for_ever, (void*)i) != 0) die("pthread_create");
  }
  stay_on(atoi(argv[7]));
  uint64_t sent = 0;
  const uint64_t begun = now_ns(), end = begun + (uint64_t)(1e9 * strtod(argv[5], NULL));
  while (now_ns() < end)
    for (int i = 0; i < 256; ++i) peer_->send(++sent);
  peer_->end();
  while (received() < sent) usleep(100);
  const double taken = (double)(now_ns() - begun) / 1e9;
  printf("{\"per_second\": %.1f, \"bytes_per_second\": %.1f, \"messages\": %llu}\n", (double)sent / taken,
         (double)sent * (double)bytes_ / taken, (unsigned long long)sent);
  fflush(stdout);
  _exit(0); /* the receivers wait for more */
}
