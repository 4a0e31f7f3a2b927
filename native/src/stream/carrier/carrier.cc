#include "stream/carrier/carrier.h"

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/identity.h"
#include "os/spin.h"
#include "service/provider_services.h"
#include "tli/registry.h"

namespace lwmq::stream {
namespace {

constexpr std::uint32_t kRounds = 1024;      // in one turn of the thread, if something comes all the time
constexpr std::uint32_t kRoundsOfMany = 16;  // while other carriers wait for their turn
constexpr std::uint32_t kIdleRounds = 64;    // without news, before the thread sleeps
constexpr std::int64_t kLookSoonNs = 5 * os::kMillisecond;
constexpr std::uint32_t kAcceptsAtOnce = 64;

}  // namespace

Status Carrier::start(const lwmq_tli_provider* provider, const std::string& address,
                      const tli::OwnSettings* own, const lwmq_tli_provider* near_provider,
                      const std::string& near_address, std::unique_ptr<Carrier>* out_carrier) {
  Status status = service::start_service(*provider);
  if (status != LWMQ_OK) return status;
  lwmq_tli_listener* listener = nullptr;
  status = tli::listen(*provider, address.c_str(), control_options(own), &listener);
  if (status != LWMQ_OK) return status;
  std::unique_ptr<Carrier> made(new Carrier(provider, listener, address, near_provider, near_address));
  auto& thread = service::ServiceThread::carrying();
  status = thread.add(made.get());
  if (status == LWMQ_OK) status = thread.watch(made.get(), provider->listener->descriptor(listener));
  if (status != LWMQ_OK) return status;
  thread.request(made.get());
  *out_carrier = std::move(made);
  return LWMQ_OK;
}

Carrier::Carrier(const lwmq_tli_provider* provider, lwmq_tli_listener* listener, std::string address,
                 const lwmq_tli_provider* near_provider, std::string near_address)
    : provider_(provider),
      listener_(listener),
      address_(std::move(address)),
      near_provider_(near_provider),
      near_address_(std::move(near_address)) {}

Carrier::~Carrier() {
  if (os::forked()) return;
  auto& thread = service::ServiceThread::carrying();
  thread.unwatch(provider_->listener->descriptor(listener_));
  thread.remove(this);
  for (const auto& [crossing, fd] : watched_) thread.unwatch(fd);
  crossings_.clear();
  Failure failure;  // as in ~Link
  failure.keep(LWMQ_E_CLOSED);
  provider_->listener->close(listener_);
  failure.tell();
}

std::string Carrier::address() const { return tli::bound_address(*provider_->listener, listener_, address_); }

std::int64_t Carrier::serve(std::int64_t /*now_ns*/, bool alone) noexcept {
  if (std::exchange(asleep_, false)) wake_up();
  std::uint32_t idle = 0;
  for (std::uint32_t i = 0; i < (alone ? kRounds : kRoundsOfMany); ++i) {
    bool busy = accept();
    busy |= pump();
    forget_over();
    idle = busy ? 0 : idle + 1;
    if (idle < kIdleRounds) {
      os::pause();
      continue;
    }
    if (!fall_asleep()) return os::now_ns();
    const bool soon = std::ranges::any_of(crossings_, [](const auto& c) { return c->must_look(); });
    return soon ? os::now_ns() + kLookSoonNs : service::kNever;
  }
  return os::now_ns();
}

bool Carrier::accept() {
  bool some = false;
  for (std::uint32_t i = 0; i < kAcceptsAtOnce; ++i) {
    lwmq_tli_transport* transport = nullptr;
    const Status status = provider_->listener->accept(listener_, &transport);
    if (status == LWMQ_E_EMPTY) return some;
    if (status != LWMQ_OK) continue;  // a client that was refused
    some = true;
    auto far = std::make_unique<Link>(provider_, transport);
    lwmq_tli_transport* made = nullptr;
    const Status met =
        tli::connect(*near_provider_, near_address_.c_str(), control_options(), kStallMs, &made);
    if (met != LWMQ_OK) {
      far->send_letter(wire::StreamKind::kFailed, wire::Text{met, last_error()});
      continue;
    }
    auto crossing = std::make_unique<Crossing>(std::move(far), std::make_unique<Link>(near_provider_, made),
                                               address_, near_address_);
    const int fd = crossing->near_descriptor();
    if (fd >= 0 && service::ServiceThread::carrying().watch(this, fd) == LWMQ_OK)
      watched_[crossing.get()] = fd;
    crossings_.push_back(std::move(crossing));
  }
  return some;
}

bool Carrier::pump() {
  bool busy = false;
  for (const auto& crossing : crossings_) busy |= crossing->pump();
  return busy;
}

void Carrier::forget_over() {
  std::erase_if(crossings_, [this](const auto& crossing) {
    if (!crossing->is_over()) return false;
    if (const auto found = watched_.find(crossing.get()); found != watched_.end()) {
      service::ServiceThread::carrying().unwatch(found->second);
      watched_.erase(found);
    }
    return true;
  });
}

// False: something has come meanwhile, or cannot ring.
bool Carrier::fall_asleep() {
  asleep_ = true;
  for (const auto& crossing : crossings_) {
    if (crossing->arm() != 0) return false;
  }
  return true;
}

// An armed link rings once: nothing is received from it before it is disarmed.
void Carrier::wake_up() {
  for (const auto& crossing : crossings_) crossing->disarm();
}

}  // namespace lwmq::stream
