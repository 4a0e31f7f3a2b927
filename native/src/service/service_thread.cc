#include "service/service_thread.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "os/clock.h"
#include "os/deadline.h"
#include "os/event_fd.h"
#include "os/thread.h"

namespace lwmq::service {
namespace {

constexpr std::uint64_t kBell = 0;  // the id that no Served has
constexpr std::int64_t kLongestSleepMs = 3'600'000;
constexpr unsigned long kTimerSlackNs = 5'000;  // the kernel's own would double a short sleep

}  // namespace

// Never destroyed: threads may outlive main.
ServiceThread& ServiceThread::attending() noexcept {
  static auto* instance = new ServiceThread("lwmq-channels");
  return *instance;
}

ServiceThread& ServiceThread::connecting() noexcept {
  static auto* instance = new ServiceThread("lwmq-connect");
  return *instance;
}

ServiceThread& ServiceThread::calling() noexcept {
  static auto* instance = new ServiceThread("lwmq-calls");
  return *instance;
}

ServiceThread& ServiceThread::streaming() noexcept {
  static auto* instance = new ServiceThread("lwmq-endpoint", true);
  return *instance;
}

Status ServiceThread::start() noexcept {
  if (started_) return LWMQ_OK;
  epoll_ = os::UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return fail_call(LWMQ_E_SYSTEM, errno, "epoll_create1");
  Status status = os::create_event_fd(&bell_);
  if (status != LWMQ_OK) return status;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kBell;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, bell_.get(), &event) != 0) {
    return fail_call(LWMQ_E_SYSTEM, errno, "epoll_ctl");
  }
  pthread_t thread{};
  status = os::start_thread(
      name_, [](void* self) { static_cast<ServiceThread*>(self)->run(); }, this, &thread);
  if (status != LWMQ_OK) return status;
  pthread_detach(thread);
  started_ = true;
  return LWMQ_OK;
}

Status ServiceThread::add(Served* served) noexcept {
  const std::lock_guard lock(mutex_);
  const Status status = start();
  if (status != LWMQ_OK) return status;
  try {
    // Whoever asks or is asked later must not allocate: sending and receiving do not.
    const std::size_t count = served_.size() + 1;
    for (auto* places : {&requests_, &active_}) {
      if (places->capacity() < 2 * count) places->reserve(4 * count);
    }
    served_.emplace(next_id_, served);
    served->id_ = next_id_++;
    return LWMQ_OK;
  } catch (const std::bad_alloc&) {
    return fail(LWMQ_E_NO_MEMORY, "no memory for one more on %s", name_);
  }
}

Status ServiceThread::watch(Served* served, int fd) noexcept {
  epoll_event event{};
  // Edges: a connection that waits while the channel has its peer must not wake us for ever.
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = served->id_;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return fail_call(LWMQ_E_SYSTEM, errno, "epoll_ctl");
  return LWMQ_OK;
}

