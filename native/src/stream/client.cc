#include "stream/client.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "address/options.h"
#include "filters/filtered.h"
#include "os/futex.h"
#include "os/identity.h"
#include "os/spin.h"
#include "service/provider_services.h"
#include "stream/elsewhere.h"
#include "tli/registry.h"
#include "tli/tables.h"

namespace lwmq::stream {
namespace {

using address::StreamAddress;

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

// With the mutex: the endpoint of an address that this process serves; null: it serves none there.
std::shared_ptr<Endpoint> find_hosted(const std::string& endpoint) {
  const auto found = hosted().by_address.find(endpoint);
  return found == hosted().by_address.end() ? nullptr : found->second.lock();
}

// A use of a stream of this process; null where it has gone.
StreamUse use_hosted(const StreamAddress& address) {
  const std::lock_guard lock(hosted().mutex);
  const auto endpoint = find_hosted(address.endpoint);
  return endpoint ? endpoint->use(address.stream) : StreamUse();
}

// Sleeps `ms` milliseconds; a signal ends it early.
Status nap(std::uint32_t ms) noexcept {
  static const std::atomic<std::uint32_t> nothing{0};
  const auto result = os::futex_wait(nothing, 0, std::int64_t{ms} * 1'000'000);
  return result == os::WaitResult::kInterrupted ? LWMQ_E_INTERRUPTED : LWMQ_OK;
}

Status host_at(const lwmq_tli_provider* provider, const StreamAddress& address, StreamUse* out_use) {
  const std::lock_guard lock(hosted().mutex);
  std::erase_if(hosted().by_address, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<Endpoint> endpoint = find_hosted(address.endpoint);
  if (!endpoint) {
    const Status status = Endpoint::start(provider, address.endpoint, &endpoint);
    if (status != LWMQ_OK) return status;
    hosted().by_address[address.endpoint] = endpoint;
  }
  return endpoint->make(address.stream, out_use);
}

// LWMQ_E_ADDRESS: no provider claims the address, or it has options that are not for streams in C.
Status find_provider(const char* address, const lwmq_tli_provider** out_provider,
                     StreamAddress* out_address) {
  const Status status = filters::find(address, out_provider);
  return status == LWMQ_OK ? address::split_stream(address, out_address) : status;
}

Status prepare(const char* text, std::uint32_t stall_ms, StreamAddress* out_address, Reach* out_reach) {
  out_reach->pulse = Pulse(stall_ms);
  Status status = find_provider(text, &out_reach->provider, out_address);
  if (status != LWMQ_OK) return status;
  out_reach->address = out_address->text();
  lwmq_limits limits{};
  status = tli::limits(*out_reach->provider, out_address->endpoint.c_str(), &limits);
  if (status != LWMQ_OK) return status;
  if (!tli::shares_windows(*out_reach->provider)) {
    return fail(LWMQ_E_UNSUPPORTED, "%s: streams need a transport that shares windows; %s does not", text,
                out_reach->provider->name);
  }
  return service::start_service(*out_reach->provider);
}

Status connect_once(Reach& made, const StreamAddress& address, const Deadline& deadline) {
  lwmq_tli_transport* transport = nullptr;
  const Status status = tli::connect(*made.provider, address.endpoint.c_str(), control_options(),
                                     deadline.left_ms(std::min(made.pulse.stall_ms(), kStallMs)), &transport);
  if (status == LWMQ_OK) made.link = std::make_unique<Link>(made.provider, transport);
  return status;
}

// Waits for the answer to a first question. LWMQ_E_STALLED: the endpoint lives and has been silent for
// `stall`; LWMQ_E_TIMED_OUT: for a shorter while. Both with a text.
Status await_first_answer(Reach& reach, wire::StreamKind expected, const Deadline& deadline,
                          std::string* out_bytes, const OtherNews& other = {}) {
  const std::uint32_t stall_ms = reach.pulse.stall_ms();
  const Deadline patience(deadline.left_ms(stall_ms));
  const std::int64_t began = os::now_ns();
  const Status status = await_answer(reach, expected, patience, out_bytes, other);
  if (status != LWMQ_E_TIMED_OUT) return status;
  const std::int64_t waited_ms = (os::now_ns() - began) / 1'000'000;
  // A caller whose time is over knows how long that was, and may have asked before.
  const bool stalled = waited_ms >= stall_ms;
  const std::string since = stalled ? " for " + std::to_string(waited_ms) + " ms" : std::string();
  return fail(stalled ? LWMQ_E_STALLED : LWMQ_E_TIMED_OUT,
              "%s: the endpoint in %s lives and has not answered%s; let it go on or end it, and open again",
              reach.address.c_str(), server_of(reach).c_str(), since.c_str());
}

// LWMQ_E_EMPTY: the stream is not there; *out_there has the names of those that are.
Status join(Reach& made, StreamAddress address, bool create, const Deadline& deadline,
            std::string* out_there) {
  wire::Join letter;
  letter.create = create ? 1 : 0;
  letter.stream = address.stream;
  std::string bytes;
  Status status = made.link->send_letter(wire::StreamKind::kJoin, letter);
  if (status == LWMQ_OK) status = await_first_answer(made, wire::StreamKind::kJoined, deadline, &bytes);
  if (status != LWMQ_OK) return status;
  wire::Joined answer;
  if (!wire::decode(bytes, &answer))
    return fail(LWMQ_E_CORRUPT, "%s: the endpoint's answer is malformed", made.address.c_str());
  *out_there = answer.text;
  if (answer.status == LWMQ_E_EMPTY) return LWMQ_E_EMPTY;
  if (answer.status != LWMQ_OK) return fail(told_failure(answer.status), "%s", answer.text.c_str());
  address.stream = answer.stream;
  made.address = address.text();
  const lwmq_tli_peer peer = made.link->peer();
  if (!made.own_stream && std::memcmp(peer.instance, os::identity().instance, sizeof peer.instance) == 0)
    made.own_stream = use_hosted(address);
  return LWMQ_OK;
}

Status not_there(const Reach& made, const std::string& there) {
  if (!made.link) {
    return fail(LWMQ_E_TIMED_OUT,
                "%s: nobody serves this address; start a writer, a reader or an endpoint there%s",
                made.address.c_str(), served_elsewhere(made.address).c_str());
  }
  return fail(LWMQ_E_TIMED_OUT, "%s: there is no such stream at the endpoint in %s; %s%s",
              made.address.c_str(), server_of(made).c_str(),
              there.empty() ? "none is there" : "there are: ", there.c_str());
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

Status reach_now(const char* text, const Deadline& deadline, std::uint32_t stall_ms, Reach* out_reach) {
  Reach made;
  StreamAddress address;
  std::string there;
  Status status = prepare(text, stall_ms, &address, &made);
  if (status == LWMQ_OK) status = connect_once(made, address, deadline);
  if (status == LWMQ_OK) status = join(made, address, false, deadline, &there);
  if (status == LWMQ_OK) *out_reach = std::move(made);
  return status;
}

Status reach(const char* text, std::int32_t role, const Deadline& deadline, std::uint32_t stall_ms,
             Reach* out_reach) {
  Reach made;
  StreamAddress address;
  Status status = prepare(text, stall_ms, &address, &made);
  if (status == LWMQ_OK && role == LWMQ_ROLE_SERVER)
    status = host_at(made.provider, address, &made.own_stream);
  if (status != LWMQ_OK) return status;
  std::string there;                     // the streams at the endpoint, where ours is not
  bool was_asked = false;                // for ours
  std::int64_t unanswered_since_ns = 0;  // somebody listens
  for (;;) {
    const std::int64_t began_ns = os::now_ns();
    if (!made.link) status = connect_once(made, address, deadline);
    if (made.link) {
      status = join(made, address, role != LWMQ_ROLE_CLIENT, deadline, &there);
      if (status == LWMQ_OK) *out_reach = std::move(made);
      if (status == LWMQ_E_TIMED_OUT && was_asked) return not_there(made, there);
      if (status != LWMQ_E_EMPTY) return status;
      was_asked = true;
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
    if (!made.link && status == LWMQ_E_EMPTY && role == LWMQ_ROLE_AUTO) {
      status = host_at(made.provider, address, &made.own_stream);
      if (status == LWMQ_OK) continue;
      if (status != LWMQ_E_ADDRESS) return status;
      // Another one was faster: connect there. A malformed address was refused by connect before.
    }
    if (deadline.over() && unanswered_since_ns != 0) {
      return fail(LWMQ_E_TIMED_OUT, "%s: a process listens there and has not answered", made.address.c_str());
    }
    if (deadline.over()) return not_there(made, there);
    status = nap(deadline.left_ms(kRetryMs));
    if (status != LWMQ_OK) return status;
  }
}

std::string server_of(const Reach& reach) {
  if (reach.own_stream) return "this process";
  return name_of(reach.link->peer());
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

Status host(const char* text, StreamUse* out_use) {
  const lwmq_tli_provider* provider = nullptr;
  StreamAddress address;
  const Status status = find_provider(text, &provider, &address);
  return status == LWMQ_OK ? host_at(provider, address, out_use) : status;
}

Status part(Reach* reach, const Deadline& deadline) {
  reach->link.reset();
  return reach->own_stream ? reach->own_stream.leave(deadline.left_ms()) : LWMQ_OK;
}

Status Reach::wait(std::uint32_t timeout_ms) {
  if (own_stream) {
    for (std::uint32_t i = 0; i < kLocalGlances; ++i) {
      own_stream->pump();
      if (link->has_news()) return LWMQ_OK;
      os::pause();
    }
    own_stream->hand_over();
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
  std::string bytes;
  const Status status = await_first_answer(reach, wire::StreamKind::kOpened, deadline, &bytes, other);
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
    if (reach.own_stream) reach.own_stream->hand_over();
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
