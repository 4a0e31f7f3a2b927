#include "os/clock.h"

#include <ctime>

namespace lwmq::os {
namespace {

std::int64_t read_clock(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);  // cannot fail for these clocks; no system call with a vDSO
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

std::int64_t now_ns() noexcept { return read_clock(CLOCK_MONOTONIC); }

std::int64_t coarse_now_ns() noexcept { return read_clock(CLOCK_MONOTONIC_COARSE); }

std::uint64_t realtime_ns() noexcept { return static_cast<std::uint64_t>(read_clock(CLOCK_REALTIME)); }

std::uint64_t coarse_realtime_ns() noexcept {
  return static_cast<std::uint64_t>(read_clock(CLOCK_REALTIME_COARSE));
}

}  // namespace lwmq::os
