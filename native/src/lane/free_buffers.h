// Which of a sender's buffers is used next.
//
// A ring that the peer's own cache holds is slow: each line comes back from there before it is written again.
// One that no cache holds is slow, too. So the buffer that was freed first comes
// first, and while more than one waits for the peer now and then one that was never used, until
// kCirculatingBytes go around. Beyond these, buffers are used only while the peer does not keep up, and lie
// idle afterwards. As long as little flows few pages are used: the first touch of each costs microseconds,
// which whoever asks and waits for the answer would see in one of some fifty.
//
// One thread at a time: the one that sends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>

#include "base/limits.h"

namespace lwmq::lane {

class FreeBuffers {
 public:
  // `buffers` of `bytes` bytes, all of them fresh. False when memory is short.
  [[nodiscard]] bool init(std::uint32_t buffers, std::uint64_t bytes) noexcept {
    buffers_ = buffers;
    circulating_max_ = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(std::max<std::uint64_t>(kCirculatingBytes / bytes, kFewest), buffers));
    ring_.reset(new (std::nothrow) std::uint32_t[buffers]);
    idle_.reset(new (std::nothrow) std::uint32_t[buffers]);
    return ring_ && idle_;
  }
  // From here on a fresh buffer comes before one that was used, as long as more may circulate: large ones,
  // then used in the order in which they lie, are written and read a fifth faster.
  void use_fresh_first() noexcept {
    reuses_per_fresh_ = 1;
    unread_for_fresh_ = 0;
  }

  void put(std::uint32_t index) noexcept {
    const std::uint32_t place = first_ + count_++;
    ring_[place < buffers_ ? place : place - buffers_] = index;
  }
  // Where has_any says so; `unread`: how many the peer had in hand at the last look.
  [[nodiscard]] std::uint32_t take(std::uint32_t unread) noexcept {
    while (count_ > circulating_max_) idle_[idle_count_++] = take_first();
    if (takes_fresh(unread)) return fresh_++;
    return count_ > 0 ? take_first() : idle_[--idle_count_];
  }

  // One that has circulated: whoever has none looks for what the peer has released.
  [[nodiscard]] bool has_used() const noexcept { return count_ > 0; }
  [[nodiscard]] bool has_any() const noexcept { return count() > 0; }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_ + idle_count_ + (buffers_ - fresh_); }
  // The first buffer that was never used; none behind it was.
  [[nodiscard]] std::uint32_t fresh() const noexcept { return fresh_; }

  static constexpr std::uint64_t kCirculatingBytes = 8 * kMiB;
  static constexpr std::uint32_t kFewest = 3;  // one that is filled, one that is read, one between them

 private:
  [[nodiscard]] bool takes_fresh(std::uint32_t unread) noexcept {
    if (fresh_ == buffers_) return false;
    if (count_ > 0) {
      if (fresh_ >= circulating_max_ || unread < unread_for_fresh_ || ++reused_ < reuses_per_fresh_)
        return false;
    }
    if (count_ == 0 && idle_count_ > 0) return false;
    reused_ = 0;
    return true;
  }
  std::uint32_t take_first() noexcept {
    const std::uint32_t index = ring_[first_];
    first_ = first_ + 1 < buffers_ ? first_ + 1 : 0;
    --count_;
    return index;
  }

  std::uint32_t buffers_ = 0;
  std::uint32_t circulating_max_ = 0;
  std::uint32_t reuses_per_fresh_ = 8;
  std::uint32_t unread_for_fresh_ = 2;     // the peer is in one of them: the end of it is its next look
  std::uint32_t reused_ = 0;               // buffers lent since a fresh one was, while the peer was behind
  std::uint32_t fresh_ = 0;                // the first of them
  std::unique_ptr<std::uint32_t[]> ring_;  // the oldest first
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
  std::unique_ptr<std::uint32_t[]> idle_;  // a stack
  std::uint32_t idle_count_ = 0;
};

}  // namespace lwmq::lane
