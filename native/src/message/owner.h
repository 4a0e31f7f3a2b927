// What keeps the bytes of frames alive: a count of references, and what to do when the last is gone.
#pragma once

#include <atomic>
#include <cstdint>

namespace lwmq::message {

// Part of a larger structure that knows the memory. Made with one reference.
struct Owner {
  explicit Owner(void (*finish_function)(Owner*) noexcept) noexcept : finish(finish_function) {}

  std::atomic<std::uint32_t> references{1};
  // Runs once, on the thread that dropped the last reference.
  void (*finish)(Owner*) noexcept;
};

inline void keep(Owner* owner) noexcept { owner->references.fetch_add(1, std::memory_order_relaxed); }

// The drop is acquire-release: the last of several threads speaks for the reads of all.
inline void drop(Owner* owner) noexcept {
  if (owner->references.load(std::memory_order_acquire) == 1 ||  // ours alone: nobody can add one
      owner->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    owner->finish(owner);
  }
}

}  // namespace lwmq::message
