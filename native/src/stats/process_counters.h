// What this process has done since it loaded the library. Written relaxed by whoever did it, read by
// lwmq_query_statistics: a reader may see one counter a moment before another, never a torn one.
#pragma once

#include <atomic>
#include <cstdint>

namespace lwmq::stats {

struct ProcessCounters {
  std::atomic<std::uint64_t> window_bytes{0};  // held by windows of our own
  std::atomic<std::uint64_t> mapped_bytes{0};  // windows of peers mapped here
  std::atomic<std::uint64_t> batches_written{0}, batches_read{0};
  std::atomic<std::uint64_t> bytes_written{0}, bytes_read{0};
  std::atomic<std::uint64_t> bytes_copied{0}, batches_copied{0};
  std::atomic<std::uint64_t> peers_lost{0};
};

inline ProcessCounters& process() noexcept {
  static ProcessCounters counters;
  return counters;
}

inline void add(std::atomic<std::uint64_t>& counter, std::uint64_t amount) noexcept {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

inline void subtract(std::atomic<std::uint64_t>& counter, std::uint64_t amount) noexcept {
  counter.fetch_sub(amount, std::memory_order_relaxed);
}

}  // namespace lwmq::stats
