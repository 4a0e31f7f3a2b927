#include "filters/filtered.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "base/failure.h"
#include "base/limits.h"
#include "filters/filter_lane.h"
#include "modules/find.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/unique_fd.h"
#include "tli/registry.h"
#include "tli/tables.h"

namespace lwmq::filters {
namespace {

// How long a wait sleeps at most where the transport below cannot wake it.
constexpr std::int64_t kBlindSleepNs = 20 * os::kMillisecond;
constexpr std::size_t kCopyAlign = 64;

// What the listener's descriptor stands for: that of the listener below, and a timer of each armed transport.
struct Poll {
  os::UniqueFd epoll;
};

struct Listener {
  const lwmq_tli_provider* below;
  lwmq_tli_listener* listener;
  std::shared_ptr<Filters> filters;
  std::shared_ptr<Poll> poll;
  std::string address;  // as whoever is below has bound it
};

struct Attempt {
  std::string address;
  const lwmq_tli_provider* below;
  lwmq_tli_attempt* attempt;
  std::shared_ptr<Filters> filters;
};

class Transport final : public Below {
 public:
  Transport(const lwmq_tli_provider* below, lwmq_tli_transport* transport, std::shared_ptr<Filters> filters,
            std::shared_ptr<Poll> poll) noexcept
      : below_(below),
        transport_(transport),
        poll_(std::move(poll)),
        sending_(filters, LWMQ_TLI_SENDING, *this),
        landing_(std::move(filters), LWMQ_TLI_LANDING, *this) {}

  // LWMQ_OK, or the first instance that could not be made.
  Status begin() {
    const Status status = sending_.refresh();
    return status != LWMQ_OK ? status : landing_.refresh();
  }

  [[nodiscard]] const lwmq_tli_provider& below() const noexcept { return *below_; }
  [[nodiscard]] const lwmq_tli_transport_table& tli() const noexcept { return *below_->transport; }
  [[nodiscard]] lwmq_tli_transport* transport() const noexcept { return transport_; }

  Status acquire(lwmq_tli_buffer* out_buffer);
  Status show(lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind);
  std::int32_t state(lwmq_tli_figures* out_figures);
  Status land(lwmq_tli_extent* out_extent);
  void release(lwmq_tli_extent* extent);
  Status wait(std::uint32_t what, std::uint32_t timeout_ms);
  std::int32_t arm(std::uint32_t what);
  std::int32_t fd();
  void abandon(lwmq_tli_buffer* buffer);
  void close(std::uint32_t lent, std::uint64_t unsent);

  void give_back(const lwmq_tli_extent& extent) noexcept override;
  bool make_own(lwmq_tli_extent* extent, bool original) noexcept override;
  [[nodiscard]] bool is_own(const lwmq_tli_extent& extent) noexcept override;

 private:
  void stop_timer();
  ~Transport() = default;
  void drop_reference() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  bool pull(std::int64_t now_ns);
  [[nodiscard]] bool is_blocked(std::int64_t now_ns);
  [[nodiscard]] bool is_connected() const { return tli().state(transport_, nullptr) == LWMQ_TLI_CONNECTED; }

  const lwmq_tli_provider* const below_;
  lwmq_tli_transport* const transport_;
  const std::shared_ptr<Poll> poll_;  // null: we have connected
  os::UniqueFd timer_;                // in poll_, from the first time that it is needed
  os::UniqueFd own_poll_;             // what fd has made: from then on the timer rings there

  std::mutex sending_mutex_;
  std::mutex landing_mutex_;
  FilterLane sending_;
  FilterLane landing_;
  Failure ended_;  // what land below said last

