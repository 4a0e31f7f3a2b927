#include "channel/selector.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <new>

#include "channel/channel.h"
#include "channel/deadline.h"

namespace lwmq::channel {
namespace {

constexpr int kEvents = 64;

}  // namespace

Status Selector::create(Selector** out_selector) {
  auto* made = new (std::nothrow) Selector;
  if (made == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for a selector");
  made->epoll_ = os::UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!made->epoll_) {
    const int error = errno;
    delete made;
    return fail_errno(LWMQ_E_SYSTEM, error, "epoll_create1");
  }
  *out_selector = made;
  return LWMQ_OK;
}

Status Selector::add(Channel* channel) {
  std::int32_t fd = -1;
  const Status status = channel->descriptor(&fd);
  if (status != LWMQ_OK) return status;
  const std::lock_guard lock(mutex_);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = next_number_;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    if (errno == EEXIST) return fail(LWMQ_E_INVALID, "this channel was added to the selector before");
    return fail_errno(LWMQ_E_SYSTEM, errno, "epoll_ctl");
  }
  channels_[next_number_++] = channel;
  return LWMQ_OK;
}

Status Selector::remove(Channel* channel) {
  return take_out(channel) ? LWMQ_OK : fail(LWMQ_E_INVALID, "this channel was not added to the selector");
}

// False: it is not there.
bool Selector::take_out(Channel* channel) {
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(channels_.begin(), channels_.end(),
                               [channel](const auto& entry) { return entry.second == channel; });
  if (at == channels_.end()) return false;
  std::erase(ready_, at->first);
  channels_.erase(at);
  if (std::int32_t fd = -1; channel->lent_descriptor(&fd))
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  return true;
}

Status Selector::look(std::uint32_t timeout_ms) {
  epoll_event events[kEvents];
  const int ms =
      timeout_ms == LWMQ_FOREVER ? -1 : static_cast<int>(std::min<std::uint32_t>(timeout_ms, INT_MAX));
  const int count = epoll_wait(epoll_.get(), events, kEvents, ms);
  if (count < 0) return errno == EINTR ? LWMQ_E_INTERRUPTED : fail_errno(LWMQ_E_SYSTEM, errno, "epoll_wait");
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < count; ++i) ready_.push_back(events[i].data.u64);
  return LWMQ_OK;
}

Status Selector::wait(std::uint32_t timeout_ms, Channel** out_channel) {
  const std::int64_t deadline = timeout_ms == 0 ? 0 : deadline_of(timeout_ms);
  for (bool looked = false;; looked = true) {
    {
      const std::lock_guard lock(mutex_);
      while (!ready_.empty()) {
        const auto found = channels_.find(ready_.front());
        ready_.pop_front();
        if (found == channels_.end()) continue;  // removed since
        *out_channel = found->second;
        return LWMQ_OK;
      }
    }
    const std::uint32_t left = timeout_ms == 0 ? 0 : ms_left(deadline);
    if (looked && left == 0) return timeout_ms == 0 ? LWMQ_E_EMPTY : LWMQ_E_TIMED_OUT;
    if (const Status status = look(left); status != LWMQ_OK) return status;
  }
}

}  // namespace lwmq::channel
