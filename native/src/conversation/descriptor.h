// The descriptor that a thread polls for a channel. It stands for the descriptors of the transports and for
// an event of the channel.
//
// It is readable unless a receive has found nothing after a drain and has armed every transport. So a thread
// that receives until there is nothing (LWMQ_E_EMPTY) misses nothing, whichever other threads receive.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "os/unique_fd.h"

namespace lwmq::conversation {

class Descriptor {
 public:
  // Readable from the beginning: no receive has looked yet.
  Status open() noexcept;
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
  Status add(int fd) noexcept;
  // Before `fd` is closed.
  void remove(int fd) noexcept;

  // Any thread.
  void ring() noexcept;
  void drain() noexcept;
  // LWMQ_OK: readable, or the time has passed. LWMQ_E_INTERRUPTED.
  Status wait(std::uint32_t timeout_ms) noexcept;

 private:
  os::UniqueFd epoll_;
  os::UniqueFd event_;
};

}  // namespace lwmq::conversation
