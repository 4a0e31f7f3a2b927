// What this process has done since it loaded the library. Written relaxed by whoever did it, read by
// lwmq_query_statistics and, on the statistics page, by other processes: a reader may see one counter a
// moment before another, never a torn one.
#pragma once

#include <atomic>
#include <cstdint>

namespace lwmq::stats {

using Counter = std::atomic<std::uint64_t>;

struct ProcessCounters {
  Counter window_bytes{0};  // held by windows of our own
  Counter mapped_bytes{0};  // windows of peers mapped here
  Counter batches_written{0}, batches_read{0};
  Counter bytes_written{0}, bytes_read{0};
  Counter bytes_copied{0}, batches_copied{0};
  Counter peers_lost{0};
};

// Those of this process; on its statistics page (page.h), which the first use makes.
ProcessCounters& process() noexcept;

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
