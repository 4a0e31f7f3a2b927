// Notes on an entry since when its owner waits. A wait that the caller makes in slices is one wait.
#pragma once

#include <cstdint>

#include "stats/page.h"

namespace lwmq::stats {

class Waiting {
 public:
  void begin(Entry& entry, std::int64_t now_ns) noexcept {
    if (now_ns - ended_ns_ > kSliceGapNs) began_ns_ = now_ns;
    waiting_ = true;
    set(entry.waiting_since_ns, static_cast<std::uint64_t>(began_ns_));
  }
  // How long the wait has lasted, over its slices. 0: the owner does not wait.
  [[nodiscard]] std::int64_t since_ms(std::int64_t now_ns) const noexcept {
    const bool waits = began_ns_ != 0 && (waiting_ || (ended_ns_ != 0 && now_ns - ended_ns_ <= kSliceGapNs));
    return waits ? (now_ns - began_ns_) / 1'000'000 : 0;
  }
  void end(Entry& entry, std::int64_t now_ns, bool in_vain) noexcept {
    waiting_ = false;
    ended_ns_ = in_vain ? now_ns : 0;
    set(entry.waiting_since_ns, 0);
  }

 private:
  static constexpr std::int64_t kSliceGapNs = 100'000'000;
  bool waiting_ = false;
  std::int64_t began_ns_ = 0;
  std::int64_t ended_ns_ = 0;  // when the last wait ended, if it was in vain
};

}  // namespace lwmq::stats
