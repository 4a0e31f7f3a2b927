// Who may touch one half of a channel: a word with four states.
//
//   free      nobody; try_take makes it ours
//   taken     one thread works
//   handed    a thread had more to do than it wanted to: the service thread shall adopt it, nobody else can
//   adopted   it has. Whoever releases from here passes a heavy barrier, so that those who saw "handed" or
//             "adopted" did not need one (Conversation::kick)
//
// One meeting:
//
//   turn      release, give_back or hand_over stores (release)  ->  try_take or adopt swaps (acquire)
//             what the one did is seen by the next
//
// With a *home thread* (make_home) that thread takes and releases by plain stores to a word of its own,
// home_; the others, guests, still compare and swap state_. They meet as in Dekker's algorithm, where a guest
// pays the barrier for both:
//
//   home-turn   home stores home_, (light barrier) loads state_; a guest swaps state_ to asking, (heavy
//               barrier) loads home_: one of the two sees the other
//
// A guest that sees home_ steps back. Home that sees a guest steps back, waits where it is only *asking* for
// its mind to be made up (a few loads), and looks again, behind a full fence: others may have stepped back
// before its home_. Nobody takes a guest that asks for one that works. So never do both give up, and who
// fails has seen somebody who works, or who will.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "os/membarrier.h"
#include "os/spin.h"

namespace lwmq::conversation {

class Ownership {
 public:
  // Before anybody else knows of it: the calling thread is at home from now on.
  void make_home() noexcept {
    membarrier_ = os::membarrier_available();
    home_thread_ = __builtin_thread_pointer();
  }
  // The same, with the home of another one, or none.
  void share_home(const Ownership& other) noexcept {
    membarrier_ = other.membarrier_;
    home_thread_ = other.home_thread_;
  }
  // Whether the calling thread is.
  [[nodiscard]] bool is_home() const noexcept { return home_thread_ == __builtin_thread_pointer(); }
  [[nodiscard]] bool has_home() const noexcept { return home_thread_ != nullptr; }