  // The handle, and one for each landed extent and each buffer that is kept behind the close.
  std::atomic<std::uint32_t> references_{1};
  bool keeps_ = false;  // the sending thread's, behind the close of whoever abandons
  std::mutex own_mutex_;
  std::unordered_set<const std::uint8_t*> own_;  // private copies that are on their way or landed
};

Transport* of(lwmq_tli_transport* transport) noexcept { return reinterpret_cast<Transport*>(transport); }
Attempt* of(lwmq_tli_attempt* attempt) noexcept { return reinterpret_cast<Attempt*>(attempt); }
Listener* of(lwmq_tli_listener* listener) noexcept { return reinterpret_cast<Listener*>(listener); }

// ---- Copies -----------------------------------------------------------------------------------------

bool Transport::is_own(const lwmq_tli_extent& extent) noexcept {
  const std::lock_guard lock(own_mutex_);
  return own_.contains(extent.data);
}

bool Transport::make_own(lwmq_tli_extent* extent, bool original) noexcept {
  const std::uint64_t room = (extent->bytes / kCopyAlign + 1) * kCopyAlign;
  auto* copy = static_cast<std::uint8_t*>(std::aligned_alloc(kCopyAlign, room));
  if (copy == nullptr) return false;
  if (extent->bytes > 0) std::memcpy(copy, extent->data, extent->bytes);
  if (original) tli().release(transport_, extent);
  extent->data = copy;
  extent->token[0] = extent->token[1] = 0;
  const std::lock_guard lock(own_mutex_);
  own_.insert(copy);
  return true;
}

void Transport::give_back(const lwmq_tli_extent& extent) noexcept {
  {
    const std::lock_guard lock(own_mutex_);
    if (own_.erase(extent.data) != 0) {
      std::free(const_cast<std::uint8_t*>(extent.data));
      return;
    }
  }
  lwmq_tli_extent original = extent;
  tli().release(transport_, &original);
}

// ---- Sending ----------------------------------------------------------------------------------------

// A filter that slows the sender down: room is there, and is not lent yet.
bool Transport::is_blocked(std::int64_t now_ns) {
  const std::lock_guard lock(sending_mutex_);
  sending_.refresh();  // who held us up may be gone
  return sending_.blocked_until_ns() > now_ns && is_connected();
}

Status Transport::acquire(lwmq_tli_buffer* out_buffer) {
  if (is_blocked(os::now_ns())) return LWMQ_E_FULL;
  return tli().acquire(transport_, out_buffer);
}

Status Transport::show(lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind) {
  if (bytes > buffer->room) return tli().show(transport_, buffer, bytes, kind);  // it has the text
  const std::int64_t now_ns = os::now_ns();
  bool blocked = false;
  bool passes = false;
  {
    const std::lock_guard lock(sending_mutex_);
    sending_.refresh();
    lwmq_tli_passing passing{buffer->next, bytes,           buffer->room, static_cast<std::uint64_t>(now_ns),
                             kind,         LWMQ_TLI_SENDING};
    passes = sending_.pass(&passing);
    bytes = passing.bytes;
    kind = passing.kind;
    blocked = sending_.blocked_until_ns() > now_ns;
  }
  const Status status = passes ? tli().show(transport_, buffer, bytes, kind) : LWMQ_OK;
  if (blocked && status == LWMQ_OK) buffer->room = 0;  // the next extent has to acquire
  return status;
}

std::int32_t Transport::state(lwmq_tli_figures* out_figures) {
  const std::int32_t state = tli().state(transport_, out_figures);
  if (out_figures != nullptr && is_blocked(os::now_ns())) out_figures->free_buffers = 0;
  return state;
}

// ---- Landing ----------------------------------------------------------------------------------------

// With the landing mutex: moves extents from below through the filters until one comes out. True: one has,
// or none will any more. Where there are no filters, the transport below knows.
bool Transport::pull(std::int64_t now_ns) {
  landing_.refresh();
  if (landing_.is_open()) return false;
  for (;;) {
    landing_.run(now_ns);
    if (landing_.has_output() || ended_.status() != LWMQ_OK) return true;
    // Behind a peer that has gone, nothing waits for more room: its end comes behind all that it has shown.
    if (landing_.is_full() && is_connected()) return false;
    lwmq_tli_extent extent{};
    const Status status = tli().land(transport_, &extent);
    if (status == LWMQ_OK) {
      landing_.put(extent);
    } else if (status == LWMQ_E_EMPTY) {
      return false;
    } else {
      ended_.keep(status);
      landing_.flush(now_ns);
      return true;
    }
  }
}

Status Transport::land(lwmq_tli_extent* out_extent) {
  const std::lock_guard lock(landing_mutex_);
  if (!pull(os::now_ns())) {
    const Status status = landing_.is_open() ? tli().land(transport_, out_extent) : LWMQ_E_EMPTY;
    if (status == LWMQ_OK) references_.fetch_add(1, std::memory_order_relaxed);
    return status;
  }
  if (!landing_.has_output()) return ended_.tell();
  *out_extent = landing_.take();
  references_.fetch_add(1, std::memory_order_relaxed);
  return LWMQ_OK;
}

void Transport::release(lwmq_tli_extent* extent) {
  give_back(*extent);
  drop_reference();
}

void Transport::abandon(lwmq_tli_buffer* buffer) {
  tli().abandon(transport_, buffer);
  if (keeps_) drop_reference();
}

void Transport::close(std::uint32_t lent, std::uint64_t unsent) {
  {
    // What nobody has landed ends here, while the transport below still is one.
    const std::lock_guard lock(landing_mutex_);
    landing_.clear();
  }
  references_.fetch_add(lent, std::memory_order_relaxed);
  keeps_ = lent > 0;
  tli().close(transport_, lent, unsent);
  drop_reference();
}

// ---- Waiting ----------------------------------------------------------------------------------------

Status Transport::wait(std::uint32_t what, std::uint32_t timeout_ms) {
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  for (;;) {
    std::int64_t now_ns = os::now_ns();
    std::int64_t until = deadline;
    bool blind = false;  // the transport below would wake us at once, for nothing
    if ((what & LWMQ_TLI_WAIT_EXTENT) != 0) {
      const std::lock_guard lock(landing_mutex_);
      if (pull(now_ns)) return LWMQ_OK;
      until = std::min(until, landing_.next_due_ns());
      blind = landing_.is_full();
      if (landing_.holds()) what |= LWMQ_TLI_WAIT_HOLDING;
    }
    if ((what & LWMQ_TLI_WAIT_ROOM) != 0 && is_blocked(now_ns)) {
      const std::lock_guard lock(sending_mutex_);
      until = std::min(until, sending_.blocked_until_ns());
      blind = true;
    }
    now_ns = os::now_ns();
    const std::int64_t left = until - now_ns;
    if (left <= 0 && until == deadline && timeout_ms != 0) return LWMQ_E_TIMED_OUT;
    if (timeout_ms != 0 && (blind || left < os::kMillisecond)) {
      const bool extents = (what & LWMQ_TLI_WAIT_EXTENT) != 0;
      const std::int64_t ns = std::clamp<std::int64_t>(left, 0, extents ? os::kMillisecond : kBlindSleepNs);
      const timespec pause{0, ns};
      if (nanosleep(&pause, nullptr) != 0 && errno == EINTR) return LWMQ_E_INTERRUPTED;
      if (blind && until != deadline) return LWMQ_OK;
      continue;
    }
    if (blind) return LWMQ_E_TIMED_OUT;
    const auto ms = until == INT64_MAX ? LWMQ_FOREVER
                                       : static_cast<std::uint32_t>(std::clamp<std::int64_t>(
                                             left / os::kMillisecond, 0, LWMQ_FOREVER - 1));
    const Status status = tli().wait(transport_, what, timeout_ms == 0 ? 0 : ms);
    if (status != LWMQ_E_TIMED_OUT || timeout_ms == 0) return status;
  }
}

std::int32_t Transport::arm(std::uint32_t what) {
  if (what == 0) {
    stop_timer();
    return tli().arm(transport_, 0);
  }
  const std::int64_t now_ns = os::now_ns();
  std::int64_t due = kNeverDue;
  bool full = false;
  {
    const std::lock_guard lock(landing_mutex_);
    if (pull(now_ns)) return 1;
    due = landing_.next_due_ns();
    full = landing_.is_full();
    if (landing_.holds()) what |= LWMQ_TLI_WAIT_HOLDING;
  }
  if ((what & LWMQ_TLI_WAIT_ROOM) != 0 && is_blocked(now_ns)) {
    const std::lock_guard lock(sending_mutex_);
    due = std::min(due, sending_.blocked_until_ns());
  }
  stop_timer();
  const int poll = own_poll_ ? own_poll_.get() : poll_ != nullptr ? poll_->epoll.get() : -1;
  if (due != kNeverDue && poll >= 0) {
    if (!timer_) {
      timer_ = os::UniqueFd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
      epoll_event event{};
      event.events = EPOLLIN;
      if (!timer_ || epoll_ctl(poll, EPOLL_CTL_ADD, timer_.get(), &event) != 0) {
        timer_.reset();
        return -1;
      }
    }
    const itimerspec at{{0, 0}, {due / 1'000'000'000, due % 1'000'000'000}};
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
  }
  if (!full) return tli().arm(transport_, what);
  // What is there below has to wait until something here has left: that is when the timer rings.
  const std::uint32_t sending = what & (LWMQ_TLI_WAIT_ROOM | LWMQ_TLI_WAIT_REAP);
  const std::int32_t ready = tli().arm(transport_, sending | LWMQ_TLI_WAIT_STATE);
  return sending != 0 ? ready : 0;
}

void Transport::stop_timer() {
  if (!timer_) return;
  const itimerspec never{};
  timerfd_settime(timer_.get(), 0, &never, nullptr);  // also takes back that it has rung
}

// The descriptor of the transport below, and our timer.
std::int32_t Transport::fd() {
  const std::lock_guard lock(landing_mutex_);
  if (own_poll_) return own_poll_.get();
  const std::int32_t below = tli().descriptor(transport_);
  if (below < 0) return -1;
  os::UniqueFd made(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!made || epoll_ctl(made.get(), EPOLL_CTL_ADD, below, &event) != 0) {
    fail_errno(LWMQ_E_SYSTEM, errno, "a descriptor of a filtered transport");
    return -1;
  }
  timer_.reset();  // the listener had it
  own_poll_ = std::move(made);
  return own_poll_.get();
}

// ---- The tables -------------------------------------------------------------------------------------

std::int32_t claim(const char* address) {
  const char* behind = modules::behind_filters(address);
  const lwmq_tli_provider* below = nullptr;
  return behind != address && modules::find(behind, &below) == LWMQ_OK ? 1 : 0;
}

// What an address names: the provider behind its filters, and those, unless the channel has them.
Status take_apart(const char* address, const lwmq_tli_provider** out_below,
                  std::shared_ptr<Filters>* filters) {
  const Status status = modules::find(modules::behind_filters(address), out_below);
  return status != LWMQ_OK || *filters != nullptr ? status : Filters::parse(address, filters);
}

lwmq_status limits(const char* address, lwmq_limits* out_limits) {
  const lwmq_tli_provider* below = nullptr;
  std::shared_ptr<Filters> filters;
  Status status = take_apart(address, &below, &filters);
  if (status != LWMQ_OK) return status;
  status = tli::limits(*below, modules::behind_filters(address), out_limits);
  if (is_failure(status)) add_context(address);
  // What passes through us is bytes, of which we may keep copies: no addresses, nothing that has to be
  // erased.
  out_limits->capabilities &= ~(LWMQ_IS_IN_PROCESS | LWMQ_CAN_ERASE);
  return status;
}

// `filters`: null where nobody has any.
Status listen_behind(const char* address, const lwmq_tli_options* options, std::shared_ptr<Filters> filters,
                     lwmq_tli_listener** out_listener) {
  auto made = std::make_unique<Listener>();
  made->poll = std::make_shared<Poll>();
  made->filters = std::move(filters);
  Status status = take_apart(address, &made->below, &made->filters);
  if (status != LWMQ_OK) return status;
  made->poll->epoll = os::UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!made->poll->epoll) return fail_errno(LWMQ_E_SYSTEM, errno, "%s: epoll_create1", address);
  lwmq_tli_options polled = *options;
  polled.ring = nullptr;  // we poll its descriptor, beside those of our own
  const lwmq_tli_listener_table& below = *made->below->listener;
  status = tli::listen(*made->below, modules::behind_filters(address), polled, &made->listener);
  if (is_failure(status)) add_context(address);
  if (status != LWMQ_OK) return status;
  epoll_event event{};
  event.events = EPOLLIN;
  const int fd = below.descriptor(made->listener);
  if (fd < 0) {
    below.close(made->listener);
    return fail(LWMQ_E_UNSUPPORTED,
                "%s: filters need a listener with a descriptor, and provider '%s' has none", address,
                made->below->name);
  }
  if (epoll_ctl(made->poll->epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    status = fail_errno(LWMQ_E_SYSTEM, errno, "%s: epoll_ctl", address);
    below.close(made->listener);
    return status;
  }
  made->address = address;
  if (below.address != nullptr) {
    const char* behind = modules::behind_filters(address);
    made->address.replace(static_cast<std::size_t>(behind - address), std::string::npos,
                          below.address(made->listener));
  }
  *out_listener = reinterpret_cast<lwmq_tli_listener*>(made.release());
  return LWMQ_OK;
}

// Takes the transport below.
Status wrap(const lwmq_tli_provider* below, lwmq_tli_transport* transport, std::shared_ptr<Filters> filters,
            std::shared_ptr<Poll> poll, lwmq_tli_transport** out_transport) {
  auto* made = new Transport(below, transport, std::move(filters), std::move(poll));
  const Status status = made->begin();
  if (status != LWMQ_OK) {
    made->close(0, 0);
    return status;
  }
  *out_transport = reinterpret_cast<lwmq_tli_transport*>(made);
  return LWMQ_OK;
}

lwmq_status accept(lwmq_tli_listener* listener, lwmq_tli_transport** out_transport) {
  Listener& from = *of(listener);
  lwmq_tli_transport* transport = nullptr;
  const Status status = from.below->listener->accept(from.listener, &transport);
  return status != LWMQ_OK ? status : wrap(from.below, transport, from.filters, from.poll, out_transport);
}

void close_listener(lwmq_tli_listener* listener) {
  Listener* closed = of(listener);
  const lwmq_tli_listener_table& below = *closed->below->listener;
  epoll_ctl(closed->poll->epoll.get(), EPOLL_CTL_DEL, below.descriptor(closed->listener), nullptr);
  below.close(closed->listener);
  delete closed;
}

// `filters`: null where nobody has any.
Status begin_behind(const char* address, const lwmq_tli_options* options, std::shared_ptr<Filters> filters,
                    lwmq_tli_attempt** out_attempt) {
  auto made = std::make_unique<Attempt>();
  made->address = address;
  made->filters = std::move(filters);
  Status status = take_apart(address, &made->below, &made->filters);
  if (status != LWMQ_OK) return status;
  status = tli::begin(*made->below, modules::behind_filters(address), *options, &made->attempt);
  if (is_failure(status)) add_context(address);
  if (status == LWMQ_OK) *out_attempt = reinterpret_cast<lwmq_tli_attempt*>(made.release());
  return status;
}

lwmq_status advance(lwmq_tli_attempt* attempt, lwmq_tli_transport** out_transport) {
  Attempt* made = of(attempt);
  lwmq_tli_transport* transport = nullptr;
  Status status = made->below->attempt->advance(made->attempt, &transport);
  if (status == LWMQ_E_TIMED_OUT) return status;
  if (is_failure(status)) add_context(made->address.c_str());
  if (status == LWMQ_OK)
    status = wrap(made->below, transport, std::move(made->filters), nullptr, out_transport);
  delete made;
  return status;
}

void cancel(lwmq_tli_attempt* attempt) {
  Attempt* made = of(attempt);
  made->below->attempt->cancel(made->attempt);
  delete made;
}

using T = lwmq_tli_transport*;

constexpr lwmq_tli_listener_table kListener = {
    .listen =
        [](const char* address, const lwmq_tli_options* options, lwmq_tli_listener** out_listener) {
          return listen_behind(address, options, nullptr, out_listener);
        },
    .accept = accept,
    .tend =
        [](lwmq_tli_listener* listener) {
          if (const auto tend = of(listener)->below->listener->tend; tend != nullptr)
            tend(of(listener)->listener);
        },
    .descriptor = [](lwmq_tli_listener* listener) -> std::int32_t { return of(listener)->poll->epoll.get(); },
    .address = [](lwmq_tli_listener* listener) { return of(listener)->address.c_str(); },
    .close = close_listener,
};

constexpr lwmq_tli_attempt_table kAttempt = {
    .begin =
        [](const char* address, const lwmq_tli_options* options, lwmq_tli_attempt** out_attempt) {
          return begin_behind(address, options, nullptr, out_attempt);
        },
    .advance = advance,
    .descriptor = [](lwmq_tli_attempt* attempt) -> std::int32_t {
      return of(attempt)->below->attempt->descriptor(of(attempt)->attempt);
    },
    .cancel = cancel,
};

// No shortcuts: a filter sees each extent, and what landed last here need not have landed last below.
constexpr lwmq_tli_transport_table kTransport = {
    .peer = [](T t, lwmq_tli_peer* out_peer) { of(t)->tli().peer(of(t)->transport(), out_peer); },
    .state = [](T t, lwmq_tli_figures* out_figures) { return of(t)->state(out_figures); },
    .acquire = [](T t, lwmq_tli_buffer* out_buffer) { return of(t)->acquire(out_buffer); },
    .show = [](T t, lwmq_tli_buffer* buffer, std::uint64_t bytes,
               std::uint32_t kind) { return of(t)->show(buffer, bytes, kind); },
    .flush = [](T t) { tli::flush(of(t)->tli(), of(t)->transport()); },
    .ship = [](T t, lwmq_tli_buffer* buffer) { return of(t)->tli().ship(of(t)->transport(), buffer); },
    .abandon = [](T t, lwmq_tli_buffer* buffer) { of(t)->abandon(buffer); },
    .land = [](T t, lwmq_tli_extent* out_extent) { return of(t)->land(out_extent); },
    .release = [](T t, lwmq_tli_extent* extent) { of(t)->release(extent); },
    .wait = [](T t, std::uint32_t what, std::uint32_t timeout_ms) { return of(t)->wait(what, timeout_ms); },
    .arm = [](T t, std::uint32_t what) { return of(t)->arm(what); },
    .descriptor = [](T t) { return of(t)->fd(); },
    .close = [](T t, std::uint32_t lent, std::uint64_t unsent) { of(t)->close(lent, unsent); },
};

// The provider behind filters. Windows have none: what names no transport is the provider's own. Nor have
// pushes: a filter sees extents, and pushed bytes are none. They go to the transport below at once, in right
// order with what is shown: sending holds nothing back, and landing makes extents later, never earlier. So a
// push is not lost, delayed, recorded or rewritten by any filter, only the extent that tells of it.
struct Wrapped {
  explicit Wrapped(const lwmq_tli_provider& below) noexcept : provider(below) {
    provider.claim = claim;
    provider.limits = limits;
    provider.listener = &kListener;
    provider.attempt = &kAttempt;
    provider.transport = &kTransport;
    provider.fast = nullptr;
    if (below.memory == nullptr) return;
    memory = *below.memory;
    provider.memory = &memory;
    if (tli::shares_windows(below)) pass_windows();
    if (tli::takes_pushes(below)) pass_pushes();
  }
  Wrapped(const Wrapped&) = delete;
  Wrapped& operator=(const Wrapped&) = delete;

