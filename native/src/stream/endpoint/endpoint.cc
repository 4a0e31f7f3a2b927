#include "stream/endpoint/endpoint.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "os/futex.h"
#include "os/identity.h"
#include "os/spin.h"
#include "os/thread.h"
#include "service/provider_services.h"
#include "tli/registry.h"

namespace lwmq::stream {
namespace {

// Rounds without news before the thread sleeps. Few: on two cores it takes time from its own clients.
constexpr std::uint32_t kIdleRounds = 64;
constexpr std::uint32_t kRoundsPerAccept =
    16;  // looking for clients costs system calls, looking at links none
constexpr std::uint32_t kBusyRoundsPerAccept = 256;
constexpr std::uint32_t kRoundsBeforeAnswer = 64;
constexpr std::int64_t kNapNs = 200'000;  // for how long a client's pumping counts as serving

}  // namespace

Status Endpoint::start(const lwmq_tli_provider* provider, const std::string& address,
                       std::shared_ptr<Endpoint>* out_endpoint) {
  if (provider->window_create == nullptr) {
    return fail(LWMQ_E_UNSUPPORTED, "%s: streams need a transport that shares windows; %s does not",
                address.c_str(), provider->name);
  }
  Status status = service::start_services();
  if (status != LWMQ_OK) return status;
  const lwmq_tli_options options = control_options();
  lwmq_tli_listener* listener = nullptr;
  status = tli::listen(*provider, address.c_str(), options, &listener);
  if (status != LWMQ_OK) return status;
  const int stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_fd < 0) {
    const int error = errno;
    provider->listener_close(listener);
    return fail_call(LWMQ_E_SYSTEM, error, "%s: eventfd", address.c_str());
  }
  std::shared_ptr<Endpoint> endpoint(new Endpoint(provider, address, listener, stop_fd));
  const Status started = os::start_thread(
      "lwmq-endpoint", [](void* self) { static_cast<Endpoint*>(self)->serve(); }, endpoint.get(),
      &endpoint->thread_);
  if (started != LWMQ_OK) {
    provider->listener_close(listener);
    return started;
  }
  endpoint->has_thread_ = true;
  *out_endpoint = std::move(endpoint);
  return LWMQ_OK;
}

Endpoint::Endpoint(const lwmq_tli_provider* provider, std::string address, lwmq_tli_listener* listener,
                   int stop_fd)
    : provider_(provider),
      address_(std::move(address)),
      listener_(listener),
      stop_fd_(stop_fd),
      stream_(address_) {}

Endpoint::~Endpoint() {
  stop();
  ::close(stop_fd_);
}

void Endpoint::stop() {
  if (!std::exchange(has_thread_, false) || os::forked()) return;  // the thread stayed with the parent
  stopping_.store(true, std::memory_order_relaxed);                // ordered by the write to the descriptor
  ring();
  hand_over();
  pthread_join(thread_, nullptr);
}

Status Endpoint::drain(std::uint32_t timeout_ms) {
  {
    // What has come in so far counts, also where there is no time to wait.
    const std::lock_guard lock(pump_mutex_);
    for (std::uint32_t i = 0; i < kRoundsBeforeAnswer && poll_once(true); ++i) {
    }
    note_idle_state();
  }
  {
    std::unique_lock lock(idle_mutex_);
    const auto done = [this] { return idle_; };
    if (timeout_ms == LWMQ_FOREVER) {
      idle_changed_.wait(lock, done);
      return LWMQ_OK;
    }
    if (idle_changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), done)) return LWMQ_OK;
  }
  const std::lock_guard lock(pump_mutex_);
  const std::string left = stream_.unfinished();
  return left.empty() ? LWMQ_OK : fail(LWMQ_E_TIMED_OUT, "%s: %s", address_.c_str(), left.c_str());
}

// ---- The thread -------------------------------------------------------------------------------------

void Endpoint::serve() {
  std::uint32_t idle_rounds = 0, busy_rounds = 0;
  std::unique_lock lock(pump_mutex_);
  while (!stopping_.load(std::memory_order_relaxed)) {
    // Also where there is always something to do, somebody new must get in.
    if (poll_once(idle_rounds % kRoundsPerAccept == 0 || busy_rounds >= kBusyRoundsPerAccept)) {
      busy_rounds = busy_rounds >= kBusyRoundsPerAccept ? 0 : busy_rounds + 1;
      idle_rounds = 1;
    } else if (++idle_rounds >= kIdleRounds) {
      idle_rounds = 0;
      if (pumped_ != pumped_seen_) {
        pumped_seen_ = pumped_;
        lock.unlock();
        nap();
        lock.lock();
        continue;
      }
      note_idle_state();
      arm_and_sleep(lock);
    }
    lock.unlock();  // clients of this process get their turn
    os::pause();
    lock.lock();
  }
  stream_.close();
  provider_->listener_close(listener_);
}

void Endpoint::pump() {
  const std::unique_lock lock(pump_mutex_, std::try_to_lock);
  if (!lock || stopping_.load(std::memory_order_relaxed)) return;
  ++pumped_;
  if (disarm()) {
    ring();  // peers ring for nobody now: the own thread must know that it is to look again
  }
  poll_once(false);
}

void Endpoint::hand_over() {
  nap_word_.fetch_add(1, std::memory_order_release);
  if (napping_.load(std::memory_order_seq_cst)) os::futex_wake_all(nap_word_);
}

void Endpoint::nap() {
  const std::uint32_t seen = nap_word_.load(std::memory_order_acquire);
  napping_.store(true, std::memory_order_seq_cst);
  os::futex_wait(nap_word_, seen, kNapNs);
  napping_.store(false, std::memory_order_relaxed);
}

bool Endpoint::poll_once(bool look_for_clients) {
  bool busy = false;
  while (look_for_clients) {
    lwmq_tli_transport* transport = nullptr;
    if (provider_->accept(listener_, &transport) != LWMQ_OK) break;
    busy = true;
    stream_.add(std::make_unique<Client>(provider_, transport));
  }
  busy |= stream_.poll();
  if (busy) note_busy();
  return busy;
}

void Endpoint::ring() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_fd_, &one, sizeof one);
}

void Endpoint::arm_and_sleep(std::unique_lock<std::mutex>& lock) {
  armed_ = true;
  int sleep_ms = 0;
  if (stream_.arm(&sleep_ms)) {
    lock.unlock();
    pollfd descriptors[2] = {{provider_->listener_fd(listener_), POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    ::poll(descriptors, 2, sleep_ms);  // whatever ends it, the next round looks at everything
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(stop_fd_, &count, sizeof count);  // empty: nothing to drain
    lock.lock();
  }
  disarm();
}

bool Endpoint::disarm() {
  if (!std::exchange(armed_, false)) return false;
  stream_.disarm();
  return true;
}

// Something has come in: what drain() was told last is old.
void Endpoint::note_busy() {
  if (busy_noted_) return;
  busy_noted_ = true;
  const std::lock_guard lock(idle_mutex_);
  idle_ = false;
}

// Tells drain() how things stand.
void Endpoint::note_idle_state() {
  busy_noted_ = false;
  const std::lock_guard lock(idle_mutex_);
  idle_ = stream_.unfinished().empty();
  idle_changed_.notify_all();
}

}  // namespace lwmq::stream
