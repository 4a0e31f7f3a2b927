// What keeps a block of a writer's window where it is while the application has views of it.
//
// Two refer to a hold: the pool, until the block is free again, and the application, until it ends the hold.
// Either may go first. The application's reference also keeps the window mapped.
//
//   hold-ended   application lowers references_ (release) -> the pool loads it (acquire)
//                its views were last used before the block is lent again
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/handle_mark.h"
#include "lwmq/lwmq.h"
#include "stream/window.h"

struct lwmq_hold {
 public:
  // Takes a reference to the block's window.
  explicit lwmq_hold(lwmq::stream::Window window) noexcept : window_(std::move(window)) {}
  lwmq_hold(const lwmq_hold&) = delete;
  lwmq_hold& operator=(const lwmq_hold&) = delete;

  // Pool only.
  [[nodiscard]] bool has_ended() const noexcept {
    return references_.load(std::memory_order_acquire) == 1;  // sync: hold-ended
  }
  void leave() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;  // sync: hold-ended
  }
  // Application only. Any thread; never waits.
  void end() noexcept {
    window_ = {};
    leave();
  }

  lwmq::HandleMark mark;

 private:
  ~lwmq_hold() = default;

  lwmq::stream::Window window_;  // the application's
  std::atomic<std::uint32_t> references_{2};
};
