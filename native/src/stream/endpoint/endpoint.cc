#include "stream/endpoint/endpoint.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "address/options.h"
#include "base/failure.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/identity.h"
#include "os/spin.h"
#include "service/provider_services.h"
#include "stream/link.h"
#include "tli/registry.h"
#include "tli/tables.h"

namespace lwmq::stream {
namespace {

// In one turn of the thread, if something comes all the time: then it looks who else is there.
constexpr std::uint32_t kRounds = 256;
constexpr std::uint32_t kRoundsOfMany = 16;  // while other endpoints wait for their turn
constexpr std::uint32_t kIdleRounds = 64;    // until clients that have not joined are armed
constexpr std::int64_t kLookSoonNs = 5'000'000;

}  // namespace

Status Endpoint::start(const lwmq_tli_provider* provider, const std::string& address,
                       std::shared_ptr<Endpoint>* out_endpoint) {
  if (!tli::shares_windows(*provider)) {
    return fail(LWMQ_E_UNSUPPORTED, "%s: streams need a transport that shares windows; %s does not",
                address.c_str(), provider->name);
  }
  Status status = service::start_service(*provider);
  if (status != LWMQ_OK) return status;
  lwmq_tli_listener* listener = nullptr;
  status = tli::listen(*provider, address.c_str(), control_options(), &listener);
  if (status != LWMQ_OK) return status;
  std::shared_ptr<Endpoint> endpoint(new Endpoint(provider, address, listener));
  auto& thread = service::ServiceThread::streaming();
  status = thread.add(endpoint.get());
  if (status == LWMQ_OK) status = thread.watch(endpoint.get(), provider->listener->descriptor(listener));
  if (status == LWMQ_OK) *out_endpoint = std::move(endpoint);
  return status;
}

Endpoint::Endpoint(const lwmq_tli_provider* provider, std::string address, lwmq_tli_listener* listener)
    : provider_(provider), address_(std::move(address)), listener_(listener) {}

Endpoint::~Endpoint() {
  const bool forked = os::forked();  // then the thread and the listener stayed with the parent
  Failure failure;  // of this thread, which may have one to tell: what we answer to strangers is none of it
  failure.keep(LWMQ_E_CLOSED);
  if (!forked) {
    auto& thread = service::ServiceThread::streaming();
    thread.unwatch(provider_->listener->descriptor(listener_));
    thread.remove(this);
  }
  newcomers_.clear();
  streams_.clear();
  if (!forked) provider_->listener->close(listener_);
  failure.tell();
}

// ---- The thread -------------------------------------------------------------------------------------

std::int64_t Endpoint::serve(std::int64_t now_ns, bool alone) noexcept {
  const std::lock_guard lock(mutex_);
  if (take_polled() || now_ns >= alarm_ns_) common_.look_at_all.store(true);
  for (std::uint32_t i = 0; i < (alone ? kRounds : kRoundsOfMany); ++i) {
    if (common_.look_at_all.exchange(false)) look_at_all(now_ns);
    bool any_awake = serve_newcomers();
    std::int64_t next_ns = alarm_ns_;
    std::erase_if(awake_, [&](Stream* stream) {
      const std::int64_t at_ns = stream->serve();
      stream->is_listed = at_ns != service::kNever;
      any_awake |= at_ns == 0;
      if (at_ns != 0) next_ns = std::min(next_ns, at_ns);
      return !stream->is_listed;
    });
    if (!any_awake && !common_.look_at_all.load()) return next_ns;
    os::pause();  // clients of this process get their turn
  }
  return now_ns;
}

void Endpoint::look_at_all(std::int64_t now_ns) {
  accept();
  poll_newcomers();
  if (now_ns >= newcomers_alarm_ns_) newcomers_idle_rounds_ = 0, newcomers_alarm_ns_ = service::kNever;
  alarm_ns_ = newcomers_alarm_ns_;
  std::vector<Stream*> unused;
  for (const auto& [name, stream] : streams_) {
    if (!stream->look(now_ns)) {
      alarm_ns_ = std::min(alarm_ns_, stream->alarm_ns());
      if (stream->is_unused()) unused.push_back(stream.get());
    } else if (!std::exchange(stream->is_listed, true)) {
      awake_.push_back(stream.get());
    }
  }
  for (Stream* stream : unused) end(*stream);
}

// ---- Clients that have not joined a stream ------------------------------------------------------------

void Endpoint::accept() {
  lwmq_tli_transport* transport = nullptr;
  while (provider_->listener->accept(listener_, &transport) == LWMQ_OK) {
    newcomers_.push_back({std::make_unique<Client>(provider_, transport)});
    newcomers_idle_rounds_ = 0;
  }
}

// False when they are asleep, or there is none.
bool Endpoint::serve_newcomers() {
  if (newcomers_.empty()) return false;
  poll_newcomers();
  if (newcomers_idle_rounds_ == kIdleRounds) return false;
  if (++newcomers_idle_rounds_ < kIdleRounds) return true;
  for (Newcomer& newcomer : newcomers_) {
    if (newcomer.is_armed) continue;
    const std::int32_t armed = newcomer.client->link.arm();
    newcomer.is_armed = armed == 0;
    common_.look_at_all.store(true);
    if (armed > 0) newcomers_idle_rounds_ = 0;
    if (armed < 0) newcomers_alarm_ns_ = os::now_ns() + kLookSoonNs;
  }
  return newcomers_idle_rounds_ != kIdleRounds;
}

void Endpoint::poll_newcomers() {
  bool busy = false;
  std::string bytes;
  for (Newcomer& newcomer : newcomers_) {
    Client& c = *newcomer.client;
    if (newcomer.is_armed) {  // as Stream::look
      if (!c.link.has_rung()) continue;
      newcomer.is_armed = false;
      common_.look_at_all.store(true);
      c.link.disarm();
      busy = true;
    }
    c.link.flush();
    wire::StreamKind kind{};
    const std::uint64_t received = c.link.received();
    Status status = c.link.receive(&kind, &bytes);
    busy = busy || c.link.received() != received || status != LWMQ_E_EMPTY;
    if (status == LWMQ_E_EMPTY) continue;
    if (status == LWMQ_OK) {
      status = kind == wire::StreamKind::kJoin   ? join(&newcomer, bytes)
               : kind == wire::StreamKind::kPing ? c.link.send(wire::StreamKind::kPong, nullptr, 0)
                                                 : unexpected(kind, bytes);
    }
    if (status == LWMQ_OK) continue;
    tell_failure(c, address_, status);
    newcomer.client.reset();
  }
  if (!busy) return;
  newcomers_idle_rounds_ = 0;
  std::erase_if(newcomers_, [](const Newcomer& newcomer) { return !newcomer.client; });
}

Status Endpoint::join(Newcomer* newcomer, const std::string& bytes) {
  wire::Join letter;
  if (!wire::decode(bytes, &letter) || (!letter.stream.empty() && !address::is_stream_name(letter.stream)))
    return malformed("Join");
  Client& c = *newcomer->client;
  const bool own = std::memcmp(c.peer.instance, os::identity().instance, sizeof c.peer.instance) == 0;
  Stream* stream = nullptr;
  wire::Joined answer;
  answer.status = find(letter, own, &stream);
  if (answer.status == LWMQ_OK) {
    answer.stream = stream->name();
  } else {
    answer.text = answer.status == LWMQ_E_EMPTY ? names() : last_error();
  }
  const Status status = c.link.send_letter(wire::StreamKind::kJoined, answer);
  if (status == LWMQ_OK && stream != nullptr) {
    stream->add(std::move(newcomer->client));
    common_.look_at_all.store(true);
  }
  return status;
}

// ---- Streams ----------------------------------------------------------------------------------------

// LWMQ_E_EMPTY: the stream is not there. LWMQ_E_ADDRESS: the letter names none, and several are there.
Status Endpoint::find(const wire::Join& letter, bool made_here, Stream** out_stream) {
  auto found = streams_.find(letter.stream);
  if (found == streams_.end() && letter.stream.empty() && !streams_.empty()) {
    if (streams_.size() > 1) {
      return fail(LWMQ_E_ADDRESS, "%s names no stream, and %zu are there: %s; say which, as in %s?stream=%s",
                  address_.c_str(), streams_.size(), names().c_str(), address_.c_str(),
                  streams_.begin()->first.c_str());
    }
    found = streams_.begin();
  }
  if (found == streams_.end())
    return letter.create == 0 ? LWMQ_E_EMPTY : create(letter.stream, made_here, out_stream);
  *out_stream = found->second.get();
  return LWMQ_OK;
}

Status Endpoint::create(const std::string& name, bool made_here, Stream** out_stream) {
  if (streams_.size() >= kStreamsMax) {
    return fail(LWMQ_E_NO_MEMORY, "%s: %zu streams are there, as many as one address can have",
                address_.c_str(), streams_.size());
  }
  auto& stream = streams_[name] = std::make_unique<Stream>(address_, name, made_here, &common_);
  common_.look_at_all.store(true);
  *out_stream = stream.get();
  return LWMQ_OK;
}

// For a text: the names of the streams, as far as there is room.
std::string Endpoint::names() const {
  std::string list;
  std::size_t left = streams_.size();
  for (const auto& [name, stream] : streams_) {
    if (list.size() + name.size() > kReasonBytesMax / 2) break;
    list += (list.empty() ? "" : ", ") + (name.empty() ? "one without a name" : name);
    --left;
  }
  return left == 0 ? list : list + " and " + std::to_string(left) + " more";
}

void Endpoint::end(Stream& stream) {
  std::erase(awake_, &stream);
  streams_.erase(stream.name());
}

// ---- Users in this process --------------------------------------------------------------------------

Status Endpoint::make(const std::string& name, StreamUse* out_use) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(name);
    if (found != streams_.end())
      return fail(LWMQ_E_ADDRESS, "%s is served already, by process %u", found->second->address().c_str(),
                  os::identity().pid);
    Stream* stream = nullptr;
    if (const Status status = create(name, true, &stream); status != LWMQ_OK) return status;
    *out_use = begin_use(*stream);
  }
  common_.ring();
  return LWMQ_OK;
}

