#include "patterns/listener.h"

#include <cstdio>
#include <utility>

#include "base/limits.h"
#include "channel/channel.h"
#include "filters/filtered.h"
#include "os/deadline.h"
#include "os/event_fd.h"
#include "os/identity.h"
#include "patterns/selector.h"
#include "service/provider_services.h"

namespace lwmq::patterns {
namespace {

constexpr std::uint32_t kAcceptsAtOnce = 16;  // before other channels have their turn

}  // namespace

Status Listener::open(const char* address, const lwmq_channel_options& given, Listener** out_listener) {
  Settings settings;
  Status status = read_settings(address, given, &settings);
  if (status != LWMQ_OK) return status;
  std::unique_ptr<Listener, Deleter> made(new Listener(std::move(settings)));
  status = made->listen();
  if (status == LWMQ_OK) *out_listener = made.release();
  return status;
}

Status Listener::listen() {
  Status status = os::create_event_fd(&bell_);
  if (status != LWMQ_OK) return status;
  status = service::start_service(*settings_.provider);
  if (status != LWMQ_OK) return status;
  auto& thread = service::ServiceThread::attending();
  status = thread.add(this);
  if (status != LWMQ_OK) return status;
  struct Begun {  // memory may be short
    explicit Begun(Listener* self) noexcept : of(self) {}
    ~Begun() {
      if (of != nullptr) of->leave(listener);
    }
    Listener* of;  // null: it stays
    lwmq_tli_listener* listener = nullptr;
  } begun(this);
  lwmq_tli_options options = settings_.transport;
  options.ring = [](void* self) {
    service::ServiceThread::attending().request(static_cast<Listener*>(self));
  };
  options.ring_context = this;
  status = filters::listen(*settings_.provider, settings_.address.c_str(), options, settings_.filters,
                           &begun.listener);
  if (status != LWMQ_OK) return status;
  const int fd = settings_.provider->listener->descriptor(begun.listener);
  if (fd >= 0) status = thread.watch(this, fd);
  if (status != LWMQ_OK) return status;
  if (const auto bound = settings_.provider->listener->address; bound != nullptr)
    settings_.address = bound(begun.listener);
  entry_ = stats::open_entry(stats::EntryKind::kListener, settings_.address.c_str());
  stats::set(entry_->flags, stats::kEntryServer);
  begun.of = nullptr;
  listener_.store(begun.listener, std::memory_order_release);
  thread.request(this);  // who rang before it was watched
  return LWMQ_OK;
}

// The service thread comes no more, and the address is free. `listener`: null where it is not bound.
void Listener::leave(lwmq_tli_listener* listener) noexcept {
  auto& thread = service::ServiceThread::attending();
  thread.remove(this);
  if (listener == nullptr) return;
  if (const int fd = settings_.provider->listener->descriptor(listener); fd >= 0) thread.unwatch(fd);
  settings_.provider->listener->close(listener);
}

void Listener::destroy(Listener* listener) {
  if (os::forked()) return;  // its threads and its address are the parent's: the child forgets it
  Selector::forget_everywhere(listener);
  if (!listener->closed_.load()) listener->close();
  listener->await_callers();
  delete listener;
}

Status Listener::refuse_closed() const noexcept {
  return fail(LWMQ_E_CLOSED, "the listener was closed (%s)", settings_.address.c_str());
}

// On the attending thread.
std::int64_t Listener::serve(std::int64_t now_ns, bool) noexcept {
  bool some = false;
  lwmq_tli_listener* listener = listener_.load(std::memory_order_acquire);
  if (listener == nullptr) return service::kNever;  // it has rung before it was there
  for (std::uint32_t i = 0; i < kAcceptsAtOnce; ++i) {
    if (!has_room()) {
      if (const auto tend = settings_.provider->listener->tend; tend != nullptr) tend(listener);
      return service::kNever;
    }
    lwmq_tli_transport* transport = nullptr;
    const Status status = settings_.provider->listener->accept(listener, &transport);
    if (status == LWMQ_E_EMPTY) return service::kNever;
    const std::lock_guard lock(mutex_);
    if (status == LWMQ_OK) {
      some = true;
      waiting_[(oldest_ + clients_waiting_++) % kClientsWaitingMax] = transport;
      tell();
    } else {
      ++refused_;
      refusal_.keep(status);
    }
    count();
  }
  return some ? now_ns : now_ns + os::kMillisecond;  // others may wait behind failures
}

bool Listener::has_room() {
  const std::lock_guard lock(mutex_);
  is_full_ = clients_waiting_ == kClientsWaitingMax;
  return !is_full_;
}

// With the mutex.
void Listener::tell() noexcept {
  os::ring_event_fd(bell_.get());
  changes_.fetch_add(1, std::memory_order_release);
  os::futex_wake_all(changes_, os::Sleepers::kOfThisProcess);
}

// With the mutex.
void Listener::count() noexcept {
  if (entry_ == nullptr) return;
  stats::set(entry_->clients_accepted, accepted_);
  stats::set(entry_->clients_waiting, clients_waiting_);
  stats::set(entry_->clients_refused, refused_);
}

lwmq_tli_transport* Listener::take_next(std::uint64_t* out_client) {
  const std::lock_guard lock(mutex_);
  if (clients_waiting_ == 0) return nullptr;
  lwmq_tli_transport* next = pop_waiting();
  *out_client = ++taken_;
  count();
  if (clients_waiting_ == 0 && !closed_.load()) os::drain_event_fd(bell_.get());
  if (std::exchange(is_full_, false)) service::ServiceThread::attending().request(this);
  return next;
}

// With the mutex.
lwmq_tli_transport* Listener::pop_waiting() noexcept {
  lwmq_tli_transport* const next = waiting_[oldest_];
  oldest_ = (oldest_ + 1) % kClientsWaitingMax;
  --clients_waiting_;
  return next;
}

// Behind a close: until nobody is in accept.
void Listener::await_callers() {
  std::unique_lock lock(mutex_);
  left_.wait(lock, [this] { return callers_ == 0; });
}

Status Listener::accept(std::uint32_t timeout_ms, Channel** out_channel) {
  struct Inside {
    explicit Inside(Listener& listener) : self(listener) {
      const std::lock_guard lock(self.mutex_);
      ++self.callers_;
    }
    ~Inside() {
      const std::lock_guard lock(self.mutex_);
      if (--self.callers_ == 0) self.left_.notify_all();  // under the lock: we may be gone behind it
    }
    Listener& self;
  } inside(*this);
  const std::int64_t deadline = timeout_ms == 0 ? 0 : os::deadline_of(timeout_ms);
  for (;;) {
    const std::uint32_t seen = changes_.load(std::memory_order_acquire);
    if (closed_.load()) return refuse_closed();
    std::uint64_t client = 0;
    if (lwmq_tli_transport* next = take_next(&client); next != nullptr) {
      const Status status = Channel::accept(settings_, next, client, out_channel);
      const std::lock_guard lock(mutex_);
      if (status == LWMQ_OK) {
        ++accepted_;
      } else {
        ++refused_;  // this client was parted from
        refusal_.keep(status);
      }
      count();
      return status;
    }
    if (timeout_ms == 0) return LWMQ_E_EMPTY;
    const Status status = os::wait_for_change(seen, deadline, changes_);
    if (status != LWMQ_OK) return status;
  }
}

void Listener::query(lwmq_listener_statistics* out_statistics) {
  const std::lock_guard lock(mutex_);
  out_statistics->accepted = accepted_;
  out_statistics->waiting = clients_waiting_;
  out_statistics->refused = refused_;
  std::snprintf(out_statistics->refusal, sizeof out_statistics->refusal, "%s", refusal_.text());
}

Status Listener::close() {
  if (closed_.exchange(true)) return refuse_closed();
  leave(listener_.load(std::memory_order_relaxed));
  std::unique_lock lock(mutex_);
  entry_.reset();
  tell();
  while (clients_waiting_ > 0) {
    lwmq_tli_transport* const transport = pop_waiting();
    lock.unlock();  // messages may go with it
    settings_.provider->transport->close(transport, 0, 0);
    lock.lock();
  }
  return LWMQ_OK;
}

}  // namespace lwmq::patterns
