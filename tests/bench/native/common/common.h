/* What the programs of the benchmarks share. */
#ifndef LWMQ_BENCH_COMMON_H
#define LWMQ_BENCH_COMMON_H

#include <lwmq/lwmq.h>
#include <stddef.h>
#include <stdint.h>

/* The first word of a message that ends a run; of every other one it is 1. */
static const uint64_t kStop = ~0ull;

/* Ends the process with a text: what, and why as far as errno and lwmq know. */
void die(const char* what);
static inline void must(lwmq_status status) {
  if (status != LWMQ_OK) die(lwmq_status_name(status));
}

uint64_t now_ns(void);
/* Ties the calling thread to one core. */
void stay_on(int core);
/* `bytes` bytes at a cache line, a multiple of 8, as words that are 1. */
uint64_t* make_payload(size_t bytes);
/* Sum of the 64-bit words at `data`; `bytes` is a multiple of 8. Few without a call. */
uint64_t read_lines(const void* data, size_t bytes);
static inline uint64_t read_all(const void* data, size_t bytes) {
  if (bytes >= 64) return read_lines(data, bytes);
  const uint64_t* words = data;
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes / 8; ++i) sum += words[i];
  return sum;
}

/* Times of one kind; more than kSamplesMax are not kept. */
enum { kSamplesMax = 4 << 20 };
typedef struct samples {
  uint32_t* ns;
  size_t count;
} samples;

samples make_samples(void);
static inline void add_sample(samples* kept, uint64_t ns) {
  if (kept->count < kSamplesMax) kept->ns[kept->count++] = (uint32_t)ns;
}
/* Prints mean and percentiles, each divided by `ways`, as members of a JSON object: "<prefix>p50_ns" and so
 * on, with a comma behind each. Takes the samples. */
void print_percentiles(samples kept, double ways, const char* prefix);

#endif
