// The lock of one half of a conversation: of the pump, or of the landing side. A word with these states:
//
//   free      no thread holds the lock; try_take takes it
//   taken     one thread holds it
//   handed    its holder left the remaining work to the service thread; only that thread can adopt the lock
//   adopted   the service thread holds it. It releases behind a heavy barrier, so that a thread which saw
//             "handed" or "adopted" needed no barrier of its own (Conversation::kick)
//
// Threads meet at one point:
//
//   turn      release, give_back and hand_over store (release)  ->  try_take and adopt swap (acquire)
//             the next holder sees everything that the previous holder did
//
// A *home thread* (make_home) makes the lock cheap for the thread that uses it most. It takes and releases
// the lock by plain stores to home_, without an atomic operation: on messages of 64 bytes, one call each,
// that is worth a quarter of the rate and more. All other threads are *guests* and swap state_ as before. A
// guest that takes the lock first *asks* (the state "asking"), and pays the barrier for both sides, as in
// Dekker's algorithm:
//
//   home-turn   The home thread stores home_, then (light barrier) loads state_. A guest swaps state_ to
//               asking, then (heavy barrier) loads home_. At least one of the two sees the other.
//
// Who gives way:
//
//   - A guest that sees home_ takes its question back.
//   - A home thread that sees a guest lowers home_. If the guest only asks, the home thread waits for the
//     guest's decision, which takes a few loads, and looks again. It does so behind a full fence, because
//     other guests may have given way to it before it lowered home_.
//   - A guest that only asks is never mistaken for a holder.
//
// Hence two threads never both give up, and a thread that fails to take the lock has seen another one that
// holds it or is about to.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "os/membarrier.h"
#include "os/spin.h"

namespace lwmq::conversation {

class Ownership {
 public:
  // Makes the calling thread the home thread. Call this before any other thread knows the lock.
  void make_home() noexcept {
    membarrier_ = os::membarrier_available();
    home_thread_ = __builtin_thread_pointer();
  }
  // Takes over the home thread of another lock, if it has one.
  void share_home(const Ownership& other) noexcept {
    membarrier_ = other.membarrier_;
    home_thread_ = other.home_thread_;
  }
  // Whether the calling thread is the home thread.
  [[nodiscard]] bool is_home() const noexcept { return home_thread_ == __builtin_thread_pointer(); }
  [[nodiscard]] bool has_home() const noexcept { return home_thread_ != nullptr; }

  // Never waits. Without a home thread this is the one atomic read-modify-write of a post.
  [[nodiscard, gnu::always_inline]] bool try_take() noexcept {
    if (is_home()) [[likely]]
      return try_take_at_home();
    return try_take_as_other();
  }
  // Takes or adopts the lock, and waits for it. Meanwhile try_take fails for all other threads, so that
  // threads that try again and again cannot keep this one waiting. After the release, the caller looks for
  // work that those threads have left behind.
  void take_before_others() noexcept {
    if (try_take() || adopt()) return;
    wanted_.fetch_add(1, std::memory_order_relaxed);
    while (!take_now() && !adopt()) sched_yield();
    wanted_.fetch_sub(1, std::memory_order_relaxed);  // before the fence of the release
  }
  // Takes the lock and waits for it, for threads off the fast path. A holder is brief, or ends when its
  // transport does.
  [[gnu::always_inline]] void take() noexcept {
    if (!try_take()) [[unlikely]]
      wait_for_turn();
  }
  // Releases what try_take took. A lock that the home thread has adopted must go through release() instead.
  [[gnu::always_inline]] void give_back() noexcept {
    if (is_home()) [[likely]] {
      home_.store(false, std::memory_order_release);  // sync: turn
    } else {
      state_.store(kFree, std::memory_order_release);  // sync: turn
    }
  }
  // Releases the lock, no matter how it was taken.
  [[gnu::always_inline]] void release() noexcept {
    if (is_home() && state_.load(std::memory_order_relaxed) == kAdopted) [[unlikely]] {
      state_.store(kFree, std::memory_order_release);  // sync: turn; the home thread has adopted it
    } else {
      give_back();
    }
  }
  void hand_over() noexcept {
    if (is_home() && state_.load(std::memory_order_relaxed) != kAdopted) {
      // A guest that asks will see home_ and give way. Until then its state must not be overwritten.
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
    // A home thread that has handed over lowers home_ next. Before that, guests would give way to no holder.
    if (has_home() && !is_home()) wait_until([this] { return !home_.load(std::memory_order_acquire); });
    return true;
  }
  // True also while a guest asks, because it may give way.
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
    return state == kFree || state == kAsking;  // an old value only means that it was so earlier
  }
  [[gnu::always_inline]] bool enter_home() noexcept {
    home_.store(true, std::memory_order_relaxed);
    os::light_barrier(membarrier_);                          // sync: home-turn
    return state_.load(std::memory_order_acquire) == kFree;  // sync: turn
  }
  // The home thread has met a guest.
  [[gnu::noinline]] bool give_way() noexcept {
    do {
      home_.store(false, std::memory_order_release);
      // A guest that released meanwhile and saw home_ relies on this thread to look at what is left behind.
      std::atomic_thread_fence(std::memory_order_seq_cst);
      wait_while_asking();
      if (!is_open_to_home()) return false;
    } while (!enter_home());
    return true;
  }

  [[gnu::noinline]] bool try_take_as_other() noexcept {
    if (wanted_.load(std::memory_order_relaxed) != 0) return false;  // that thread will look
    if (has_home()) return try_take_as_guest();
    return state_.load(std::memory_order_relaxed) == kFree && swap(kFree, kTaken);  // an old value fails here
  }
  // One attempt of take_before_others.
  bool take_now() noexcept {
    if (is_home()) return try_take_at_home();
    return has_home() ? ask(kLooks) : swap(kFree, kTaken);
  }
  bool try_take_as_guest() noexcept { return !home_.load(std::memory_order_relaxed) && ask(1); }
  // A guest takes the lock if home_ is down at one of `looks` looks, and gives way otherwise. A home thread
  // that comes meanwhile waits for the decision.
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

  static constexpr std::uint32_t kLooks = 200;  // before the processor goes to another thread

  std::atomic<std::uint32_t> state_{kFree};
  std::atomic<std::uint32_t> wanted_{0};  // threads in take_before_others
  std::atomic<bool> home_{false};         // written by the home thread: it holds the lock
  bool membarrier_ = false;
  const void* home_thread_ = nullptr;  // set before another thread knows the lock
};

}  // namespace lwmq::conversation
