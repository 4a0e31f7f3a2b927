#include "conversation/descriptor.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "os/event_fd.h"

namespace lwmq::conversation {

Status Descriptor::open() noexcept {
  epoll_ = os::UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return fail_errno(LWMQ_E_SYSTEM, errno, "epoll_create1");
  Status status = os::create_event_fd(&event_);
  if (status == LWMQ_OK) status = add(event_.get());
  if (status == LWMQ_OK) ring();
  return status;
}

Status Descriptor::add(int fd) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return LWMQ_OK;
  return fail_errno(LWMQ_E_SYSTEM, errno, "epoll_ctl");
}

void Descriptor::remove(int fd) noexcept { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void Descriptor::ring() noexcept { os::ring_event_fd(event_.get()); }

void Descriptor::drain() noexcept { os::drain_event_fd(event_.get()); }

Status Descriptor::wait(std::uint32_t timeout_ms) noexcept {
  pollfd item{epoll_.get(), POLLIN, 0};
  const int ms = static_cast<int>(std::min<std::uint32_t>(timeout_ms, INT_MAX));
  return poll(&item, 1, ms) < 0 && errno == EINTR ? LWMQ_E_INTERRUPTED : LWMQ_OK;
}

}  // namespace lwmq::conversation