  void pass_windows() noexcept {
    memory.export_to = [](T t, lwmq_tli_window* window) {
      return of(t)->below().memory->export_to(of(t)->transport(), window);
    };
    memory.find = [](T t, const std::uint8_t id[16], std::uint32_t timeout_ms, lwmq_tli_window** out_window) {
      return of(t)->below().memory->find(of(t)->transport(), id, timeout_ms, out_window);
    };
  }
  void pass_pushes() noexcept {
    memory.pin = [](T t, void* base, std::uint64_t bytes, std::uint32_t uses, lwmq_tli_region** out_region) {
      return of(t)->below().memory->pin(of(t)->transport(), base, bytes, uses, out_region);
    };
    memory.grant = [](T t, lwmq_tli_region* region, std::uint64_t offset, std::uint64_t bytes,
                      lwmq_tli_grant* out_grant) {
      return of(t)->below().memory->grant(of(t)->transport(), region, offset, bytes, out_grant);
    };
    memory.revoke = [](T t, const lwmq_tli_grant* grant) {
      of(t)->below().memory->revoke(of(t)->transport(), grant);
    };
    memory.push = [](T t, const lwmq_tli_grant* grant, std::uint64_t offset, const lwmq_bytes* pieces,
                     std::uint32_t count, std::uint64_t token) {
      return of(t)->below().memory->push(of(t)->transport(), grant, offset, pieces, count, token);
    };
    memory.reap = [](T t, std::uint64_t* out_tokens, std::uint32_t limit) {
      return of(t)->below().memory->reap(of(t)->transport(), out_tokens, limit);
    };
  }

