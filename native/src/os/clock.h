// The two clocks: one for waiting and measuring, one for stamps that other machines read.
#pragma once

#include <cstdint>

namespace lwmq::os {

// CLOCK_MONOTONIC in nanoseconds: for deadlines and durations.
[[nodiscard]] std::int64_t now_ns() noexcept;

// The same clock as of the last tick, some milliseconds old and cheaper: for "since when".
[[nodiscard]] std::int64_t coarse_now_ns() noexcept;

// CLOCK_REALTIME in nanoseconds since 1970: for stamps, never for waiting.
[[nodiscard]] std::uint64_t realtime_ns() noexcept;

// The same clock as of the last tick, some milliseconds old and cheaper.
[[nodiscard]] std::uint64_t coarse_realtime_ns() noexcept;

}  // namespace lwmq::os
