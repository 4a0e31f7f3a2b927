/* post_bench PEER BYTES SECONDS CORE CORE: how many messages one thread posts in a second into a queue that
 * somebody else empties.
 *
 *   floor        the payload copied into a node, the node put into a list from one thread to another
 *   lwmq         lwmq_send_queue_post_bytes: copied, one call for each
 *   lwmq-many    lwmq_send_queue_post_many: copied, one call for kMany
 *   lwmq-made    lwmq_send_queue_post of messages that were made before
 *   lwmq-alone   as lwmq, while nobody is connected
 *   mutex        a list under a mutex, its nodes from malloc
 *   zmq          zmq_send to a PAIR of the same process, without a high-water mark
 *
 * Posts come in bursts of kBurst, and they alone are timed. Before a burst of ours the channel is made busy:
 * messages fill its transport, nobody receives, and its service thread has the pump. After it the other
 * thread reads every byte of every message. Prints one JSON object. */
#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "locked.h"
#include "pair.h"
#include "zmq.h"

enum { kBytesMax = 4096, kBurst = 1000, kMany = 100, kFill = 1000 };

static size_t bytes_;
static uint64_t* payload_;

static void nothing(void) {}

/* ---- floor */

typedef struct node {
  struct node* _Atomic next;
  uint8_t data[];
} node;

static uint8_t* nodes_;
static size_t node_bytes_;
static node *posted_last_, *read_last_;

static node* node_at(int i) { return (node*)(nodes_ + (size_t)i * node_bytes_); }

static void floor_open(void) {
  node_bytes_ = (sizeof(node) + bytes_ + 63) / 64 * 64;
  nodes_ = aligned_alloc(64, (kBurst + 1) * node_bytes_);
  if (nodes_ == NULL) die("malloc");
  memset(nodes_, 0, (kBurst + 1) * node_bytes_);
}

/* The one before the first. */
static void floor_prepare(void) {
  posted_last_ = read_last_ = node_at(kBurst);
  atomic_store_explicit(&posted_last_->next, NULL, memory_order_relaxed);
}

static void floor_burst(void) {
  for (int i = 0; i < kBurst; ++i) {
    node* made = node_at(i);
    memcpy(made->data, payload_, bytes_);
    atomic_store_explicit(&made->next, NULL, memory_order_relaxed);
    atomic_store_explicit(&posted_last_->next, made, memory_order_release);
    posted_last_ = made;
  }
}

static uint64_t floor_receive(void) {
  node* next;
  while ((next = atomic_load_explicit(&read_last_->next, memory_order_acquire)) == NULL) _mm_pause();
  read_last_ = next;
  return read_all(next->data, bytes_);
}

/* ---- lwmq */

static pair channels_;
static lwmq_message* made_[kBurst];

static void lwmq_open(void) {
  channels_ =
      make_pair("loop://post_bench", (lwmq_channel_options){.buffer_bytes = kBytesMax, .buffers_send = 2});
}

static void lwmq_prepare(void) {
  for (int i = 0; i < kFill; ++i) must(lwmq_send_queue_post_bytes(channels_.queue, payload_, bytes_));
}

static void lwmq_burst(void) {
  for (int i = 0; i < kBurst; ++i) must(lwmq_send_queue_post_bytes(channels_.queue, payload_, bytes_));
}

/* All of a burst must still be there, else it was no burst into a busy channel. */
static void lwmq_check(void) {
  lwmq_send_queue_statistics statistics = {.size = sizeof(statistics)};
  must(lwmq_send_queue_query(channels_.queue, &statistics));
  if (statistics.queued < kBurst) die("the channel was not busy");
}

static void lwmq_settle(void) { must(lwmq_channel_flush(channels_.sender, LWMQ_FOREVER)); }

static uint64_t lwmq_receive(void) { return read_next(&channels_); }

static void many_burst(void) {
  lwmq_bytes frames[kMany];
  for (int i = 0; i < kMany; ++i) frames[i] = (lwmq_bytes){payload_, bytes_};
  for (int i = 0; i < kBurst; i += kMany) {
    uint64_t posted;
    must(lwmq_send_queue_post_many(channels_.queue, frames, kMany, &posted));
  }
}

static void made_prepare(void) {
  for (int i = 0; i < kBurst; ++i) {
    must(lwmq_message_create(1, &made_[i]));
    must(lwmq_message_append(made_[i], payload_, bytes_));
  }
  lwmq_prepare();
}

static void made_burst(void) {
  for (int i = 0; i < kBurst; ++i) must(lwmq_send_queue_post(channels_.queue, &made_[i]));
}

/* A channel of its own for each burst: what waits in it nobody receives. */
static void alone_prepare(void) {
  must(lwmq_channel_create("loop://post_bench_alone", NULL, &channels_.sender));
  must(lwmq_channel_add_send_queue(channels_.sender, NULL, &channels_.queue));
  must(lwmq_channel_open(channels_.sender, LWMQ_ROLE_SERVER));
}

static void alone_settle(void) { lwmq_channel_destroy(channels_.sender); }

/* ---- mutex */

static void mutex_burst(void) {
  for (int i = 0; i < kBurst; ++i) locked_put(payload_, bytes_);
}

static uint64_t mutex_receive(void) { return locked_take(bytes_); }

/* ---- zmq */