void ServiceThread::unwatch(int fd) noexcept { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void ServiceThread::remove(Served* served) noexcept {
  std::unique_lock lock(mutex_);
  served_.erase(served->id_);  // first: the thread serves it no further after this time
  // From a call-back of its own it is our caller: what it does behind that is harmless.
  idle_.wait(lock, [&] { return serving_ != served || thread_ == std::this_thread::get_id(); });
  std::replace(requests_.begin(), requests_.end(), served, static_cast<Served*>(nullptr));
  served->requested_.store(false, std::memory_order_relaxed);
  deactivate(served);
  if (ends_ && served_.empty()) os::ring_event_fd(bell_.get());
}

void ServiceThread::request(Served* served) noexcept {
  if (served->requested_.exchange(true, std::memory_order_acq_rel)) return;
  const std::lock_guard lock(mutex_);
  if (!served_.contains(served->id_)) {  // removed, or not added yet
    served->requested_.store(false, std::memory_order_relaxed);
    return;
  }
  requests_.push_back(served);
  os::ring_event_fd(bell_.get());
}

void ServiceThread::activate(Served* served, std::int64_t deadline) noexcept {
  if (served->deadline_ == kNever) {
    served->place_ = active_.size();
    active_.push_back(served);
  }
  served->deadline_ = deadline;
}

void ServiceThread::deactivate(Served* served) noexcept {
  if (served->deadline_ == kNever) return;
  active_[served->place_] = active_.back();
  active_[served->place_]->place_ = served->place_;
  active_.pop_back();
  served->deadline_ = kNever;
}

// With the mutex held, but while serving. False: it is not to be called again by time.
bool ServiceThread::serve_one(Served* served, std::int64_t now) noexcept {
  const bool alone = active_.size() == 1;
  serving_ = served;
  mutex_.unlock();
  const std::int64_t next = served->serve(now, alone);
  mutex_.lock();
  serving_ = nullptr;
  idle_.notify_all();
  const bool again = next != kNever && served_.contains(served->id_);
  if (again) {
    activate(served, std::max(next, now + 1));
  } else {
    deactivate(served);
  }
  return again;
}

// Those who have asked by now, in the order in which they did. Who asks meanwhile is behind them, and who is
// removed leaves a null.
void ServiceThread::serve_requests() noexcept {
  const std::size_t count = requests_.size();
  for (std::size_t i = 0; i < count; ++i) {
    Served* served = std::exchange(requests_[i], nullptr);
    if (served == nullptr) continue;
    served->requested_.store(false,
                             std::memory_order_release);  // a request that comes while it is served counts
    activate(served, 0);
    serve_one(served, os::now_ns());
  }
  requests_.erase(requests_.begin(), requests_.begin() + static_cast<std::ptrdiff_t>(count));
}

// Serves everyone whose time has come; returns the next time. With the mutex held, but while serving.
std::int64_t ServiceThread::serve_due() noexcept {
  serve_requests();
  const std::int64_t now = os::now_ns();
  // Places move when others are removed meanwhile: whoever is passed over is still due, and comes next time.
  for (std::size_t i = 0; i < active_.size();) {
    Served* served = active_[i];
    if (served->deadline_ > now || serve_one(served, now)) ++i;
    serve_requests();  // who asks now does not wait for all whose time has come
  }
  std::int64_t earliest = requests_.empty() ? kNever : 0;
  for (const Served* served : active_) earliest = std::min(earliest, served->deadline_);
  return earliest;
}

// epoll_wait until then; it knows milliseconds alone, in which a short window would be filled many times.
int ServiceThread::wait_until(std::int64_t deadline, epoll_event* events, int limit) noexcept {
  if (deadline == kNever) return epoll_wait(epoll_.get(), events, limit, -1);
  const std::int64_t left = std::max<std::int64_t>(deadline - os::now_ns(), 0);
  if (left >= os::kMillisecond) {
    const std::int64_t ms =
        std::min<std::int64_t>((left + os::kMillisecond - 1) / os::kMillisecond, kLongestSleepMs);
    return epoll_wait(epoll_.get(), events, limit, static_cast<int>(ms));
  }
  pollfd any{epoll_.get(), POLLIN, 0};
  const timespec pause{0, left};
  if (left > 0) ppoll(&any, 1, &pause, nullptr);
  return epoll_wait(epoll_.get(), events, limit, 0);
}

// With the mutex held, but while asleep.
void ServiceThread::sleep_until(std::int64_t deadline) noexcept {
  epoll_event events[64];
  mutex_.unlock();
  const int count = wait_until(deadline, events, 64);
  mutex_.lock();
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u64 == kBell) {
      os::drain_event_fd(bell_.get());
    } else if (const auto found = served_.find(events[i].data.u64); found != served_.end()) {
      found->second->polled_ = true;
      activate(found->second, 0);
    }
  }
}

void ServiceThread::run() noexcept {
  if (this == &attending()) prctl(PR_SET_TIMERSLACK, kTimerSlackNs);  // call-backs' threads would inherit it
  mutex_.lock();
  thread_ = std::this_thread::get_id();
  while (!ends_ || !served_.empty()) sleep_until(serve_due());
  started_ = false;
  epoll_.reset();
  bell_.reset();
  mutex_.unlock();
}

}  // namespace lwmq::service