StreamUse Endpoint::use(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(name);
  return found == streams_.end() ? StreamUse() : begin_use(*found->second);
}

StreamUse Endpoint::begin_use(Stream& stream) {
  const std::lock_guard lock(common_.mutex);
  ++stream.users, ++common_.users;
  return {shared_from_this(), &stream};
}

// What has come in so far counts for whoever waits, also where there is no time to wait.
void Endpoint::catch_up() {
  const std::lock_guard lock(mutex_);
  accept();
  poll_newcomers();
  bool any_awake = !newcomers_.empty();
  for (const auto& [name, stream] : streams_) any_awake |= stream->catch_up();
  if (any_awake) common_.ring();  // the thread is to serve it
}

Status Endpoint::drain(Stream& stream, std::uint32_t timeout_ms, bool leaves) {
  const std::int64_t deadline_ns = os::deadline_of(timeout_ms);
  const auto is_needed_by_others = [&] {
    return leaves && (stream.users > 1 || (!stream.made_here && common_.users > 1));
  };
  const auto done = [&] {
    return is_needed_by_others() || (stream.is_at_rest() && (common_.users > 1 || common_.restless == 0));
  };
  const auto must_rest = [&] {
    const std::lock_guard lock(common_.mutex);
    return !is_needed_by_others();
  };
  for (;;) {
    if (must_rest()) catch_up();
    {
      std::unique_lock lock(common_.mutex);
      if (timeout_ms == LWMQ_FOREVER) {
        common_.rested.wait(lock, done);
      } else {
        common_.rested.wait_for(lock, std::chrono::milliseconds(os::ms_left(deadline_ns)), done);
      }
    }
    const std::lock_guard lock(mutex_);
    std::unique_lock common_lock(common_.mutex);
    if (done()) {
      common_lock.unlock();
      if (leaves) let_go(stream);
      return LWMQ_OK;
    }
    common_lock.unlock();
    if (os::ms_left(deadline_ns) > 0) continue;
    const std::string left = what_is_left(stream);
    if (!left.empty()) return fail(LWMQ_E_TIMED_OUT, "%s", left.c_str());
  }
}

