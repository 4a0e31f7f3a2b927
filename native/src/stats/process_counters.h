// What this process has done since it loaded the library. Any thread writes these counters, with relaxed
// stores. lwmq_query_statistics reads them, and so do other processes, on the statistics page. A reader may
// see one counter a moment before another, but never a torn one.
#pragma once

#include <atomic>
#include <cstdint>

#include "lwmq/lwmq.h"

namespace lwmq::stats {

using Counter = std::atomic<std::uint64_t>;

// A line of the tables of counters in lwmq.h, as a member.
#define LWMQ_STATS_COUNTER(name, ...) ::lwmq::stats::Counter name{0};

struct ProcessCounters {
  LWMQ_PROCESS_COUNTERS(LWMQ_STATS_COUNTER)
};

// The counters of this process. They lie on its statistics page (page.h), which the first call makes.
ProcessCounters& process() noexcept;

inline std::uint64_t get(const Counter& counter) noexcept { return counter.load(std::memory_order_relaxed); }

inline void add(Counter& counter, std::uint64_t amount) noexcept {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

inline void subtract(Counter& counter, std::uint64_t amount) noexcept {
  counter.fetch_sub(amount, std::memory_order_relaxed);
}

// For a counter that one thread at a time writes.
inline void set(Counter& counter, std::uint64_t value) noexcept {
  counter.store(value, std::memory_order_relaxed);
}

}  // namespace lwmq::stats
