// What a poller of a channel looks at: one descriptor over those of its transports and an event of our own.
//
// It is readable unless the landing side has found nothing behind a drain and armed every transport: so
// nobody misses anything who receives until there is nothing (LWMQ_E_EMPTY), whoever else receives, too.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "os/unique_fd.h"

namespace lwmq::conversation {

class Descriptor {
 public:
  // Readable from the beginning: nobody has looked yet.
  Status open() noexcept;
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
  Status add(int fd) noexcept;
  // Before it is closed.
  void remove(int fd) noexcept;

  // Any thread.
  void ring() noexcept;
  void drain() noexcept;
  // LWMQ_OK: readable, or the time is over. LWMQ_E_INTERRUPTED.
  Status wait(std::uint32_t timeout_ms) noexcept;

 private:
  os::UniqueFd epoll_;
  os::UniqueFd event_;
};

}  // namespace lwmq::conversation