  // The one read-modify-write of a post.
  [[nodiscard, gnu::always_inline]] bool try_take() noexcept {
    if (is_home()) [[likely]]
      return try_take_at_home();
    return try_take_as_other();
  }
  // Takes or adopts it, and waits for that; those who only try fail meanwhile, so that many of them, who come
  // again and again, do not keep us waiting. Whoever releases what he got here looks for what they left
  // behind.
  void take_before_others() noexcept {
    if (try_take() || adopt()) return;
    wanted_.fetch_add(1, std::memory_order_relaxed);
    while (!take_now() && !adopt()) sched_yield();
    wanted_.fetch_sub(1, std::memory_order_relaxed);  // before the fence of the release
  }
  // Waits, for threads that are no users of the fast path. Holders are brief, or end when
  // their transport does.
  [[gnu::always_inline]] void take() noexcept {
    if (!try_take()) [[unlikely]]
      wait_for_turn();
  }
  // What try_take took; what home has adopted is for release alone, and would be lost here.
  [[gnu::always_inline]] void give_back() noexcept {
    if (is_home()) [[likely]] {
      home_.store(false, std::memory_order_release);  // sync: turn
    } else {
      state_.store(kFree, std::memory_order_release);  // sync: turn
    }
  }
  // However it was taken.
  [[gnu::always_inline]] void release() noexcept {
    if (is_home() && state_.load(std::memory_order_relaxed) == kAdopted) [[unlikely]] {
      state_.store(kFree, std::memory_order_release);  // sync: turn; home holds it as a guest does
    } else {
      give_back();
    }
  }
  void hand_over() noexcept {
    if (is_home() && state_.load(std::memory_order_relaxed) != kAdopted) {
      // A guest that asks sees home_ and steps back: before that its word is not ours to overwrite.
      std::uint32_t free = kFree;
      while (!state_.compare_exchange_weak(free, kHanded, std::memory_order_release,
                                           std::memory_order_relaxed)) {
        free = kFree;
        os::pause();
      }
      home_.store(false, std::memory_order_release);  // sync: turn
    } else {
      state_.store(kHanded, std::memory_order_release);  // sync: turn
    }
  }
  [[nodiscard]] bool adopt() noexcept {
    if (!swap(kHanded, kAdopted)) return false;
    // Home that handed over lowers home_ next. Before that guests would step back from nobody.
    if (has_home() && !is_home()) wait_until([this] { return !home_.load(std::memory_order_acquire); });
    return true;
  }
  // Also where a guest asks: it may step back.
  [[nodiscard]] bool may_be_free() const noexcept {
    const std::uint32_t state = state_.load(std::memory_order_acquire);  // before home_: see home-turn
    return (state == kFree || state == kAsking) && !home_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_adopted() const noexcept {
    return state_.load(std::memory_order_relaxed) == kAdopted;
  }
  // Handed or adopted.
  [[nodiscard]] bool is_served() const noexcept { return state_.load(std::memory_order_relaxed) >= kHanded; }

 private:
  enum State : std::uint32_t { kFree, kTaken, kAsking, kHanded, kAdopted };

  template <typename Condition>
  static void wait_until(Condition&& holds) noexcept {
    while (!os::spin_until(holds, kLooks)) sched_yield();
  }
  [[gnu::noinline]] void wait_for_turn() noexcept {
    wait_until([this] { return try_take(); });
  }
  void wait_while_asking() const noexcept {
    wait_until([this] { return state_.load(std::memory_order_relaxed) != kAsking; });
  }

  bool swap(std::uint32_t from, std::uint32_t to) noexcept {
    return state_.compare_exchange_strong(from, to, std::memory_order_acquire,
                                          std::memory_order_relaxed);  // sync: turn
  }

  [[gnu::always_inline]] bool try_take_at_home() noexcept {
    if (!is_open_to_home()) [[unlikely]]
      return false;
    if (enter_home()) [[likely]]
      return true;
    return give_way();
  }
  [[nodiscard]] bool is_open_to_home() const noexcept {
    const std::uint32_t state = state_.load(std::memory_order_relaxed);
    return state == kFree || state == kAsking;  // old news: as below
  }
  [[gnu::always_inline]] bool enter_home() noexcept {
    home_.store(true, std::memory_order_relaxed);
    os::light_barrier(membarrier_);                          // sync: home-turn
    return state_.load(std::memory_order_acquire) == kFree;  // sync: turn
  }
  // Home, which has met a guest.
  [[gnu::noinline]] bool give_way() noexcept {
    do {
      home_.store(false, std::memory_order_release);
      std::atomic_thread_fence(std::memory_order_seq_cst);  // a guest that released meanwhile, and saw home_,
                                                            // leaves to us what it saw left behind
      wait_while_asking();
      if (!is_open_to_home()) return false;
    } while (!enter_home());
    return true;
  }

  [[gnu::noinline]] bool try_take_as_other() noexcept {
    if (wanted_.load(std::memory_order_relaxed) != 0) return false;  // who wants it looks behind us
    if (has_home()) return try_take_as_guest();
    return state_.load(std::memory_order_relaxed) == kFree && swap(kFree, kTaken);  // old news: as if earlier
  }
  // Whoever else wants it.
  bool take_now() noexcept {
    if (is_home()) return try_take_at_home();
    return has_home() ? ask(kLooks) : swap(kFree, kTaken);
  }
  bool try_take_as_guest() noexcept { return !home_.load(std::memory_order_relaxed) && ask(1); }
  // As a guest, which takes it where home is out at one of that many looks, and else steps back. Home waits
  // meanwhile, if it comes.
  bool ask(std::uint32_t looks) noexcept {
    while (!swap(kFree, kAsking)) {
      if (state_.load(std::memory_order_relaxed) != kAsking) return false;
      wait_while_asking();
    }
    os::heavy_barrier_within();  // sync: home-turn
    const bool is_out =
        os::spin_until([this] { return !home_.load(std::memory_order_acquire); }, looks);  // sync: turn
    state_.store(is_out ? kTaken : kFree, std::memory_order_release);
    return is_out;
  }

  static constexpr std::uint32_t kLooks = 200;  // before a processor is given to somebody else

  std::atomic<std::uint32_t> state_{kFree};
  std::atomic<std::uint32_t> wanted_{0};  // threads in take_before_others
  std::atomic<bool> home_{false};         // written by the home thread: it works
  bool membarrier_ = false;
  const void* home_thread_ = nullptr;  // set before anybody else looks
};

}  // namespace lwmq::conversation
