/* cores_bench PEER BYTES SECONDS CORE CORE...: what threads get done that have nothing to do with each other,
 * one on each core: first each of them alone, then all of them together.
 *
 *   floor   the payload copied into memory of the thread, and read there
 *   lwmq    two channels over loop:// for each thread, which posts and receives
 *   zmq     two PAIRs over inproc:// for each thread, of one context
 *   mutex   a list under a mutex, the same for all of them
 *
 * A thread sends kBurst messages, and receives as many. Prints one JSON object: messages of all threads
 * per second while they run together, and that as a share of the sum of what each did alone. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "locked.h"
#include "pair.h"
#include "zmq.h"

enum { kBytesMax = 4096, kBurst = 64, kThreadsMax = 64, kLook = 16 };

static size_t bytes_;
static uint64_t* payload_;

/* What a thread has for itself; nobody else's cache line is touched by what is done with it. */
typedef struct worker {
  _Alignas(128) int core;
  double share_s;
  double per_second;
  uint8_t* memory;
  pair channels;
  void *sending, *receiving;
} worker;

/* ---- floor */

static void floor_open(worker* w, int number) {
  (void)number;
  w->memory = aligned_alloc(64, kBurst * kBytesMax);
  if (w->memory == NULL) die("malloc");
}

static void floor_burst(worker* w) {
  for (int i = 0; i < kBurst; ++i) memcpy(w->memory + (size_t)i * bytes_, payload_, bytes_);
}

static uint64_t floor_receive(worker* w, int i) { return read_all(w->memory + (size_t)i * bytes_, bytes_); }

/* ---- lwmq */

static void lwmq_open(worker* w, int number) {
  char address[64];
  snprintf(address, sizeof(address), "loop://cores_bench-%d", number);
  w->channels = make_pair(address, (lwmq_channel_options){.buffer_bytes = 64 << 10});
}

static void lwmq_burst(worker* w) {
  for (int i = 0; i < kBurst; ++i) must(lwmq_send_queue_post_bytes(w->channels.queue, payload_, bytes_));
}

static uint64_t lwmq_receive(worker* w, int i) {
  (void)i;
  return read_next(&w->channels);
}

/* ---- zmq */

static zmq_calls zmq_;
static void* context_;

static void zmq_open(worker* w, int number) {
  if (context_ == NULL) {
    zmq_ = load_zmq();
    context_ = zmq_.ctx_new();
  }
  char address[64];
  snprintf(address, sizeof(address), "inproc://cores_bench-%d", number);
  w->receiving = zmq_.socket(context_, kZmqPair);
  w->sending = zmq_.socket(context_, kZmqPair);
  if (w->receiving == NULL || w->sending == NULL || zmq_.bind(w->receiving, address) != 0 ||
      zmq_.connect(w->sending, address) != 0)
    die("zmq");
  w->memory = aligned_alloc(64, kBytesMax);
  if (w->memory == NULL) die("malloc");
}

static void zmq_burst(worker* w) {
  for (int i = 0; i < kBurst; ++i)
    if (zmq_.send(w->sending, payload_, bytes_, 0) != (int)bytes_) die("zmq_send");
}

static uint64_t zmq_receive(worker* w, int i) {
  (void)i;
  if (zmq_.recv(w->receiving, w->memory, bytes_, 0) != (int)bytes_) die("zmq_recv");
  return read_all(w->memory, bytes_);
}

/* ---- mutex */

static void mutex_open(worker* w, int number) {
  (void)w;
  (void)number;
}

static void mutex_burst(worker* w) {
  (void)w;
  for (int i = 0; i < kBurst; ++i) locked_put(payload_, bytes_);
}

static uint64_t mutex_receive(worker* w, int i) {
  (void)w;
  (void)i;
  return locked_take(bytes_);
}

static const struct peer {
  const char* name;
  void (*open)(worker* w, int number);
  void (*burst)(worker* w); /* sends kBurst messages */
  uint64_t (*receive)(worker* w, int i);
} kPeers[] = {{"floor", floor_open, floor_burst, floor_receive},
              {"lwmq", lwmq_open, lwmq_burst, lwmq_receive},
              {"zmq", zmq_open, zmq_burst, zmq_receive},
              {"mutex", mutex_open, mutex_burst, mutex_receive}};
enum { kPeerCount = sizeof(kPeers) / sizeof(kPeers[0]) };

/* ---- Threads */

static const struct peer* peer_ = kPeers;
static atomic_int awaited_; /* threads that have yet to begin */

static uint64_t run_for(worker* w, double seconds) {
  const uint64_t end = now_ns() + (uint64_t)(1e9 * seconds);
  uint64_t count = 0;
  do {
    for (int look = 0; look < kLook; ++look) {
      peer_->burst(w);
      for (int i = 0; i < kBurst; ++i)
        if (peer_->receive(w, i) != bytes_ / 8) die("another message than was sent");
      count += kBurst;
    }
  } while (now_ns() < end);
  return count;
}

static void* work(void* argument) {
  worker* w = argument;
  stay_on(w->core);
  atomic_fetch_sub(&awaited_, 1);
  while (atomic_load(&awaited_) > 0) continue;
  run_for(w, 0.3 * w->share_s);
  const uint64_t begun = now_ns();
  const uint64_t count = run_for(w, w->share_s);
  w->per_second = (double)count * 1e9 / (double)(now_ns() - begun);
  run_for(w, 0.1 * w->share_s); /* so that nobody is alone while he is timed */
  return NULL;
}

/* Messages per second of them all. */
static double run_together(worker* workers, int count) {
  pthread_t threads[kThreadsMax];
  atomic_store(&awaited_, count);
  for (int i = 0; i < count; ++i)
    if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) die("pthread_create");
  double sum = 0;
  for (int i = 0; i < count; ++i) {
    pthread_join(threads[i], NULL);
    sum += workers[i].per_second;
  }
  return sum;
}

int main(int argc, char** argv) {
  const int count = argc - 4;
  if (count < 1 || count > kThreadsMax) die("usage: cores_bench PEER BYTES SECONDS CORE CORE...");
  while (peer_ < kPeers + kPeerCount && strcmp(peer_->name, argv[1]) != 0) ++peer_;
  bytes_ = strtoull(argv[2], NULL, 10) / 8 * 8;
  if (peer_ == kPeers + kPeerCount || bytes_ == 0 || bytes_ > kBytesMax) die("no such peer, or no such size");
  payload_ = make_payload(bytes_);
  worker workers[kThreadsMax];
  for (int i = 0; i < count; ++i) {
    workers[i] = (worker){.core = atoi(argv[4 + i]), .share_s = strtod(argv[3], NULL) / (count + 1)};
    peer_->open(&workers[i], i);
  }
  double alone = 0;
  for (int i = 0; i < count; ++i) alone += run_together(&workers[i], 1);
  const double together = run_together(workers, count);
  printf("{\"per_second\": %.1f, \"alone_per_second\": %.1f, \"linear\": %.4f, \"cores\": %d}\n", together,
         alone, together / alone, count);
  return 0;
}
