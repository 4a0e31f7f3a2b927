// Timeouts of the interface, in milliseconds, as points in time.
#pragma once

#include <cstdint>

#include "lwmq/lwmq.h"
#include "os/clock.h"

namespace lwmq::channel {

inline constexpr std::int64_t kMillisecond = 1'000'000;
inline constexpr std::int64_t kNoDeadline = INT64_MAX;
// A thread that waits in a transport cannot be woken by a close from another thread of ours: it looks that
// often.
inline constexpr std::uint32_t kWaitSliceMs = 250;

inline std::int64_t deadline_of(std::uint32_t timeout_ms) noexcept {
  return timeout_ms == LWMQ_FOREVER ? kNoDeadline : os::now_ns() + timeout_ms * kMillisecond;
}

// LWMQ_FOREVER where there is no deadline; at least 1 before it, 0 after.
inline std::uint32_t ms_left(std::int64_t deadline) noexcept {
  if (deadline == kNoDeadline) return LWMQ_FOREVER;
  const std::int64_t left = deadline - os::now_ns();
  return left <= 0 ? 0 : static_cast<std::uint32_t>((left + kMillisecond - 1) / kMillisecond);
}

}  // namespace lwmq::channel
