// A memory barrier that one side pays for both.
//
// Two sides of a sleep meet as in Dekker's algorithm: the one that posts stores its item and loads `waiting`,
// the one about to sleep stores `waiting` and loads the item. Each needs a full barrier in between. With
// membarrier(2) the sleeper issues it for every processor that runs a registered process, and the poster, the
// fast side, needs a compiler barrier only.
//
// It works only where *both* processes could register: the poster to be reached, the sleeper to issue. Peers
// therefore tell each other membarrier_available(), and unless both are, the poster uses a full fence.
#pragma once

#include <atomic>

namespace lwmq::os {

// Whether this process is registered for membarrier; registers on first use. Ask before the first post.
[[nodiscard]] bool membarrier_available() noexcept;

// The sleeper's barrier: full for us, and where membarrier is available for every registered process.
void heavy_barrier() noexcept;
// The same for the threads of this process alone: where all who meet are its own. Leaves the processors of
// peers in peace.
void heavy_barrier_within() noexcept;

// The poster's barrier. `both_registered`: what both sides said of membarrier_available().
inline void light_barrier(bool both_registered) noexcept {
  if (both_registered) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}

}  // namespace lwmq::os
