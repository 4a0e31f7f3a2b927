/* channels_bench PEER ROLE COUNT BYTES SECONDS ADDRESS CORE [CORE]: many conversations, and the latency of
 * one of them.
 *
 *   PEER   lwmq (a channel each, buffers of BYTES), uds (a pair of local sockets each); between processes one
 *          listener for them all
 *   ROLE   serve (started first) or ask, in two processes of COUNT ends each;
 *          both, for lwmq over loop://: two threads of one process, with COUNT ends in all
 *
 * All are opened and exchange a message of kMessage bytes; then each process looks at itself; then the first
 * conversation goes on, as a latency run of native_bench does, while the others are idle. Each process prints
 * one JSON object. */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

enum { kMessage = 64, kPatienceMs = 10000, kDescriptors = 200000 };

typedef enum side { kAsking, kServing } side;

static int count_; /* of conversations */
static const char *scheme_, *address_;
static size_t buffer_bytes_;

/* ---- lwmq */

static lwmq_channel** channels_[2];
static lwmq_send_queue** queues_[2];
static lwmq_listener* listener_; /* null where each channel has an address of its own */

static void lwmq_open(side s) {
  const lwmq_channel_options options = {
      .size = sizeof(options), .buffer_bytes = buffer_bytes_, .buffers_send = 2, .buffers_receive = 2};
  const int of_one_listener = strcmp(scheme_, "ipc") == 0;
  char uri[300];
  channels_[s] = calloc((size_t)count_, sizeof(*channels_[s]));
  queues_[s] = calloc((size_t)count_, sizeof(*queues_[s]));
  if (channels_[s] == NULL || queues_[s] == NULL) die("malloc");
  snprintf(uri, sizeof(uri), "%s://%s", scheme_, address_);
  if (of_one_listener && s == kServing) {
    must(lwmq_listener_open(uri, &options, &listener_));
    return;
  }
  for (int i = 0; i < count_; ++i) {
    if (!of_one_listener) snprintf(uri, sizeof(uri), "%s://%s-%d", scheme_, address_, i);
    must(lwmq_channel_create(uri, &options, &channels_[s][i]));
    must(lwmq_channel_add_send_queue(channels_[s][i], NULL, &queues_[s][i]));
    must(lwmq_channel_open(channels_[s][i], s == kServing ? LWMQ_ROLE_SERVER : LWMQ_ROLE_CLIENT));
    /* One after the other, so that they are accepted in this order. */
    if (of_one_listener) must(lwmq_channel_wait_connected(channels_[s][i], kPatienceMs));
  }
}

static void lwmq_meet(side s) {
  if (listener_ != NULL) {
    for (int i = 0; i < count_; ++i) {
      must(lwmq_listener_accept(listener_, kPatienceMs, &channels_[s][i]));
      must(lwmq_channel_add_send_queue(channels_[s][i], NULL, &queues_[s][i]));
    }
    return;
  }
  for (int i = 0; i < count_; ++i) must(lwmq_channel_wait_connected(channels_[s][i], kPatienceMs));
}

static void lwmq_send(side s, int i, uint64_t word) {
  const uint64_t words[kMessage / 8] = {word};
  must(lwmq_send_queue_post_bytes(queues_[s][i], words, kMessage));
}

static uint64_t lwmq_receive(side s, int i) {
  lwmq_message* message;
  const void* data;
  uint64_t bytes;
  must(lwmq_channel_receive(channels_[s][i], kPatienceMs, &message));
  must(lwmq_message_frame(message, 0, &data, &bytes));
  const uint64_t word = *(const uint64_t*)data;
  lwmq_message_destroy(message);
  return word;
}

static void lwmq_close(side s) {
  for (int i = 0; i < count_; ++i) lwmq_channel_close(channels_[s][i], i == 0 ? 1000 : 0);
  for (int i = 0; i < count_; ++i) lwmq_channel_destroy(channels_[s][i]);
  lwmq_listener_destroy(listener_);
}

/* ---- local sockets: one listener for them all */

static int* sockets_;

static void uds_open(side s) {
  sockets_ = calloc((size_t)count_, sizeof(*sockets_));
  if (sockets_ == NULL) die("malloc");
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  const int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "%s", address_);
  const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
  const int listener = s == kServing ? socket(AF_UNIX, SOCK_SEQPACKET, 0) : -1;
  if (s == kServing && (bind(listener, (struct sockaddr*)&name, size) != 0 || listen(listener, 100) != 0))
    die("bind");
  for (int i = 0; i < count_; ++i) {
    sockets_[i] = s == kServing ? accept(listener, NULL, NULL) : socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (sockets_[i] < 0) die("socket");
    const struct timespec pause = {.tv_nsec = 10000000};
    for (int tries = 0; s == kAsking && connect(sockets_[i], (struct sockaddr*)&name, size) != 0; ++tries) {
      if (tries == 500) die("connect");
      nanosleep(&pause, NULL);
    }
  }
  if (listener >= 0) close(listener);
}

static void uds_meet(side s) { (void)s; }

static void uds_send(side s, int i, uint64_t word) {
  (void)s;
  const uint64_t words[kMessage / 8] = {word};
  if (send(sockets_[i], words, kMessage, MSG_NOSIGNAL) != kMessage) die("send");
}

static uint64_t uds_receive(side s, int i) {
  (void)s;
  uint64_t words[kMessage / 8];
  if (recv(sockets_[i], words, kMessage, 0) != kMessage) die("recv");
  return words[0];
}

