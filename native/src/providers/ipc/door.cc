#include "providers/ipc/door.h"

#include <sys/epoll.h>

#include <cerrno>

#include "os/event_fd.h"
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
  return fail_call(LWMQ_E_SYSTEM, errno, "epoll_ctl");
}

}  // namespace

Status Door::create(std::shared_ptr<Door>* out_door) {
  auto door = std::make_shared<Door>();
  door->epoll_ = os::UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!door->epoll_) return fail_call(LWMQ_E_SYSTEM, errno, "epoll_create1");
  if (const Status status = os::create_event_fd(&door->bell_); status != LWMQ_OK) return status;
  if (const Status status = door->add_socket(door->bell_.get()); status != LWMQ_OK) return status;
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
  // No events asked for: a hang-up is always told, and what else comes is nothing that a poller must know of.
  if (const Status status = add(epoll_.get(), transport->life_line(), 0, key); status != LWMQ_OK)
    return status;
  by_key_[key] = transport;
  return LWMQ_OK;
}

void Door::remove_transport(Transport* transport) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(by_key_, [transport](const auto& entry) { return entry.second == transport; });
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, transport->life_line(), nullptr);
}

Status Door::add_doorbell(int bell) noexcept { return add(epoll_.get(), bell, EPOLLIN, kNotALifeLine); }

// The peer holds it open: it would stay behind the door.
void Door::leave_doorbell(int bell) noexcept { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, bell, nullptr); }

Status Door::create_for(int bell, int life_line, os::UniqueFd* out_fd) noexcept {
  os::UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_call(LWMQ_E_SYSTEM, errno, "epoll_create1");
  Status status = add(epoll.get(), bell, EPOLLIN, kNotALifeLine);
  if (status == LWMQ_OK) status = add(epoll.get(), life_line, 0, kNotALifeLine);
  if (status == LWMQ_OK) *out_fd = std::move(epoll);
  return status;
}

void Door::ring() const noexcept { os::ring_event_fd(bell_.get()); }

void Door::drain() const noexcept { os::drain_event_fd(bell_.get()); }

bool Door::look_at_life_lines() noexcept {
  bool some = false;
  constexpr int kEvents = 64;
  epoll_event events[kEvents];
  // Doorbells that have rung are told again and again, each time behind all others: life lines may lie there.
  std::size_t looks = 1;
  for (std::size_t look = 0; look < looks; ++look) {
    const int count = epoll_wait(epoll_.get(), events, kEvents, 0);
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u64 == kNotALifeLine) continue;
      const std::lock_guard lock(mutex_);
      const auto found = by_key_.find(events[i].data.u64);
      if (found == by_key_.end()) continue;  // closed meanwhile by another thread
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second->life_line(), nullptr);
      found->second->hung_up();
      by_key_.erase(found);
      some = true;
    }
    if (count < kEvents) return some;
    const std::lock_guard lock(mutex_);
    looks = 2 + 2 * by_key_.size() / kEvents;
  }
  return some;
}

}  // namespace lwmq::ipc