  lwmq_tli_provider provider;
  lwmq_tli_memory_table memory{};
};

// One for each provider. Never destroyed: threads may outlive main.
struct AllWrapped {
  std::mutex mutex;
  std::map<const lwmq_tli_provider*, Wrapped> by_below;
};

const lwmq_tli_provider* wrapped(const lwmq_tli_provider* below) {
  static auto* all = new AllWrapped;
  const std::lock_guard lock(all->mutex);
  return &all->by_below.try_emplace(below, *below).first->second.provider;
}

bool is_wrapped(const lwmq_tli_provider& provider) noexcept { return provider.transport == &kTransport; }

}  // namespace

Status find(const char* address, const lwmq_tli_provider** out_provider) noexcept {
  const Status plain = modules::find(address, out_provider);
  if (plain != LWMQ_E_ADDRESS || address == nullptr || std::strlen(address) > kAddressBytesMax) return plain;
  const char* behind = modules::behind_filters(address);
  if (behind == address) return plain;
  const lwmq_tli_provider* below = nullptr;
  const Status status = modules::find(behind, &below);
  if (status == LWMQ_OK) *out_provider = wrapped(below);
  return status;
}

Status make_filters(const char* address, std::shared_ptr<Filters>* out_filters) {
  const lwmq_tli_provider* provider = nullptr;
  out_filters->reset();
  // Else it is without filters, or a scheme with a `+` of its own.
  const bool has_some = find(address, &provider) == LWMQ_OK && is_wrapped(*provider);
  return has_some ? Filters::parse(address, out_filters) : LWMQ_OK;
}

Status listen(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
              const std::shared_ptr<Filters>& filters, lwmq_tli_listener** out_listener) {
  if (!is_wrapped(provider)) return tli::listen(provider, address, options, out_listener);
  return tli::with_text(provider, address,
                        [&] { return listen_behind(address, &options, filters, out_listener); });
}

Status begin(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
             const std::shared_ptr<Filters>& filters, lwmq_tli_attempt** out_attempt) {
  if (!is_wrapped(provider)) return tli::begin(provider, address, options, out_attempt);
  return tli::with_text(provider, address,
                        [&] { return begin_behind(address, &options, filters, out_attempt); });
}

}  // namespace lwmq::filters
