#include "stream/client.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "filters/filtered.h"
#include "os/futex.h"
#include "os/identity.h"
#include "os/process_name.h"
#include "os/spin.h"
#include "service/provider_services.h"
#include "stream/elsewhere.h"
#include "tli/registry.h"

namespace lwmq::stream {
namespace {

constexpr std::uint32_t kRetryMs = 100;
constexpr std::uint32_t kAskAgainMs = 5;      // an address changes hands
constexpr std::uint32_t kLocalGlances = 200;  // some 30 µs with the serving

// The endpoints of this process. Never destroyed: threads may outlive main.
struct Hosted {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Endpoint>> by_address;
};

Hosted& hosted() noexcept {
  static auto* instance = new Hosted;
  return *instance;
}

std::shared_ptr<Endpoint> find_hosted(const std::string& address) {
  const std::lock_guard lock(hosted().mutex);
  const auto found = hosted().by_address.find(address);
  return found == hosted().by_address.end() ? nullptr : found->second.lock();
}

// Sleeps `ms` milliseconds; a signal ends it early.
Status nap(std::uint32_t ms) noexcept {
  static const std::atomic<std::uint32_t> nothing{0};
  const auto result = os::futex_wait(nothing, 0, std::int64_t{ms} * 1'000'000);
  return result == os::WaitResult::kInterrupted ? LWMQ_E_INTERRUPTED : LWMQ_OK;
}

Status host_at(const lwmq_tli_provider* provider, const std::string& address,
               std::shared_ptr<Endpoint>* out_endpoint) {
  const std::lock_guard lock(hosted().mutex);
  const Status status = Endpoint::start(provider, address, out_endpoint);
  if (status == LWMQ_OK) hosted().by_address[address] = *out_endpoint;
  return status;
}

// The provider of a stream's address. LWMQ_E_ADDRESS: no provider claims it, or it has options, which streams
// do not read.
Status find_provider(const char* address, const lwmq_tli_provider** out_provider) {
  const Status status = filters::find(address, out_provider);
  if (status != LWMQ_OK || std::strchr(address, '?') == nullptr) return status;
  return fail(LWMQ_E_ADDRESS,
              "%s: options of a stream's address are read by Python and Spark; in C set the members of "
              "lwmq_writer_options or lwmq_reader_options",
              address);
}

Status prepare(const char* address, std::uint32_t stall_ms, Reach* out_reach) {
  out_reach->pulse = Pulse(stall_ms);
  Status status = find_provider(address, &out_reach->provider);
  if (status != LWMQ_OK) return status;
  out_reach->address = address;
  lwmq_limits limits{};
  status = tli::limits(*out_reach->provider, out_reach->address.c_str(), &limits);
  if (status != LWMQ_OK) return status;
  if (out_reach->provider->window_create == nullptr) {
    return fail(LWMQ_E_UNSUPPORTED, "%s: streams need a transport that shares windows; %s does not", address,
                out_reach->provider->name);
  }
  return service::start_services();
}

Status connect_once(Reach& reach, const Deadline& deadline) {
  const lwmq_tli_options options = control_options();
  lwmq_tli_transport* transport = nullptr;
  const Status status =
      tli::connect(*reach.provider, reach.address.c_str(), options,
                   deadline.left_ms(std::min(reach.pulse.stall_ms(), kStallMs)), &transport);
  if (status != LWMQ_OK) return status;
  reach.link = std::make_unique<Link>(reach.provider, transport);
  const lwmq_tli_peer peer = reach.link->peer();
  if (std::memcmp(peer.instance, os::identity().instance, sizeof peer.instance) == 0) {
    reach.endpoint = find_hosted(reach.address);
  }
  return LWMQ_OK;
}

}  // namespace

std::uint32_t Deadline::left_ms(std::uint32_t limit_ms) const noexcept {
  if (at_ns_ < 0) return limit_ms;
  const std::int64_t left = std::max<std::int64_t>(0, at_ns_ - os::now_ns());
  return static_cast<std::uint32_t>(std::min<std::int64_t>((left + 999'999) / 1'000'000, limit_ms));
}

Status check_name(const char* address, const char* what, const char* name) noexcept {
  const std::size_t bytes = std::strlen(name);
  if (bytes >= 1 && bytes <= kNameBytesMax) return LWMQ_OK;
  return fail(LWMQ_E_INVALID, "%s: the name of a %s has %zu bytes; 1 to %u are possible: '%.60s'", address,
              what, bytes, kNameBytesMax, name);
}

Status reach_now(const char* address, const Deadline& deadline, std::uint32_t stall_ms, Reach* out_reach) {
  Reach made;
  Status status = prepare(address, stall_ms, &made);
  if (status == LWMQ_OK) status = connect_once(made, deadline);
  if (status == LWMQ_OK) *out_reach = std::move(made);
  return status;
}

Status reach(const char* address, std::int32_t role, const Deadline& deadline, std::uint32_t stall_ms,
             Reach* out_reach) {
  Reach made;
  Status status = prepare(address, stall_ms, &made);
  if (status != LWMQ_OK) return status;
  if (role == LWMQ_ROLE_SERVER) {
    std::shared_ptr<Endpoint> endpoint;
    status = host_at(made.provider, made.address, &endpoint);
    if (status != LWMQ_OK) return status;
    made.endpoint = std::move(endpoint);
  }
  std::int64_t unanswered_since_ns = 0;  // somebody listens
  for (;;) {
    const std::int64_t began_ns = os::now_ns();
    status = connect_once(made, deadline);
    if (status == LWMQ_OK) {
      *out_reach = std::move(made);
      return LWMQ_OK;
    }
    if (status != LWMQ_E_TIMED_OUT) {
      unanswered_since_ns = 0;
    } else if (unanswered_since_ns == 0) {
      unanswered_since_ns = began_ns;
    }
    const std::int64_t unanswered_ms =
        unanswered_since_ns == 0 ? 0 : (os::now_ns() - unanswered_since_ns) / 1'000'000;
    if (unanswered_since_ns != 0 && stall_ms != LWMQ_FOREVER && unanswered_ms >= stall_ms) {
      return fail(LWMQ_E_STALLED,
                  "%s: a process listens there that has not answered for %" PRId64
                  " ms: it is stopped or hangs (ss -xlp names it); let it go on or end it, and open again",
                  made.address.c_str(), unanswered_ms);
    }
    if (status != LWMQ_E_EMPTY && status != LWMQ_E_TIMED_OUT) return status;
    if (status == LWMQ_E_EMPTY && role == LWMQ_ROLE_AUTO) {
      std::shared_ptr<Endpoint> endpoint;
      status = host_at(made.provider, made.address, &endpoint);
      if (status == LWMQ_OK) {
        made.endpoint = std::move(endpoint);
        continue;
      }
      if (status != LWMQ_E_ADDRESS) return status;
      // Somebody else was faster: connect to him. A malformed address was refused by connect before.
    }
    if (deadline.over() && unanswered_since_ns != 0) {
      return fail(LWMQ_E_TIMED_OUT, "%s: a process listens there and has not answered", made.address.c_str());
    }
    if (deadline.over()) {
      return fail(LWMQ_E_TIMED_OUT,
                  "%s: nobody serves this address; start a writer, a reader or an endpoint there%s",
                  made.address.c_str(), served_elsewhere(made.address).c_str());
    }
    status = nap(deadline.left_ms(kRetryMs));
    if (status != LWMQ_OK) return status;
  }
}

std::string server_of(const Reach& reach) {
  if (reach.endpoint) return "this process";
  return os::process_name(reach.link->peer().pid);
}

std::string how_it_was_lost(const Reach& reach, Status status) {
  const char* who = "the endpoint";
  if (reach.server_is == wire::Server::kReader) who = "the reader";
  if (reach.server_is == wire::Server::kWriter) who = "the producer";
  std::string text = std::string(who) + ", " + reach.server + " on host " + os::identity().host + ", ";
  if (reach.server_is != wire::Server::kEndpoint) text += "which served the address too, ";
  text += status == LWMQ_E_PEER_LOST ? os::process_end(reach.link->peer().pid) : "left";
  return text + (reach.server_is == wire::Server::kWriter ? " without ending the stream"
                                                          : " before the stream had ended");
}

bool ask_again(Status* status, const Deadline& deadline) noexcept {
  if ((*status != LWMQ_E_PEER_LOST && *status != LWMQ_E_CLOSED) || deadline.over()) return false;
  if (nap(deadline.left_ms(kAskAgainMs)) == LWMQ_OK) return true;
  *status = LWMQ_E_INTERRUPTED;
  return false;
}

Status host(const char* address, std::shared_ptr<Endpoint>* out_endpoint) {
  const lwmq_tli_provider* provider = nullptr;
  const Status status = find_provider(address, &provider);
  return status != LWMQ_OK ? status : host_at(provider, address, out_endpoint);
}

Status part(Reach* reach, const Deadline& deadline) {
  static std::mutex leaving;  // of two who leave at the same time, the second is the last
  reach->link.reset();
  if (!reach->endpoint) return LWMQ_OK;
  {
    const std::lock_guard lock(leaving);
    if (reach->endpoint.use_count() > 1) {
      reach->endpoint.reset();
      return LWMQ_OK;  // others of this process still use it
    }
  }
  const Status status = reach->endpoint->drain(deadline.left_ms());
  if (status != LWMQ_E_TIMED_OUT) reach->endpoint.reset();
  return status;
}

Status Reach::wait(std::uint32_t timeout_ms) {
  if (endpoint) {
    for (std::uint32_t i = 0; i < kLocalGlances; ++i) {
      endpoint->pump();
      if (link->has_news()) return LWMQ_OK;
      os::pause();
    }
    endpoint->hand_over();
    return link->wait(timeout_ms);  // whoever serves himself need not ask
  }
  pulse.hear(link->received(), link->answers());
  const std::uint32_t sleep_ms = pulse.sleep_ms(timeout_ms);
  const std::int64_t began_ns = os::now_ns();
  const Status status = link->wait(sleep_ms);
  if (link->has_news()) return status;
  switch (pulse.slept(sleep_ms, os::now_ns() - began_ns)) {
    case Pulse::Due::kNothing:
      return status;
    case Pulse::Due::kAsk:
      link->send(wire::StreamKind::kPing, nullptr,
                 0);  // where that fails, it has gone: whoever reads finds out
      return status;
    case Pulse::Due::kStalled:
      break;
  }
  if (!link->is_connected()) return status;
  return fail(
      LWMQ_E_STALLED,
      "%s: the endpoint in %s lives and has not answered; we wait for it since %" PRId64
      " ms. Let it go on, or end it; whoever calls again waits on, and stall=forever does so by itself",
      address.c_str(), server_of(*this).c_str(), pulse.silent_ms());
}

Status await_answer(Reach& reach, wire::StreamKind expected, const Deadline& deadline, std::string* out_bytes,
                    const OtherNews& other) {
  Link& link = *reach.link;
  reach.pump();
  for (;;) {
    wire::StreamKind kind{};
    const Status status = link.receive(&kind, out_bytes);
    if (status == LWMQ_OK) {
      if (kind == expected) return LWMQ_OK;
      if (kind != wire::StreamKind::kFailed) {
        const Status handled = other && kind != wire::StreamKind::kPong ? other(kind, *out_bytes) : LWMQ_OK;
        if (handled != LWMQ_OK) return handled;
        if (deadline.over()) return LWMQ_E_TIMED_OUT;  // whoever talks on without answering is no different
        continue;
      }
      wire::Text letter;
      if (!wire::decode(*out_bytes, &letter))
        return fail(LWMQ_E_CORRUPT, "the endpoint's answer is malformed");
      return fail(told_failure(letter.status), "%s", letter.text.c_str());
    }
    if (status != LWMQ_E_EMPTY) return status;
    if (deadline.over()) return LWMQ_E_TIMED_OUT;
    const Status waited = reach.wait(deadline.left_ms());
    if (waited == LWMQ_E_INTERRUPTED || waited == LWMQ_E_STALLED) return waited;
    link.flush();
  }
}

Status await_opened(Reach& reach, const Deadline& deadline, wire::Opened* out_answer,
                    const OtherNews& other) {
  const char* address = reach.address.c_str();
  const std::uint32_t stall_ms = reach.pulse.stall_ms();
  const Deadline patience(deadline.left_ms(stall_ms));
  const std::int64_t began = os::now_ns();
  std::string bytes;
  const Status status = await_answer(reach, wire::StreamKind::kOpened, patience, &bytes, other);
  if (status == LWMQ_E_TIMED_OUT) {
    const std::int64_t waited_ms = (os::now_ns() - began) / 1'000'000;
    // A caller whose time is over knows how long that was, and may have asked before.
    const bool stalled = waited_ms >= stall_ms;
    const std::string since = stalled ? " for " + std::to_string(waited_ms) + " ms" : std::string();
    return fail(stalled ? LWMQ_E_STALLED : LWMQ_E_TIMED_OUT,
                "%s: the endpoint in %s lives and has not answered%s; let it go on or end it, and open again",
                address, server_of(reach).c_str(), since.c_str());
  }
  if (status != LWMQ_OK) return status;
  if (!wire::decode(bytes, out_answer))
    return fail(LWMQ_E_CORRUPT, "%s: the endpoint's answer is malformed", address);
  if (out_answer->status == LWMQ_OK) {
    reach.server = server_of(reach);
    reach.server_is = static_cast<wire::Server>(out_answer->server);
    return LWMQ_OK;
  }
  return fail(told_failure(out_answer->status), "%s", out_answer->text.c_str());
}

Status push_backlog(const Reach& reach, std::uint32_t patience_ms) {
  const Deadline patience(patience_ms);
  Link& link = *reach.link;
  const char* address = reach.address.c_str();
  while (!link.flush()) {
    reach.pump();
    if (link.flush()) break;
    if (patience.over()) {
      return fail(LWMQ_E_STALLED, "%s: the endpoint in %s lives and has not taken all of it in %u ms",
                  address, server_of(reach).c_str(), patience_ms);
    }
    if (reach.endpoint) reach.endpoint->hand_over();
    const Status status = link.wait_for_room(patience.left_ms());
    if (status == LWMQ_E_INTERRUPTED)
      continue;  // the message must not be lost; the next wait tells the caller
    if (!link.is_connected()) {
      return fail(LWMQ_E_PEER_LOST, "%s: the endpoint has gone", address);
    }
  }
  return LWMQ_OK;
}

}  // namespace lwmq::stream
