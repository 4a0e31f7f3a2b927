// Who may touch one half of a channel: a word with four states.
//
//   free      nobody; try_take makes it ours
//   taken     one thread works
//   handed    a thread had more to do than it wanted to: the service thread shall adopt it, nobody else can
//   adopted   it has. Whoever releases from here passes a heavy barrier, so that those who saw "handed" or
//             "adopted" did not need one (Channel::kick)
//
// One meeting:
//
//   turn      release or hand_over stores (release)  ->  try_take or adopt compares and swaps (acquire)
//             what the one did is seen by the next
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "tli/spin.h"

namespace lwmq::channel {

class Ownership {
 public:
  // The one read-modify-write of a post.
  [[nodiscard]] bool try_take() noexcept {
    if (state_.load(std::memory_order_relaxed) != kFree)
      return false;  // old news: we behave as if we came earlier
    return swap(kFree, kTaken);
  }
  // Waits, for threads that are no users of the fast path. Holders are brief, or end when
  // their transport does.
  void take() noexcept {
    while (!tli::spin_until([this] { return try_take(); }, 200)) sched_yield();
  }
  void release() noexcept { state_.store(kFree, std::memory_order_release); }      // sync: turn
  void hand_over() noexcept { state_.store(kHanded, std::memory_order_release); }  // sync: turn
  [[nodiscard]] bool adopt() noexcept { return swap(kHanded, kAdopted); }
  [[nodiscard]] bool is_free() const noexcept { return state_.load(std::memory_order_relaxed) == kFree; }
  [[nodiscard]] bool is_adopted() const noexcept {
    return state_.load(std::memory_order_relaxed) == kAdopted;
  }
  // Handed or adopted.
  [[nodiscard]] bool is_served() const noexcept { return state_.load(std::memory_order_relaxed) >= kHanded; }

 private:
  enum State : std::uint32_t { kFree, kTaken, kHanded, kAdopted };

  bool swap(std::uint32_t from, std::uint32_t to) noexcept {
    return state_.compare_exchange_strong(from, to, std::memory_order_acquire,
                                          std::memory_order_relaxed);  // sync: turn
  }

  std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace lwmq::channel
