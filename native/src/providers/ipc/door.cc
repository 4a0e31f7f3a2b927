#include "providers/ipc/door.h"

#include <sys/epoll.h>

#include <cerrno>

#include "providers/ipc/transport.h"

namespace lwmq::ipc {
namespace {

constexpr std::uint64_t kNotALifeLine = 0;

Status add(int epoll, int fd, std::uint32_t events, std::uint64_t key,
           int operation = EPOLL_CTL_ADD) noexcept {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  if (epoll_ctl(epoll, operation, fd, &event) == 0) return LWMQ_OK;
  return fail_errno(LWMQ_E_SYSTEM, errno, "epoll_ctl");
}

}  // namespace

Status Door::create(std::shared_ptr<Door>* out_door) {
  auto door = std::make_shared<Door>();
  door->epoll_ = os::UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!door->epoll_) return fail_errno(LWMQ_E_SYSTEM, errno, "epoll_create1");
  *out_door = std::move(door);
  return LWMQ_OK;
}

Status Door::add_socket(int fd) noexcept { return add(epoll_.get(), fd, EPOLLIN, kNotALifeLine); }

void Door::remove_socket(int fd) noexcept { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void Door::call_again(int fd) noexcept {
  add(epoll_.get(), fd, EPOLLIN, kNotALifeLine, EPOLL_CTL_MOD);  // as it was: told once more
}

Status Door::add_transport(Transport* transport) noexcept {
  const std::lock_guard lock(mutex_);
  const std::uint64_t key = next_key_++;
  if (const Status status = add(epoll_.get(), transport->own_event(), EPOLLIN, kNotALifeLine);
      status != LWMQ_OK) {
    return status;
  }
  // No events asked for: a hang-up is always told, and window notices are nothing that a poller must know of.
  if (const Status status = add(epoll_.get(), transport->life_line(), 0, key); status != LWMQ_OK) {
    leave_doorbell(*transport);  // the peer holds it open: it would stay behind the door
    return status;
  }
  by_key_[key] = transport;
  return LWMQ_OK;
}

void Door::remove_transport(Transport* transport) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(by_key_, [transport](const auto& entry) { return entry.second == transport; });
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, transport->own_event(), nullptr);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, transport->life_line(), nullptr);
}

void Door::leave_doorbell(const Transport& transport) noexcept {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, transport.own_event(), nullptr);
}

Status Door::create_for(const Transport& transport, os::UniqueFd* out_fd) noexcept {
  os::UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno(LWMQ_E_SYSTEM, errno, "epoll_create1");
  Status status = add(epoll.get(), transport.own_event(), EPOLLIN, kNotALifeLine);
  if (status == LWMQ_OK) status = add(epoll.get(), transport.life_line(), 0, kNotALifeLine);
  if (status == LWMQ_OK) *out_fd = std::move(epoll);
  return status;
}

void Door::look_at_life_lines() noexcept {
  constexpr int kEvents = 64;
  epoll_event events[kEvents];
  const int count = epoll_wait(epoll_.get(), events, kEvents, 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 == kNotALifeLine) continue;
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(events[i].data.u64);
    if (found == by_key_.end()) continue;  // closed meanwhile by another thread
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second->life_line(), nullptr);
    found->second->hung_up();
    by_key_.erase(found);
  }
}

}  // namespace lwmq::ipc
