// Brings the next run of messages near while the application still has this one.
//
// The bytes of a message come line by line from the core that wrote them. Whoever looks at one message after
// the other waits for each; a core has a dozen lines under way at once, if it is told of them early. So with
// each message of a run the lines are asked for that lie where its like of the next run does: as far behind
// it as the run is long. What is not written yet must not be asked for: the writer would have to fetch the
// line back. Only a full run says that there is more, and of a series of them the last one not; how long a
// series is the one before tells. A series ends when nothing more is there, or when who chases the writer
// leaves it alone for a while.
//
// One thread at a time: the one that lands.
#pragma once

#include <cstdint>

#include "base/cache_line.h"

namespace lwmq::conversation {

class FetchAhead {
 public:
  // A run, from its first message to behind its last; `full`: it ended because it was long enough.
  void begin_run(std::uint64_t bytes, bool full) noexcept {
    if (full) ++series_;
    const bool more = series_ < series_before_ || series_ > 2 * series_before_ + kSeriesLong;
    distance_ = full && more ? bytes : 0;
  }
  // Nothing was there; also again and again.
  void caught_up() noexcept {
    distance_ = 0;
    if (series_ == 0) return;
    series_before_ = series_;
    series_ = 0;
  }
  // The application gets `bytes` bytes of the run, at `data`.
  [[gnu::always_inline]] void pass(const void* data, std::uint64_t bytes) const noexcept {
    if (distance_ == 0) return;
    const auto at = reinterpret_cast<std::uintptr_t>(data) + distance_;  // perhaps of no object: it is a hint
    for (std::uint64_t i = 0; i <= bytes; i += kCacheLine)
      __builtin_prefetch(reinterpret_cast<const void*>(at + i));
  }

  // How far ahead, 0: not at all; for tests.
  [[nodiscard]] std::uint64_t distance() const noexcept { return distance_; }

  // Runs, behind which more are expected whatever came before.
  static constexpr std::uint32_t kSeriesLong = 4;

 private:
  std::uint64_t distance_ = 0;
  std::uint32_t series_ = 0;         // full runs since nothing was there
  std::uint32_t series_before_ = 0;  // the same when nothing was there
};

}  // namespace lwmq::conversation
