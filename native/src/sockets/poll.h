// A descriptor that is readable while one of several sockets has news, or while its bell has rung.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "os/event_fd.h"
#include "os/unique_fd.h"

namespace lwmq::sockets {

class Poll {
 public:
  // LWMQ_E_SYSTEM.
  Status open() noexcept;
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
  // `events`: EPOLLIN and the like. A socket that closes leaves by itself.
  Status add(int fd, std::uint32_t events) noexcept;
  void change(int fd, std::uint32_t events) noexcept;
  void remove(int fd) noexcept;
  // Stores the sockets that have news now. Returns their number, at most `most`.
  int ready(int* out_fds, int most) noexcept;
  void ring() const noexcept { os::ring_event_fd(bell_.get()); }
  // Takes back the rings, and the news of sockets that were watched for once.
  void drain() noexcept;

 private:
  os::UniqueFd epoll_;
  os::UniqueFd bell_;
};

}  // namespace lwmq::sockets
