// A thread that does for many channels or endpoints what must go on while their applications do something
// else.
//
// A process has four, each started at its first use. One attends to channels (accepts, ships what waits for
// room, retires lost peers). One connects, which waits for nobody, and binds where nobody listens, which may
// wait for a process that dies there. One calls the application back, which may take its time. One serves all
// endpoints of streams, and ends with the last of them. All sleep without any wake-up while nothing is asked
// of them.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "os/unique_fd.h"

namespace lwmq::service {

inline constexpr std::int64_t kNever = INT64_MAX;

// Something that a service thread calls.
class Served {
 public:
  virtual ~Served() = default;
  // Does what there is to do. Returns when it wants to be called again (os::now_ns), or kNever: only when
  // asked. `alone`: nobody else waits for the thread, so a short wait in here holds up no one.
  virtual std::int64_t serve(std::int64_t now_ns, bool alone) noexcept = 0;

 protected:
  // In serve: whether a watched descriptor has become readable since the last answer.
  bool take_polled() noexcept { return std::exchange(polled_, false); }

 private:
  friend class ServiceThread;
  // Guarded by the thread's mutex.
  std::uint64_t id_ = 0;
  std::int64_t deadline_ = kNever;  // when it is called again
  std::size_t place_ = 0;           // among the active ones; meaningless while deadline_ is kNever
  bool polled_ = false;             // the thread's own

  std::atomic<bool> requested_{false};  // set by request, cleared by the thread before it serves
};

class ServiceThread {
 public:
  static ServiceThread& attending() noexcept;
  static ServiceThread& connecting() noexcept;
  static ServiceThread& calling() noexcept;
  static ServiceThread& streaming() noexcept;

  // Starts the thread if it does not run yet. LWMQ_E_SYSTEM.
  Status add(Served* served) noexcept;
  // Also calls `served` whenever `fd` becomes readable; until unwatch, which must come before the
  // fd is closed.
  Status watch(Served* served, int fd) noexcept;
  void unwatch(int fd) noexcept;
  // Afterwards the thread calls `served` no more. Waits while it is in there, but for itself.
  void remove(Served* served) noexcept;
  // Calls `served` soon. Any thread; one system call when it was not asked already.
  void request(Served* served) noexcept;

 private:
  // `ends`: the thread ends when there is nothing more to serve, and starts anew with the next one.
  explicit ServiceThread(const char* name, bool ends = false) noexcept : name_(name), ends_(ends) {}
  Status start() noexcept;
  void run() noexcept;
  bool serve_one(Served* served, std::int64_t now) noexcept;
  void serve_requests() noexcept;
  std::int64_t serve_due() noexcept;
  void activate(Served* served, std::int64_t deadline) noexcept;
  void deactivate(Served* served) noexcept;
  int wait_until(std::int64_t deadline, epoll_event* events, int limit) noexcept;
  void sleep_until(std::int64_t deadline) noexcept;

  const char* const name_;
  const bool ends_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable idle_;
  bool started_ = false;
  os::UniqueFd epoll_;
  os::UniqueFd bell_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Served*> served_;
  std::vector<Served*> requests_;  // in order; null: removed
  std::vector<Served*> active_;    // those with a deadline, in no order
  Served* serving_ = nullptr;
  std::thread::id thread_;  // from its first moment on
};

}  // namespace lwmq::service
