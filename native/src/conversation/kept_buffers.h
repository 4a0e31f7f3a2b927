// Counts the peer's buffers that are kept by messages of the application, and limits them to half of the
// buffers.
//
// A message that lies where it landed keeps its buffer. An application that collects messages would keep all
// buffers, and then wait for ever for a message that the peer has no buffer for. So a message that would keep
// one buffer more than half is copied. Buffers are told apart by the number in their token. There are kSlots
// counts: exact for as many buffers as a channel has by default, and never too generous for more.
//
// The landing thread calls keep; any thread gives back.
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

  // Referenced by the receiver, and by each message that keeps a buffer. Null: no memory.
  static KeptBuffers* create() noexcept { return new (std::nothrow) KeptBuffers; }
  void drop() noexcept { message::drop(&owner_); }

  // From now on the peer has so many buffers.
  void set_buffers(std::uint32_t buffers) noexcept {
    allowed_.store(std::min(buffers, kSlots) / 2, std::memory_order_relaxed);
  }

  // True: the buffer is kept, and this object stays, until give_back.
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
  std::atomic<std::uint32_t> kept_{0};  // slots that a message keeps
  std::array<std::atomic<std::uint32_t>, kSlots> views_{};
};

}  // namespace lwmq::conversation