static zmq_calls zmq_;
static void *zmq_sending_, *zmq_receiving_;
static uint64_t incoming_[kBytesMax / 8];

static void* zmq_pair(void* context) {
  const int no_mark = 0;
  void* made = zmq_.socket(context, kZmqPair);
  if (made == NULL || zmq_.setsockopt(made, kZmqSendMark, &no_mark, sizeof(no_mark)) != 0 ||
      zmq_.setsockopt(made, kZmqReceiveMark, &no_mark, sizeof(no_mark)) != 0)
    die("zmq");
  return made;
}

static void zmq_open(void) {
  zmq_ = load_zmq();
  void* context = zmq_.ctx_new();
  zmq_receiving_ = zmq_pair(context);
  zmq_sending_ = zmq_pair(context);
  if (zmq_.bind(zmq_receiving_, "inproc://post_bench") != 0 ||
      zmq_.connect(zmq_sending_, "inproc://post_bench") != 0)
    die("zmq");
}

static void zmq_burst(void) {
  for (int i = 0; i < kBurst; ++i)
    if (zmq_.send(zmq_sending_, payload_, bytes_, 0) != (int)bytes_) die("zmq_send");
}

static uint64_t zmq_receive(void) {
  if (zmq_.recv(zmq_receiving_, incoming_, bytes_, 0) != (int)bytes_) die("zmq_recv");
  return read_all(incoming_, bytes_);
}

static const struct peer {
  const char* name;
  void (*open)(void);
  void (*prepare)(void);
  void (*burst)(void);  /* posts kBurst messages */
  void (*check)(void);  /* before anybody receives */
  void (*settle)(void); /* while the other thread receives */
  uint64_t (*receive)(void);
  int others; /* messages that prepare has posted */
} kPeers[] = {
    {"floor", floor_open, floor_prepare, floor_burst, nothing, nothing, floor_receive, 0},
    {"lwmq", lwmq_open, lwmq_prepare, lwmq_burst, lwmq_check, lwmq_settle, lwmq_receive, kFill},
    {"lwmq-many", lwmq_open, lwmq_prepare, many_burst, lwmq_check, lwmq_settle, lwmq_receive, kFill},
    {"lwmq-made", lwmq_open, made_prepare, made_burst, lwmq_check, lwmq_settle, lwmq_receive, kFill},
    {"lwmq-alone", nothing, alone_prepare, lwmq_burst, lwmq_check, alone_settle, NULL, 0},
    {"mutex", nothing, nothing, mutex_burst, nothing, nothing, mutex_receive, 0},
    {"zmq", zmq_open, nothing, zmq_burst, nothing, nothing, zmq_receive, 0},
};
enum { kPeerCount = sizeof(kPeers) / sizeof(kPeers[0]) };

/* ---- Two threads. Messages are received when they are due. */

static const struct peer* peer_ = kPeers;
static int receiving_core_;
static struct {
  _Alignas(64) _Atomic int64_t due;      /* written by the poster */
  _Alignas(64) _Atomic int64_t received; /* written by the receiver */
} progress_;

static void* receive_what_is_due(void* unused) {
  stay_on(receiving_core_);
  int64_t count = 0;
  for (int64_t due; (due = atomic_load(&progress_.due)) >= 0; _mm_pause()) {
    if (count == due) continue;
    for (; count < due; ++count)
      if (peer_->receive() != bytes_ / 8) die("another message than was posted");
    atomic_store(&progress_.received, count);
  }
  return unused;
}

static uint64_t time_burst(void) {
  peer_->prepare();
  const uint64_t begun = now_ns();
  peer_->burst();
  const uint64_t taken = now_ns() - begun;
  peer_->check();
  if (peer_->receive != NULL) atomic_fetch_add(&progress_.due, kBurst + peer_->others);
  peer_->settle();
  while (atomic_load(&progress_.received) != atomic_load(&progress_.due)) _mm_pause();
  return taken;
}

int main(int argc, char** argv) {
  if (argc != 6) die("usage: post_bench PEER BYTES SECONDS CORE CORE");
  while (peer_ < kPeers + kPeerCount && strcmp(peer_->name, argv[1]) != 0) ++peer_;
  bytes_ = strtoull(argv[2], NULL, 10) / 8 * 8;
  if (peer_ == kPeers + kPeerCount || bytes_ == 0 || bytes_ > kBytesMax) die("no such peer, or no such size");
  receiving_core_ = atoi(argv[5]);
  stay_on(atoi(argv[4]));
  payload_ = make_payload(bytes_);
  peer_->open();
  pthread_t thread;
  if (pthread_create(&thread, NULL, receive_what_is_due, NULL) != 0) die("pthread_create");
  const uint64_t warm = now_ns() + (uint64_t)(0.3e9 * strtod(argv[3], NULL));
  while (now_ns() < warm) time_burst();
  const uint64_t end = now_ns() + (uint64_t)(1e9 * strtod(argv[3], NULL));
  uint64_t posting_ns = 0, bursts = 0;
  for (; now_ns() < end; ++bursts) posting_ns += time_burst();
  atomic_store(&progress_.due, -1);
  pthread_join(thread, NULL);
  printf("{\"per_second\": %.1f, \"bursts\": %llu}\n", (double)bursts * kBurst * 1e9 / (double)posting_ns,
         (unsigned long long)bursts);
  return 0;
}
