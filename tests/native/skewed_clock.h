// A process whose monotonic clock can be put forward: for what is given up after seconds. Included once in a
// test program.
#pragma once

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace lwmq {

inline std::atomic<long> clock_is_ahead_s{0};

}  // namespace lwmq

extern "C" inline __attribute__((used)) int clock_gettime(clockid_t clock, timespec* out) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, out);
  if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE) out->tv_sec += lwmq::clock_is_ahead_s;
  return static_cast<int>(result);
}
