// Timeouts of the interface, in milliseconds, as points in time; and sleeping until then.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/status.h"
#include "lwmq/lwmq.h"
#include "os/clock.h"
#include "os/futex.h"

namespace lwmq::os {

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

// Sleeps while `changes`, which counts what threads of ours change, is `seen`. LWMQ_OK: look again.
// LWMQ_E_TIMED_OUT, LWMQ_E_INTERRUPTED.
inline Status wait_for_change(std::uint32_t seen, std::int64_t deadline,
                              const std::atomic<std::uint32_t>& changes) noexcept {
  const std::uint32_t left = ms_left(deadline);
  if (left == 0) return LWMQ_E_TIMED_OUT;
  const std::int64_t timeout_ns = left == LWMQ_FOREVER ? -1 : left * kMillisecond;
  const auto result = os::futex_wait(changes, seen, timeout_ns, os::Sleepers::kOfThisProcess);
  return result == os::WaitResult::kInterrupted ? LWMQ_E_INTERRUPTED : LWMQ_OK;
}

}  // namespace lwmq::os