// Of the stream itself, else of another one.
std::string Endpoint::what_is_left(Stream& first) {
  std::string left = first.what_is_left();
  if (!left.empty()) return first.address() + ": " + left;
  for (const auto& [name, stream] : streams_) {
    left = stream->what_is_left();
    if (!left.empty()) return stream->address() + ": " + left;
  }
  return {};
}

void Endpoint::let_go(Stream& stream) {
  {
    const std::lock_guard lock(common_.mutex);
    --common_.users;
    common_.rested.notify_all();
    if (--stream.users > 0) return;
  }
  if (stream.made_here) {
    end(stream);
  } else {
    common_.look_at_all.store(true);  // it may be unused now
    common_.ring();
  }
}

StreamUse::~StreamUse() {
  if (stream_ == nullptr || os::forked()) return;
  const std::lock_guard lock(endpoint_->mutex_);
  endpoint_->let_go(*stream_);
}

Status StreamUse::drain(std::uint32_t timeout_ms) const {
  return endpoint_->drain(*stream_, timeout_ms, false);
}

Status StreamUse::leave(std::uint32_t timeout_ms) {
  const Status status = endpoint_->drain(*stream_, timeout_ms, true);
  if (status != LWMQ_OK) return status;
  stream_ = nullptr;
  endpoint_.reset();
  return LWMQ_OK;
}

}  // namespace lwmq::stream
