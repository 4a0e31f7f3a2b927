// The one thread of a process that serves sockets. It sends what sockets did not take at once, ends
// connections that were closed while something was still on its way, and meets the clients of the ports that
// the process serves. While bytes are on their way, it looks whether the peers' kernels answer. Of links
// (link.h) it looks all the time, a few times a minute. While there is nothing to do, it sleeps without
// wake-ups.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "os/unique_fd.h"

namespace lwmq::sockets {

class Port;
class Transport;

class Net {
 public:
  static Net& instance() noexcept;
  // Never returns.
  void run() noexcept;
  // Calls serve_net of the transport when its socket has one of `events` (EPOLLOUT and the like), once.
  void watch(const std::shared_ptr<Transport>& transport, std::uint32_t events) noexcept;
  // The same for a connection that was closed, which ends after a while in any case.
  void watch_closing(const std::shared_ptr<Transport>& transport, std::uint32_t events) noexcept;
  // Calls send_gathered of the transport every 0.1 ms or so, until that says false.
  void gather(const std::shared_ptr<Transport>& transport);
  // Calls look_for_answers of the transport after `ms`, and then as that says.
  void watch_answers(const std::shared_ptr<Transport>& transport, std::uint32_t ms);
  // Drives the port whenever its descriptor is readable, until `forget`. LWMQ_E_SYSTEM.
  Status watch(const std::shared_ptr<Port>& port);
  void forget(const Port& port) noexcept;

 private:
  struct Watched {
    std::shared_ptr<Transport> transport;
    std::int64_t deadline_ns;  // INT64_MAX: none
  };
  struct Unanswered {
    std::weak_ptr<Transport> transport;
    std::int64_t look_ns;  // when to look
  };

  Net() noexcept;
  void add(const std::shared_ptr<Transport>& transport, std::uint32_t events,
           std::int64_t deadline_ns) noexcept;
  bool drive(int descriptor) noexcept;
  int ms_to_next(std::int64_t now_ns) noexcept;
  bool send_gathered() noexcept;
  void look_for_answers(std::int64_t now_ns) noexcept;
  void forget_overdue(std::int64_t now_ns) noexcept;

  os::UniqueFd epoll_;
  os::UniqueFd bell_;  // of deadlines
  std::mutex mutex_;
  // Under the mutex, by descriptor.
  std::map<int, Watched> watched_;
  std::map<int, std::weak_ptr<Port>> ports_;
  std::vector<std::shared_ptr<Transport>> gathering_;  // under the mutex
  std::vector<Unanswered> unanswered_;                 // under the mutex
  std::int64_t next_look_ns_ = INT64_MAX;              // under the mutex: the first of those
};

}  // namespace lwmq::sockets
