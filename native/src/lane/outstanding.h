// What keeps a transport there behind its close: extents that have landed and are not released, and buffers
// that are lent and stay so. Each that comes back counts down, and the close adds them all: whoever brings
// the balance to 0 after that has the last of them.
#pragma once

#include <atomic>
#include <cstdint>

namespace lwmq::lane {

class Outstanding {
 public:
  // The landing thread's.
  void landed(std::uint64_t count) noexcept { landed_ += count; }
  // Of what has landed last, by the landing thread, without an atomic operation.
  void released_last(std::uint64_t count) noexcept { landed_ -= count; }
  // Behind the close: whether buffers stay lent.
  [[nodiscard]] bool keeps_lent() const noexcept { return kept_ > 0; }

  // Any thread's. True: those were the last, behind the close.
  [[nodiscard]] bool came_back(std::uint32_t count) noexcept {
    // Before the close the balance is 0 or below, and nobody meets 0 from above.
    return count > 0 && balance_.fetch_sub(count, std::memory_order_acq_rel) == count;
  }
  // `lent` buffers stay so. True: nothing is outstanding.
  [[nodiscard]] bool close(std::uint32_t lent) noexcept {
    kept_ = lent;
    const auto all = static_cast<std::int64_t>(landed_ + kept_);
    return balance_.fetch_add(all, std::memory_order_acq_rel) + all == 0;
  }

 private:
  std::uint64_t landed_ = 0;  // read by close
  std::uint32_t kept_ = 0;
  std::atomic<std::int64_t> balance_{0};
};

}  // namespace lwmq::lane
