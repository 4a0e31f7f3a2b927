// What tells a handle of an application's from memory that was one.
#pragma once

#include <atomic>
#include <cstdint>

namespace lwmq {

// Part of what a handle points to, not at its beginning, where the heap writes first. Atomic so that the
// store of a destructor, after which nobody may look, is made all the same.
class HandleMark {
 public:
  ~HandleMark() { mark_.store(0, std::memory_order_relaxed); }
  [[nodiscard]] bool is_alive() const noexcept { return mark_.load(std::memory_order_relaxed) == kAlive; }

 private:
  static constexpr std::uint32_t kAlive = 0x6c776d71;
  std::atomic<std::uint32_t> mark_{kAlive};
};

}  // namespace lwmq
