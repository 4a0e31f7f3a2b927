// Words in shared memory by which peers learn that we are gone, whatever ended us.
//
// A thread of ours *holds* the words: each contains its thread id and sits in the thread's robust futex list.
// When the thread ends, also by SIGKILL, the kernel marks every word with FUTEX_OWNER_DIED and wakes one
// sleeper of each. That takes a fraction of a millisecond, long before the memory of a large process is torn
// down and its sockets close.
//
// One sleeper is woken per word. So each peer gets a word of its own (two peers killed together cannot
// swallow a third one's wake-up), and whoever is woken wakes the others of its process (wake_all).
//
//    word   0: not held yet     tid | FUTEX_WAITERS: held     FUTEX_OWNER_DIED set: gone
#pragma once

#include <linux/futex.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace lwmq::os {

// The kernel steps from one list node to its word by one fixed distance, hence a node-sized slot for each
// word.
struct RobustSlot {
  std::atomic<std::uint32_t> word;  // written by the holder, and by the kernel when it dies
  std::uint32_t reserved;
};
static_assert(sizeof(RobustSlot) == 8);

// The kernel walks no more than 2048 nodes of a list.
inline constexpr std::size_t kRobustSlotsMax = 1024;

// Holds `count` slots for the calling thread until drop_robust_words or its end. One array per thread, one
// thread per process; the thread must not use robust mutexes of its own. LWMQ_E_UNSUPPORTED: the kernel
// refuses.
Status hold_robust_words(RobustSlot* slots, std::size_t count) noexcept;

// Ends the hold in order, as the death of the thread would. The holding thread only.
void drop_robust_words() noexcept;

// The holder is there. A plain load.
[[nodiscard]] inline bool is_held(const std::atomic<std::uint32_t>& word) noexcept {
  const std::uint32_t value = word.load(std::memory_order_acquire);
  return value != 0 && (value & FUTEX_OWNER_DIED) == 0;
}

}  // namespace lwmq::os
