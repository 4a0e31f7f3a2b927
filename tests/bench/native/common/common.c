#include "common.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void die(const char* what) {
  fprintf(stderr, "%s: %s: %s; %s\n", program_invocation_short_name, what, strerror(errno),
          lwmq_last_error());
  exit(1);
}

uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

void stay_on(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  if (sched_setaffinity(0, sizeof(cores), &cores) != 0) die("sched_setaffinity");
}

uint64_t* make_payload(size_t bytes) {
  uint64_t* payload = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (payload == NULL) die("malloc");
  for (size_t i = 0; i < bytes / 8; ++i) payload[i] = 1;
  return payload;
}

uint64_t read_lines(const void* data, size_t bytes) {
  const uint64_t* words = data;
  uint64_t sum[8] = {0};
  size_t n = bytes / 8, i = 0;
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; ++k) sum[k] += words[i + k];
  for (; i < n; ++i) sum[0] += words[i];
  return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

samples make_samples(void) {
  samples made = {malloc(kSamplesMax * sizeof(*made.ns)), 0};
  if (made.ns == NULL) die("malloc");
  return made;
}

static int by_value(const void* a, const void* b) {
  const uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
  return (x > y) - (x < y);
}

void print_percentiles(samples kept, double ways, const char* prefix) {
  if (kept.count == 0) die("no round trip was complete");
  double sum = 0;
  for (size_t i = 0; i < kept.count; ++i) sum += kept.ns[i];
  printf("\"%smean_ns\": %.1f, ", prefix, sum / ways / (double)kept.count);
  qsort(kept.ns, kept.count, sizeof(*kept.ns), by_value);
  printf("\"%sp50_ns\": %.1f, \"%sp99_ns\": %.1f, \"%sp999_ns\": %.1f, ", prefix,
         kept.ns[kept.count / 2] / ways, prefix, kept.ns[kept.count - 1 - kept.count / 100] / ways, prefix,
         kept.ns[kept.count - 1 - kept.count / 1000] / ways);
  free(kept.ns);
}
