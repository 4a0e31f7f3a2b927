/* native_bench PEER METRIC ROLE BYTES SECONDS ADDRESS CORE
 *
 *   PEER    floor, futex, lwmq, lwmq-many (rate only), uds, zmq, mq
 *   METRIC  latency (round trips of two that are awake), wake (one way to one that sleeps) or rate (one way)
 *   ROLE    serve (echoes, times or counts) or ask (measures; prints one JSON object)
 *
 * The runner starts `serve` first, on another core. The first 8 bytes of a message are its meaning: kStop
 * ends. */
#include "peer.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kSamplesMax = 4 << 20 };
static const uint64_t kStop = ~0ull;
/* Longer than anybody looks before it sleeps. */
static const uint64_t kAsleepAfterNs = 500000;

void die(const char* what) {
  fprintf(stderr, "native_bench: %s: %s\n", what, strerror(errno));
  exit(1);
}

uint64_t read_all(const void* data, size_t bytes) {
  const uint64_t* words = data;
  uint64_t sum[8] = {0};
  size_t n = bytes / 8, i = 0;
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; ++k) sum[k] += words[i + k];
  for (; i < n; ++i) sum[0] += words[i];
  return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static int by_value(const void* a, const void* b) {
  const uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
  return (x > y) - (x < y);
}

static uint32_t* make_samples(void) {
  uint32_t* samples = malloc(kSamplesMax * sizeof(*samples));
  if (samples == NULL) die("malloc");
  return samples;
}

/* Prints the percentiles of `samples`, each divided by `ways`, and how many messages went to and fro in all;
 * frees the samples. */
static void report(uint32_t* samples, size_t count, double ways, size_t messages) {
  if (count == 0) die("no round trip was complete");
  qsort(samples, count, sizeof(*samples), by_value);
  printf("{\"p50_ns\": %.1f, \"p99_ns\": %.1f, \"p999_ns\": %.1f, \"round_trips\": %zu, \"messages\": %zu}\n",
         samples[count / 2] / ways, samples[count - 1 - count / 100] / ways,
         samples[count - 1 - count / 1000] / ways, count, messages);
  free(samples);
}

static void ask_latency(const peer* p, uint64_t* payload, size_t bytes, double seconds) {
  uint32_t* samples = make_samples();
  size_t count = 0, messages = 0;
  const uint64_t begun = now_ns();
  const uint64_t warm = begun + (uint64_t)(0.3e9 * seconds), end = warm + (uint64_t)(1e9 * seconds);
  for (uint64_t before = begun; before < end && count < kSamplesMax;) {
    p->send(payload, bytes);
    p->receive(bytes);
    messages += 2;
    const uint64_t after = now_ns();
    if (before > warm) samples[count++] = (uint32_t)(after - before);
    before = after;
  }
  payload[0] = kStop;
  p->send(payload, bytes);
  report(samples, count, 2.0, messages + 1);
}

/* Sends the time to a peer that has had time to fall asleep; the peer answers how long that took. Both
 * processes read one clock. */
static void ask_wake(const peer* p, uint64_t* payload, size_t bytes, double seconds) {
  uint32_t* samples = make_samples();
  size_t count = 0;
  memset(payload, 0, bytes);
  const uint64_t end = now_ns() + (uint64_t)(1e9 * seconds);
  for (uint64_t now = now_ns(); now < end && count < kSamplesMax; now = now_ns()) {
    while (now_ns() < now + kAsleepAfterNs) {
    }
    payload[0] = now_ns();
    p->send(payload, bytes);
    samples[count++] = (uint32_t)p->receive(bytes);
  }
  payload[0] = kStop;
  p->send(payload, bytes);
  report(samples, count, 1.0, 2 * count + 1);
}

static void ask_rate(const peer* p, uint64_t* payload, size_t bytes, double seconds) {
  const uint64_t begun = now_ns(), end = begun + (uint64_t)(1e9 * seconds);
  uint64_t sent = 0;
  const uint64_t between_looks = bytes >= 65536 ? 1 : 256;
  do {
    for (uint64_t i = 0; i < between_looks; ++i) p->send(payload, bytes);
    sent += between_looks;
  } while (now_ns() < end);
  payload[0] = kStop;
  p->send(payload, bytes);
  /* The other side answers when it has read everything. */
  p->receive(bytes);
  const double taken = (double)(now_ns() - begun) / 1e9;
  printf("{\"per_second\": %.1f, \"bytes_per_second\": %.1f, \"messages\": %llu}\n", (double)sent / taken,
         (double)sent * (double)bytes / taken, (unsigned long long)sent);
}

static void serve(const peer* p, uint64_t* payload, size_t bytes, int echo) {
  /* Every word of an ordinary message is 1, so that the sum of a stop message is another one. */
  const uint64_t ordinary = bytes / 8;
  while (p->receive(bytes) == ordinary)
    if (echo) p->send(payload, bytes);
  if (!echo) p->send(payload, bytes);
}

static void serve_wake(const peer* p, uint64_t* payload, size_t bytes) {
  memset(payload, 0, bytes);
  for (uint64_t sent; (sent = p->receive(bytes)) != kStop;) {
    payload[0] = now_ns() - sent;
    p->send(payload, bytes);
  }
}

int main(int argc, char** argv) {
  if (argc != 8) die("usage: native_bench PEER METRIC ROLE BYTES SECONDS ADDRESS CORE");
  const peer* peers[] = {&kFloor, &kFutex, &kLwmq, &kLwmqMany, &kUnixSocket, &kZeroMq, &kPosixQueue};
  const peer* p = NULL;
  for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); ++i)
    if (strcmp(peers[i]->name, argv[1]) == 0) p = peers[i];
  if (p == NULL) die("no such peer");
  const int latency = strcmp(argv[2], "latency") == 0, wake = strcmp(argv[2], "wake") == 0;
  const int server = strcmp(argv[3], "serve") == 0;
  const size_t bytes = strtoull(argv[4], NULL, 10);
  const double seconds = strtod(argv[5], NULL);

  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(atoi(argv[7]), &cores);
  if (sched_setaffinity(0, sizeof(cores), &cores) != 0) die("sched_setaffinity");

  uint64_t* payload = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (payload == NULL) die("malloc");
  for (size_t i = 0; i < bytes / 8; ++i) payload[i] = 1;
  p->open(argv[6], server, bytes);
  if (server && wake)
    serve_wake(p, payload, bytes);
  else if (server)
    serve(p, payload, bytes, latency);
  else if (wake)
    ask_wake(p, payload, bytes, seconds);
  else if (latency)
    ask_latency(p, payload, bytes, seconds);
  else
    ask_rate(p, payload, bytes, seconds);
  p->close();
  free(payload);
  return 0;
}
