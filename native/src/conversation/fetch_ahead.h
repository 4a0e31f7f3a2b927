// Prefetches the next run of messages while the application still reads this one.
//
// The bytes of a message come, one cache line after the other, from the core that wrote them. A thread that
// reads one message after the other waits for each line; but a core can fetch a dozen lines at once if it is
// told early. So each message of a run prefetches the lines at the same place in the next run, which begins
// where this run ends. Lines that are not written yet must not be prefetched: the writer would have to fetch
// them back. Only a full run shows that there is more, and in a series of full runs the last one does not.
// How long a series is, the one before tells. A series ends when nothing more is there, or when a reader that
// follows close behind the writer leaves it alone for a while.
//
// Used by one thread at a time, the one that lands.
#pragma once

#include <cstdint>

#include "base/cache_line.h"

namespace lwmq::conversation {

class FetchAhead {
 public:
  // A run has landed: `bytes` from its first message to the end of its last. `full`: it ended because it was
  // long enough.
  void begin_run(std::uint64_t bytes, bool full) noexcept {
    if (full) ++series_;
    const bool more = series_ < series_before_ || series_ > 2 * series_before_ + kSeriesLong;
    distance_ = full && more ? bytes : 0;
  }
  // Nothing was there. May be called again and again.
  void caught_up() noexcept {
    distance_ = 0;
    if (series_ == 0) return;
    series_before_ = series_;
    series_ = 0;
  }
  // The application gets `bytes` bytes of the run, at `data`.
  [[gnu::always_inline]] void pass(const void* data, std::uint64_t bytes) const noexcept {
    if (distance_ == 0) return;
    const auto at = reinterpret_cast<std::uintptr_t>(data) + distance_;  // a hint: it may be past the buffer
    for (std::uint64_t i = 0; i <= bytes; i += kCacheLine)
      __builtin_prefetch(reinterpret_cast<const void*>(at + i));
  }

  // How far ahead it prefetches; 0: not at all. For tests.
  [[nodiscard]] std::uint64_t distance() const noexcept { return distance_; }

  // After so many runs more are expected, whatever came before.
  static constexpr std::uint32_t kSeriesLong = 4;

 private:
  std::uint64_t distance_ = 0;
  std::uint32_t series_ = 0;         // full runs since nothing was there
  std::uint32_t series_before_ = 0;  // the same when nothing was there
};

}  // namespace lwmq::conversation
