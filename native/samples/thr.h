/* What both ends of the throughput tools agree on, and what they print: as the tools of this kind that others
 * have. */
#ifndef LWMQ_SAMPLE_THR_H
#define LWMQ_SAMPLE_THR_H

#include <stdint.h>
#include <time.h>

#include "check.h"

enum { kWaitMs = 10000 };

typedef struct task {
  const char* address;
  uint64_t bytes, count;
} task;

/* A ring of 4 MiB: more than a core's own cache, so that both sides seldom ask for one line at a time. */
static const lwmq_channel_options kOptions = {
    .size = sizeof kOptions, .buffer_bytes = 64 << 10, .buffers_send = 64, .home_thread = 1};

static const uint64_t kNoNumber = UINT64_MAX;

static inline uint64_t number_of(const char* text) {
  char* end;
  const long long number = strtoll(text, &end, 10);
  return *text == '\0' || *end != '\0' || number < 0 ? kNoNumber : (uint64_t)number;
}

static inline task read_task(int argc, char** argv) {
  task asked = {0};
  if (argc == 4) {
    asked.address = argv[1];
    asked.bytes = number_of(argv[2]);
    asked.count = number_of(argv[3]);
  }
  if (asked.bytes == kNoNumber || asked.count == kNoNumber || asked.count < 2) {
    fprintf(stderr, "usage: %s ADDRESS BYTES COUNT, the same at both ends; at least two messages\n", argv[0]);
    exit(2);
  }
  return asked;
}

static inline lwmq_channel* make_channel(const task* asked) {
  lwmq_channel* channel;
  CHECK(lwmq_channel_create(asked->address, &kOptions, &channel));
  return channel;
}

static inline double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void print_throughput(const task* asked, uint64_t messages, double seconds) {
  const double per_second = (double)messages / seconds;
  printf("message size: %llu [B]\n", (unsigned long long)asked->bytes);
  printf("message count: %llu\n", (unsigned long long)asked->count);
  printf("mean throughput: %.0f [msg/s]\n", per_second);
  printf("mean throughput: %.3f [Mb/s]\n", per_second * (double)asked->bytes * 8 / 1e6);
}

#endif
