#include "sockets/poll.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace lwmq::sockets {

Status Poll::open() noexcept {
  epoll_ = os::UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return fail_call(LWMQ_E_SYSTEM, errno, "epoll_create1");
  if (const Status status = os::create_event_fd(&bell_); status != LWMQ_OK) return status;
  return add(bell_.get(), EPOLLIN);
}

Status Poll::add(int fd, std::uint32_t events) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return LWMQ_OK;
  return fail_call(LWMQ_E_SYSTEM, errno, "epoll_ctl");
}

void Poll::change(int fd, std::uint32_t events) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Poll::remove(int fd) noexcept { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

int Poll::ready(int* out_fds, int most) noexcept {
  epoll_event events[64];
  const int count = epoll_wait(epoll_.get(), events, std::min<int>(most, std::size(events)), 0);
  for (int i = 0; i < count; ++i) out_fds[i] = events[i].data.fd;
  return std::max(count, 0);
}

void Poll::drain() noexcept {
  os::drain_event_fd(bell_.get());
  epoll_event events[64];
  epoll_wait(epoll_.get(), events, 64, 0);
}

}  // namespace lwmq::sockets
