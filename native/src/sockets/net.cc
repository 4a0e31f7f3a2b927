#include "sockets/net.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>
#include <vector>

#include "os/clock.h"
#include "os/deadline.h"
#include "os/event_fd.h"
#include "sockets/handshake.h"
#include "sockets/port.h"
#include "sockets/transport.h"

namespace lwmq::sockets {
namespace {

// For what is still on its way when a connection was closed, and for the peer to close its end.
constexpr std::int64_t kClosingNs = 10'000 * os::kMillisecond;
constexpr timespec kGatherTime{0, 50'000};  // the timer's slack makes it some 0.1 ms

}  // namespace

// Never destroyed: the thread runs until the process ends.
Net& Net::instance() noexcept {
  static auto* instance = new Net;
  return *instance;
}

Net::Net() noexcept : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  os::create_event_fd(&bell_);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = bell_.get();
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, bell_.get(), &event);
}

void Net::add(const std::shared_ptr<Transport>& transport, std::uint32_t events,
              std::int64_t deadline_ns) noexcept {
  const int socket = transport->socket();
  epoll_event event{};
  event.events = events | EPOLLONESHOT;
  event.data.fd = socket;
  const std::lock_guard lock(mutex_);
  const bool is_known = watched_.contains(socket);
  auto& watched = watched_[socket];
  watched.deadline_ns = is_known ? std::min(watched.deadline_ns, deadline_ns) : deadline_ns;
  watched.transport = transport;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket, &event) != 0 && errno == ENOENT)
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event);
}

void Net::watch(const std::shared_ptr<Transport>& transport, std::uint32_t events) noexcept {
  add(transport, events, INT64_MAX);
}

void Net::watch_closing(const std::shared_ptr<Transport>& transport, std::uint32_t events) noexcept {
  add(transport, events, os::now_ns() + kClosingNs);
  os::ring_event_fd(bell_.get());
}

Status Net::watch(const std::shared_ptr<Port>& port) {
  const std::lock_guard lock(mutex_);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = port->descriptor();
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, port->descriptor(), &event) != 0)
    return fail_call(LWMQ_E_SYSTEM, errno, "epoll_ctl");
  ports_[port->descriptor()] = port;
  return LWMQ_OK;
}

void Net::forget(const Port& port) noexcept {
  const std::lock_guard lock(mutex_);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, port.descriptor(), nullptr);
  ports_.erase(port.descriptor());
}

void Net::gather(const std::shared_ptr<Transport>& transport) {
  {
    const std::lock_guard lock(mutex_);
    gathering_.push_back(transport);
  }
  os::ring_event_fd(bell_.get());
}

// True: somebody still gathers.
bool Net::send_gathered() noexcept {
  std::vector<std::shared_ptr<Transport>> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(gathering_);
  }
  if (all.empty()) return false;
  std::erase_if(all, [](const auto& transport) { return !transport->send_gathered(); });
  const std::lock_guard lock(mutex_);
  gathering_.insert(gathering_.end(), all.begin(), all.end());
  return !gathering_.empty();
}

void Net::watch_answers(const std::shared_ptr<Transport>& transport, std::uint32_t ms) {
  {
    const std::lock_guard lock(mutex_);
    const std::int64_t look_ns = os::now_ns() + ms * os::kMillisecond;
    unanswered_.push_back({transport, look_ns});
    if (look_ns >= next_look_ns_) return;
    next_look_ns_ = look_ns;
  }
  os::ring_event_fd(bell_.get());
}

void Net::look_for_answers(std::int64_t now_ns) noexcept {
  std::vector<Unanswered> all;
  {
    const std::lock_guard lock(mutex_);
    if (now_ns < next_look_ns_) return;
    all.swap(unanswered_);
  }
  std::erase_if(all, [now_ns](Unanswered& one) {
    const auto transport = one.transport.lock();
    if (transport == nullptr || now_ns < one.look_ns) return transport == nullptr;
    const std::uint32_t ms = transport->look_for_answers();
    one.look_ns = now_ns + ms * os::kMillisecond;
    return ms == 0;
  });
  const std::lock_guard lock(mutex_);
  unanswered_.insert(unanswered_.end(), all.begin(), all.end());
  next_look_ns_ = INT64_MAX;
  for (const Unanswered& one : unanswered_) next_look_ns_ = std::min(next_look_ns_, one.look_ns);
}

// False: no port has that descriptor.
bool Net::drive(int descriptor) noexcept {
  std::shared_ptr<Port> port;
  {
    const std::lock_guard lock(mutex_);
    const auto found = ports_.find(descriptor);
    if (found == ports_.end()) return false;
    port = found->second.lock();
  }
  if (port != nullptr) port->drive();
  return true;
}

int Net::ms_to_next(std::int64_t now_ns) noexcept {
  const std::lock_guard lock(mutex_);
  std::int64_t next = next_look_ns_;
  for (const auto& [socket, watched] : watched_) next = std::min(next, watched.deadline_ns);
  if (next == INT64_MAX) return -1;
  return static_cast<int>(std::max<std::int64_t>((next - now_ns) / os::kMillisecond + 1, 0));
}

void Net::forget_overdue(std::int64_t now_ns) noexcept {
  std::vector<std::shared_ptr<Transport>> over;  // ends behind the lock
  const std::lock_guard lock(mutex_);
  for (auto it = watched_.begin(); it != watched_.end();) {
    if (it->second.deadline_ns > now_ns) {
      ++it;
      continue;
    }
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->first, nullptr);
    over.push_back(std::move(it->second.transport));
    it = watched_.erase(it);
  }
}

void Net::run() noexcept {
  for (;;) {
    epoll_event events[64];
    const bool gathers = send_gathered();
    if (gathers) nanosleep(&kGatherTime, nullptr);
    const int count = epoll_wait(epoll_.get(), events, 64, gathers ? 0 : ms_to_next(os::now_ns()));
    for (int i = 0; i < count; ++i) {
      const int socket = events[i].data.fd;
      if (socket == bell_.get()) {
        os::drain_event_fd(socket);
        continue;
      }
      if (drive(socket)) continue;
      std::shared_ptr<Transport> transport;
      {
        const std::lock_guard lock(mutex_);
        if (const auto found = watched_.find(socket); found != watched_.end())
          transport = found->second.transport;
      }
      if (transport == nullptr || !transport->serve_net(events[i].events)) continue;
      const std::lock_guard lock(mutex_);
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
      watched_.erase(socket);
    }
    look_for_answers(os::now_ns());
    forget_overdue(os::now_ns());
  }
}

}  // namespace lwmq::sockets
