/* in_process_bench PEER BYTES SECONDS CORE CORE: messages from one thread to another, per second.
 *
 *   PEER   lwmq (loop://, each channel at home on its thread), mutex (a list under a mutex and a condition),
 *          uds (a pair of local sockets)
 *
 * The same work for all: the sender makes a message with BYTES bytes in it, the receiver reads all of them
 * and gives the message back. Prints one JSON object. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common.h"
#include "pair.h"

enum { kBytesMax = 1 << 20, kFlushEach = 1000, kQueuedMax = 10000 };

static size_t bytes_;
static uint8_t payload_[kBytesMax];

/* ---- lwmq */

static pair channels_;
static uint64_t posted_;

static const lwmq_channel_options kOptions = {.buffer_bytes = 2 * kBytesMax, .home_thread = 1};

static void lwmq_open_receiver(void) { open_receiver("loop://in_process_bench", kOptions, &channels_); }
static void lwmq_open_sender(void) { open_sender("loop://in_process_bench", kOptions, &channels_); }

static void lwmq_send(void) {
  if (bytes_ <= 128) {
    must(lwmq_send_queue_post_bytes(channels_.queue, payload_, bytes_));
  } else {
    lwmq_message* message;
    must(lwmq_message_create(1, &message));
    must(lwmq_message_append(message, payload_, bytes_));
    must(lwmq_send_queue_post(channels_.queue, &message));
  }
  if (++posted_ % kFlushEach == 0) must(lwmq_channel_flush(channels_.sender, LWMQ_FOREVER));
}

static uint64_t lwmq_receive(void) { return read_next(&channels_); }

/* ---- mutex */

typedef struct node {
  struct node* next;
  uint8_t data[];
} node;

static pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled_ = PTHREAD_COND_INITIALIZER, emptied_ = PTHREAD_COND_INITIALIZER;
static node *first_, **last_ = &first_;
static int count_;

static void mutex_send(void) {
  node* made = malloc(sizeof(*made) + bytes_);
  if (made == NULL) die("malloc");
  made->next = NULL;
  memcpy(made->data, payload_, bytes_);
  pthread_mutex_lock(&mutex_);
  while (count_ == kQueuedMax) pthread_cond_wait(&emptied_, &mutex_);
  *last_ = made;
  last_ = &made->next;
  if (count_++ == 0) pthread_cond_signal(&filled_);
  pthread_mutex_unlock(&mutex_);
}

static uint64_t mutex_receive(void) {
  pthread_mutex_lock(&mutex_);
  while (first_ == NULL) pthread_cond_wait(&filled_, &mutex_);
  node* taken = first_;
  first_ = taken->next;
  if (first_ == NULL) last_ = &first_;
  if (count_-- == kQueuedMax) pthread_cond_signal(&emptied_);
  pthread_mutex_unlock(&mutex_);
  const uint64_t sum = read_all(taken->data, bytes_);
  free(taken);
  return sum;
}

/* ---- local socket */

static int pair_[2];
static uint8_t incoming_[kBytesMax];

static void uds_open(void) {
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair_) != 0) die("socketpair");
}

static void uds_send(void) {
  if (send(pair_[0], payload_, bytes_, 0) != (ssize_t)bytes_) die("send");
}

static uint64_t uds_receive(void) {
  if (recv(pair_[1], incoming_, bytes_, 0) != (ssize_t)bytes_) die("recv");
  return read_all(incoming_, bytes_);
}

static void nothing(void) {}

static const struct {
  const char* name;
  void (*open)(void);
  void (*open_receiver)(void); /* on the thread that receives */
  void (*open_sender)(void);   /* on the other one, then */
  void (*send)(void);
  uint64_t (*receive)(void);
} kPeers[] = {
    {"lwmq", nothing, lwmq_open_receiver, lwmq_open_sender, lwmq_send, lwmq_receive},
    {"mutex", nothing, nothing, nothing, mutex_send, mutex_receive},
    {"uds", uds_open, nothing, nothing, uds_send, uds_receive},
};

static int peer_, receiving_core_;

/* Every word of an ordinary message is 1; the sum of the last one is another. */
static void* receive_to_the_end(void* received) {
  stay_on(receiving_core_);
  kPeers[peer_].open_receiver();
  uint64_t count = 0;
  while (kPeers[peer_].receive() == bytes_ / 8) ++count;
  *(uint64_t*)received = count;
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 6) die("usage: in_process_bench PEER BYTES SECONDS CORE CORE");
  while (peer_ < 3 && strcmp(kPeers[peer_].name, argv[1]) != 0) ++peer_;
  bytes_ = strtoull(argv[2], NULL, 10) / 8 * 8;
  if (peer_ == 3 || bytes_ == 0 || bytes_ > kBytesMax) die("no such peer, or no such size");
  receiving_core_ = atoi(argv[5]);
  stay_on(atoi(argv[4]));
  for (size_t i = 0; i < bytes_ / 8; ++i) ((uint64_t*)payload_)[i] = 1;
  kPeers[peer_].open();
  uint64_t received = 0;
  pthread_t thread;
  if (pthread_create(&thread, NULL, receive_to_the_end, &received) != 0) die("pthread_create");
  kPeers[peer_].open_sender();
  const uint64_t begun = now_ns(), end = begun + (uint64_t)(1e9 * strtod(argv[3], NULL));
  do {
    for (int i = 0; i < 256; ++i) kPeers[peer_].send();
  } while (now_ns() < end);
  ((uint64_t*)payload_)[0] = kStop;
  kPeers[peer_].send();
  if (peer_ == 0) must(lwmq_channel_flush(channels_.sender, LWMQ_FOREVER));
  pthread_join(thread, NULL);
  const double taken = (double)(now_ns() - begun) / 1e9;
  printf("{\"per_second\": %.1f, \"bytes_per_second\": %.1f, \"messages\": %llu}\n", (double)received / taken,
         (double)received * (double)bytes_ / taken, (unsigned long long)received);
  return 0;
}