static void uds_close(side s) {
  (void)s;
  for (int i = 0; i < count_; ++i) close(sockets_[i]);
}

static const struct peer {
  const char* name;
  void (*open)(side s); /* does not wait for the other side */
  void (*meet)(side s); /* this does */
  void (*send)(side s, int i, uint64_t word);
  uint64_t (*receive)(side s, int i);
  void (*close)(side s);
} kPeers[] = {{"lwmq", lwmq_open, lwmq_meet, lwmq_send, lwmq_receive, lwmq_close},
              {"uds", uds_open, uds_meet, uds_send, uds_receive, uds_close}};
enum { kPeerCount = sizeof(kPeers) / sizeof(kPeers[0]) };

/* ---- A look at oneself */

static int entries_of(const char* path) {
  int count = 0;
  DIR* folder = opendir(path);
  if (folder == NULL) die(path);
  for (const struct dirent* entry; (entry = readdir(folder)) != NULL;) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

/* Kilobytes of a line of /proc/self/smaps_rollup, in bytes. Pages that are shared count whole in Rss, and by
 * their share in Pss. */
static uint64_t memory_of(const char* name) {
  char line[256];
  unsigned long long kilobytes = 0;
  FILE* file = fopen("/proc/self/smaps_rollup", "re");
  if (file == NULL) die("smaps_rollup");
  while (fgets(line, sizeof(line), file) != NULL)
    if (strncmp(line, name, strlen(name)) == 0) sscanf(line + strlen(name), " %llu", &kilobytes);
  fclose(file);
  return kilobytes * 1024;
}

/* Members of a JSON object, with a comma between them. */
static void print_look(void) {
  /* The folder's own descriptor is one of those that are counted. */
  printf("\"rss_bytes\": %llu, \"pss_bytes\": %llu, \"descriptors\": %d, \"threads\": %d",
         (unsigned long long)memory_of("Rss:"), (unsigned long long)memory_of("Pss:"),
         entries_of("/proc/self/fd") - 1, entries_of("/proc/self/task"));
}

/* As many as a run may need, where we have the right to; else as many as we are allowed. */
static rlim_t allow_descriptors(void) {
  struct rlimit limit = {.rlim_cur = kDescriptors, .rlim_max = kDescriptors};
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return kDescriptors;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) die("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) die("setrlimit");
  return limit.rlim_cur;
}

/* ---- The two sides */

static const struct peer* peer_ = kPeers;
static int serving_core_;

static void answer_all(void) {
  peer_->meet(kServing);
  for (int i = 0; i < count_; ++i) peer_->send(kServing, i, peer_->receive(kServing, i));
}

static void answer_first(void) {
  for (uint64_t word; (word = peer_->receive(kServing, 0)) != kStop;) peer_->send(kServing, 0, word);
}

static void* answer(void* unused) {
  stay_on(serving_core_);
  answer_all();
  answer_first();
  return unused;
}

static void ask_all(void) {
  peer_->meet(kAsking);
  for (int i = 0; i < count_; ++i) {
    peer_->send(kAsking, i, 1);
    peer_->receive(kAsking, i);
  }
}

static samples ask_first(double seconds) {
  samples taken = make_samples();
  const uint64_t warm = now_ns() + (uint64_t)(0.3e9 * seconds), end = warm + (uint64_t)(1e9 * seconds);
  for (uint64_t before = now_ns(); before < end;) {
    peer_->send(kAsking, 0, 1);
    peer_->receive(kAsking, 0);
    const uint64_t after = now_ns();
    if (before > warm) add_sample(&taken, after - before);
    before = after;
  }
  peer_->send(kAsking, 0, kStop);
  return taken;
}

int main(int argc, char** argv) {
  if (argc < 8) die("usage: channels_bench PEER ROLE COUNT BYTES SECONDS ADDRESS CORE [CORE]");
  while (peer_ < kPeers + kPeerCount && strcmp(peer_->name, argv[1]) != 0) ++peer_;
  if (peer_ == kPeers + kPeerCount) die("no such peer");
  const int serves = strcmp(argv[2], "serve") == 0, both = strcmp(argv[2], "both") == 0;
  if (both && argc != 9) die("two threads need two cores");
  const int ends = atoi(argv[3]);
  count_ = both ? ends / 2 : ends;
  scheme_ = both ? "loop" : "ipc";
  buffer_bytes_ = strtoull(argv[4], NULL, 10);
  address_ = argv[6];
  stay_on(atoi(argv[7]));
  const rlim_t allowed = allow_descriptors();

  pthread_t thread;
  const uint64_t begun = now_ns();
  if (serves || both) peer_->open(kServing);
  if (!serves) peer_->open(kAsking);
  if (both) {
    serving_core_ = atoi(argv[8]);
    if (pthread_create(&thread, NULL, answer, NULL) != 0) die("pthread_create");
  }
  if (serves)
    answer_all();
  else
    ask_all();
  printf("{\"count\": %d, \"open_s\": %.3f, \"descriptors_max\": %llu, ", ends,
         (double)(now_ns() - begun) / 1e9, (unsigned long long)allowed);
  print_look();
  if (serves) {
    printf("}\n");
    answer_first();
  } else {
    printf(", ");
    const samples taken = ask_first(strtod(argv[5], NULL));
    print_percentiles(taken, 2.0, "");
    printf("\"round_trips\": %zu}\n", taken.count);
  }
  if (both) pthread_join(thread, NULL);
  if (serves || both) peer_->close(kServing);
  if (!serves) peer_->close(kAsking);
  return 0;
}
