// How many of the peer's buffers messages keep that the application holds: at most half of them.
//
// A message that lies where it landed keeps its buffer. Who collected messages would keep all of them, and
// then wait for ever for one that the peer has no buffer for. So a message is copied where it would keep one
// buffer more than half. Buffers are told apart by the number in their token; kSlots of them, which is exact
// for as many buffers as a channel has by default, and never too generous.
//
// The landing thread asks, any thread gives back.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <new>

#include "message/owner.h"

namespace lwmq::conversation {

class KeptBuffers {
 public:
  static constexpr std::uint32_t kSlots = 64;

  // Kept by its channel, and by each message that keeps a buffer. Null: no memory.
  static KeptBuffers* create() noexcept { return new (std::nothrow) KeptBuffers; }
  void drop() noexcept { message::drop(&owner_); }

  // From now on the peer has so many.
  void set_buffers(std::uint32_t buffers) noexcept {
    allowed_.store(std::min(buffers, kSlots) / 2, std::memory_order_relaxed);
  }

  // True: the buffer is kept, with us, until give_back.
  [[nodiscard]] bool keep(std::uint64_t buffer) noexcept {
    auto& views = views_[buffer % kSlots];
    if (views.fetch_add(1, std::memory_order_relaxed) == 0 &&
        kept_.fetch_add(1, std::memory_order_relaxed) >= allowed_.load(std::memory_order_relaxed)) {
      forget(buffer);
      return false;
    }
    message::keep(&owner_);
    return true;
  }
  void give_back(std::uint64_t buffer) noexcept {
    forget(buffer);
    drop();
  }

 private:
  KeptBuffers() noexcept : owner_(finish) {}
  ~KeptBuffers() = default;

  static void finish(message::Owner* owner) noexcept { delete reinterpret_cast<KeptBuffers*>(owner); }
  void forget(std::uint64_t buffer) noexcept {
    if (views_[buffer % kSlots].fetch_sub(1, std::memory_order_relaxed) == 1)
      kept_.fetch_sub(1, std::memory_order_relaxed);
  }

  message::Owner owner_;  // first: see finish
  std::atomic<std::uint32_t> allowed_{0};
  std::atomic<std::uint32_t> kept_{0};  // slots with a view
  std::array<std::atomic<std::uint32_t>, kSlots> views_{};
};

}  // namespace lwmq::conversation
