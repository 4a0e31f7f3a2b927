// far://name, far://name@ms and, for a listener, far://* - a provider that shares no page with its peer, for
// the conformance suite.
//
// It stands for networks: everything goes through a socket, arrives late (by `ms` milliseconds, and some
// more) and in pieces, the peer is somebody on another host, and a connection takes three steps: the socket,
// hello and hello, met. Its two ends may be of different processes. A peer may push, and the pieces of a push
// are read when it goes out: late, too.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/limits.h"
#include "conformance/far_transport.h"
#include "conformance/far_wire.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/identity.h"
#include "os/unix_socket.h"
#include "tli/purpose.h"

using lwmq::Status;
using namespace lwmq::far;

namespace {

constexpr std::string_view kScheme = "far://";
constexpr std::string_view kAnyName = "*";  // the listener makes one up
constexpr std::uint64_t kBufferBytesMax = 64 * lwmq::kMiB;
constexpr std::uint32_t kBuffersMax = lwmq::kBuffersMax;
constexpr std::uint32_t kDelayMax = 1000;
constexpr std::size_t kComingMax = 64;
constexpr std::int64_t kHandshakeNs = 5'000 * lwmq::os::kMillisecond;  // for a client to say its next word

struct Address {
  std::string text;
  std::string name;
  std::uint32_t delay_ms = 0;
};

Status parse(const char* text, Address* out_address) {
  out_address->text = text;
  std::string_view rest = std::string_view(text).substr(kScheme.size());
  if (const std::size_t at = rest.find('@'); at != std::string_view::npos) {
    const std::string_view digits = rest.substr(at + 1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), out_address->delay_ms);
    if (error != std::errc{} || end != digits.data() + digits.size() || out_address->delay_ms > kDelayMax)
      return lwmq::fail(LWMQ_E_ADDRESS, "%s: behind @ stand up to %u milliseconds", text, kDelayMax);
    rest = rest.substr(0, at);
  }
  if (rest.empty() || rest.size() > kNameBytesMax)
    return lwmq::fail(LWMQ_E_ADDRESS, "%s: a name of 1 to %zu bytes stands behind far://", text,
                      kNameBytesMax);
  out_address->name = rest;
  return LWMQ_OK;
}

Status check_options(const Address& address, const lwmq_tli_options& options) {
  if (options.buffer_bytes >= lwmq::kBufferBytesMin && options.buffer_bytes <= kBufferBytesMax &&
      options.buffers_send > 0 && options.buffers_send <= kBuffersMax)
    return LWMQ_OK;
  return lwmq::fail(LWMQ_E_INVALID, "%s: %u buffers of %llu bytes; up to %u of %llu are possible",
                    address.text.c_str(), options.buffers_send,
                    static_cast<unsigned long long>(options.buffer_bytes), kBuffersMax,
                    static_cast<unsigned long long>(kBufferBytesMax));
}

// ---- The handshake --------------------------------------------------------------------------------------

constexpr std::uint32_t kTakenBy = LWMQ_TAKEN_BY_TRANSPORT | LWMQ_TAKEN_BY_CHANNEL | LWMQ_TAKEN_BY_LISTENER;
// In their places among the values.
enum { kLabel, kSocketBytes };
constexpr lwmq_setting kSettings[] = {
    {sizeof(lwmq_setting), "label", nullptr, 1, sizeof(Hello::label) - 1, LWMQ_VALUE_NAME, kTakenBy},
    {sizeof(lwmq_setting), "socket_bytes", nullptr, 4 * lwmq::kKiB, 16 * lwmq::kMiB, LWMQ_VALUE_BYTES,
     kTakenBy},
    {sizeof(lwmq_setting), nullptr, nullptr, 0, 0, 0, 0},
};

// What an address says beside its name, for as long as there are calls to it.
struct Said {
  std::string label;
  std::uint64_t socket_bytes = 0;  // 0: as the kernel has it

  explicit Said(const lwmq_tli_options& options) {
    if (options.values == nullptr) return;
    if (const char* text = options.values[kLabel].text; text != nullptr) label = text;
    socket_bytes = options.values[kSocketBytes].value;
  }
  void apply(int socket) const {
    const int bytes = static_cast<int>(socket_bytes);
    if (bytes != 0) setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  }
};

Hello hello_of(const lwmq_tli_options& options, const Said& said) {
  Hello hello{};
  hello.magic = kMagic;
  hello.version = lwmq::kProtocolVersion;
  hello.purpose = options.purpose;
  hello.buffers = options.buffers_send;
  hello.buffer_bytes = options.buffer_bytes;
  hello.channel = options.channel;
  std::strncpy(hello.label, said.label.c_str(), sizeof hello.label - 1);
  std::memcpy(hello.instance, lwmq::os::identity().instance, sizeof hello.instance);
  return hello;
}

Status check_hello(const Hello& hello, const Address& address, const lwmq_tli_options& options,
                   bool from_listener) {
  const char* text = address.text.c_str();
  if (hello.magic != kMagic)
    return lwmq::fail(LWMQ_E_CORRUPT, "%s: a hello that begins with %#x", text, hello.magic);
  if (hello.version != lwmq::kProtocolVersion) {
    return lwmq::fail(LWMQ_E_VERSION, "%s: the peer speaks version %u of the protocol, we %u", text,
                      hello.version, lwmq::kProtocolVersion);
  }
  if (from_listener && hello.refusal != LWMQ_OK) {
    std::string why(hello.why, sizeof hello.why);
    return lwmq::fail(lwmq::told_failure(hello.refusal), "%s: the listener refused: %s", text, why.c_str());
  }
  if (hello.buffers == 0 || hello.buffers > kBuffersMax || hello.buffer_bytes < lwmq::kBufferBytesMin ||
      hello.buffer_bytes > kBufferBytesMax) {
    return lwmq::fail(LWMQ_E_CORRUPT, "%s: the peer has %u buffers of %llu bytes", text, hello.buffers,
                      static_cast<unsigned long long>(hello.buffer_bytes));
  }
  if (hello.buffers + options.buffers_send > kBuffersMax) {
    return lwmq::fail(LWMQ_E_INVALID, "%s: %u buffers of the peer and %u of ours; a transport has at most %u",
                      text, hello.buffers, options.buffers_send, kBuffersMax);
  }
  if (options.buffers_receive != 0 && hello.buffers > options.buffers_receive) {
    return lwmq::fail(LWMQ_E_INVALID, "%s: the peer sends with %u buffers, this side is ready for %u", text,
                      hello.buffers, options.buffers_receive);
  }
  return from_listener ? lwmq::tli::check_purposes(text, options.purpose, hello.purpose)
                       : lwmq::tli::check_purposes(text, hello.purpose, options.purpose);
}

Parts parts_of(const Address& address, const lwmq_tli_options& options, const Hello& hello,
               lwmq::os::UniqueFd socket, Door door) {
  Parts parts{address.text, options, {}, std::move(socket), address.delay_ms, std::move(door)};
  std::memcpy(parts.peer.instance, hello.instance, sizeof parts.peer.instance);
  std::snprintf(parts.peer.name, sizeof parts.peer.name, "%.31s%sfar away", hello.label,
                hello.label[0] != 0 ? " " : "someone ");
  parts.peer.buffer_bytes = hello.buffer_bytes;
  parts.peer.buffers = hello.buffers;
  parts.peer.channel = hello.channel;
  return parts;
}

// What has come of a message of `bytes` bytes, and is whole with the last of them.
class Incoming {
 public:
  // LWMQ_OK: it is whole. LWMQ_E_EMPTY: not yet. LWMQ_E_PEER_LOST.
  Status read(int socket, void* message, std::size_t bytes) {
    while (have_ < bytes) {
      const ssize_t got = ::recv(socket, static_cast<char*>(message) + have_, bytes - have_, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return LWMQ_E_EMPTY;
      if (got <= 0) return LWMQ_E_PEER_LOST;
      have_ += static_cast<std::size_t>(got);
    }
    have_ = 0;
    return LWMQ_OK;
  }

 private:
  std::size_t have_ = 0;
};

// Small, and the first that goes out: the socket has room for it.
Status send_all(int socket, const void* message, std::size_t bytes) {
  const ssize_t sent = ::send(socket, message, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(bytes) ? LWMQ_OK : LWMQ_E_PEER_LOST;
}

// A client on its way in.
struct Coming {
  lwmq::os::UniqueFd socket;
  std::int64_t deadline;
  Incoming incoming;
  Hello hello{};
  bool is_answered = false;
};

}  // namespace

// ---- The listener ---------------------------------------------------------------------------------------

struct lwmq_tli_listener {
  Address address;
  lwmq_tli_options options;
  Said said;
  lwmq::os::UniqueFd socket;
  Door door;
  std::deque<Coming> coming;

  void watch(int fd, int change = EPOLL_CTL_ADD) const {
    epoll_event event{EPOLLIN, {}};
    epoll_ctl(door->get(), change, fd, &event);
  }
  // Of those that are under way the oldest that has said nothing. False: all have our answer.
  bool make_place() {
    const auto silent =
        std::find_if(coming.begin(), coming.end(), [](const Coming& client) { return !client.is_answered; });
    if (silent == coming.end()) return false;
    coming.erase(silent);
    return true;
  }
  // Whoever finds no place stays where the kernel keeps it, and the door does not tell of it.
  void let_in() {
    watch(socket.get());
    for (;;) {
      if (coming.size() >= kComingMax && !make_place()) return watch(socket.get(), EPOLL_CTL_DEL);
      lwmq::os::UniqueFd client(accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!client) return;
      watch(client.get());
      said.apply(client.get());
      coming.push_back({std::move(client), lwmq::os::now_ns() + kHandshakeNs, {}, {}, false});
    }
  }
  // LWMQ_E_EMPTY: not yet. LWMQ_OK: it is there. Else it goes.
  Status advance(Coming& client) const {
    if (!client.is_answered) {
      Status status = client.incoming.read(client.socket.get(), &client.hello, sizeof client.hello);
      if (status == LWMQ_OK) status = answer(client);
      if (status != LWMQ_OK) return status;
      client.is_answered = true;
    }
    std::uint32_t met = 0;
    const Status status = client.incoming.read(client.socket.get(), &met, sizeof met);
    if (status != LWMQ_OK) return status;
    return met == kMet ? LWMQ_OK
                       : lwmq::fail(LWMQ_E_CORRUPT, "%s: %#x ends no handshake", address.text.c_str(), met);
  }
  Status answer(Coming& client) const {
    Hello ours = hello_of(options, said);
    const Status status = check_hello(client.hello, address, options, false);
    ours.refusal = status;
    if (status != LWMQ_OK) std::strncpy(ours.why, lwmq::last_error(), sizeof ours.why - 1);
    const Status sent = send_all(client.socket.get(), &ours, sizeof ours);
    return status != LWMQ_OK ? status : sent;
  }
};

namespace {

std::string socket_name(const std::string& name) {
  return "lwmq-far-" + std::to_string(geteuid()) + "-" + name;
}

sockaddr_un socket_address(const std::string& name, socklen_t* out_bytes) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = socket_name(name);
  std::memcpy(address.sun_path + 1, text.data(), text.size());
  *out_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

lwmq::os::UniqueFd new_socket() {
  return lwmq::os::UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

lwmq_status listen(const char* text, const lwmq_tli_options* options, lwmq_tli_listener** out_listener) {
  Address address;
  if (const Status status = parse(text, &address); status != LWMQ_OK) return status;
  if (const Status status = check_options(address, *options); status != LWMQ_OK) return status;
  if (address.name == kAnyName) {
    static std::atomic<unsigned> names{0};
    address.name = "any-" + std::to_string(getpid()) + "-" + std::to_string(names++);
    address.text.replace(kScheme.size(), kAnyName.size(), address.name);
  }
  lwmq::os::UniqueFd socket = new_socket();
  socklen_t bytes = 0;
  const sockaddr_un at = socket_address(address.name, &bytes);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), bytes) != 0)
    return lwmq::fail(LWMQ_E_ADDRESS, "%s is served already", text);
  if (::listen(socket.get(), 128) != 0)
    return lwmq::fail(LWMQ_E_SYSTEM, "%s: %s", text, std::strerror(errno));
  *out_listener =
      new lwmq_tli_listener{std::move(address), *options, Said(*options), std::move(socket), make_door(), {}};
  (*out_listener)->watch((*out_listener)->socket.get());
  return LWMQ_OK;
}

// The first client that is through, or has failed; the others go on.
lwmq_status accept(lwmq_tli_listener* listener, lwmq_tli_transport** out_transport) {
  listener->let_in();
  auto& coming = listener->coming;
  for (auto client = coming.begin(); client != coming.end();) {
    Status status = listener->advance(*client);
    if (status == LWMQ_E_EMPTY && lwmq::os::now_ns() < client->deadline) {
      ++client;
      continue;
    }
    if (status == LWMQ_E_EMPTY || status == LWMQ_E_PEER_LOST) {  // gave up
      client = coming.erase(client);
      continue;
    }
    epoll_ctl(listener->door->get(), EPOLL_CTL_DEL, client->socket.get(), nullptr);
    Transport* made = nullptr;
    if (status == LWMQ_OK) {
      status = Transport::create(parts_of(listener->address, listener->options, client->hello,
                                          std::move(client->socket), listener->door),
                                 &made);
    }
    coming.erase(client);
    *out_transport = reinterpret_cast<lwmq_tli_transport*>(made);
    return status;
  }
  return LWMQ_E_EMPTY;
}

// Whoever has hung up goes; who wants to come in waits for an accept.
void tend(lwmq_tli_listener* listener) {
  listener->let_in();
  std::erase_if(listener->coming, [](const Coming& client) {
    return lwmq::os::now_ns() >= client.deadline || lwmq::os::is_hung_up(client.socket.get());
  });
}

std::int32_t listener_descriptor(lwmq_tli_listener* listener) { return listener->door->get(); }

// To a client that has our answer we are a peer that closes.
void close_listener(lwmq_tli_listener* listener) {
  for (Coming& client : listener->coming) {
    Transport* made = nullptr;
    if (client.is_answered && Transport::create(parts_of(listener->address, listener->options, client.hello,
                                                         std::move(client.socket), nullptr),
                                                &made) == LWMQ_OK)
      made->close(0, 0);
  }
  delete listener;
}

// ---- Connecting -----------------------------------------------------------------------------------------

// In three steps: the socket, which a delay holds up; hello and hello; met.
class Attempt {
 public:
  Attempt(Address address, const lwmq_tli_options& options)
      : address_(std::move(address)),
        options_(options),
        said_(options),
        due_ns_(lwmq::os::now_ns() + address_.delay_ms * lwmq::os::kMillisecond) {}

  // LWMQ_E_TIMED_OUT: not yet. LWMQ_E_EMPTY: nobody listens, or no more.
  Status advance(Transport** out_transport) {
    Status status = LWMQ_OK;
    if (!has_said_hello_) status = reach();
    if (status == LWMQ_OK) status = incoming_.read(socket_.get(), &hello_, sizeof hello_);
    if (status == LWMQ_E_EMPTY) return LWMQ_E_TIMED_OUT;
    if (status == LWMQ_OK) status = check_hello(hello_, address_, options_, true);
    if (status == LWMQ_OK) status = send_all(socket_.get(), &kMet, sizeof kMet);
    if (status == LWMQ_E_PEER_LOST) return LWMQ_E_EMPTY;
    if (status != LWMQ_OK) return status;
    return Transport::create(parts_of(address_, options_, hello_, std::move(socket_), nullptr),
                             out_transport);
  }
  [[nodiscard]] int descriptor() const { return has_said_hello_ ? socket_.get() : -1; }

 private:
  // LWMQ_E_EMPTY: not yet. LWMQ_E_PEER_LOST: nobody listens.
  Status reach() {
    if (lwmq::os::now_ns() < due_ns_) return LWMQ_E_EMPTY;
    if (!socket_) socket_ = new_socket();
    said_.apply(socket_.get());
    socklen_t bytes = 0;
    const sockaddr_un at = socket_address(address_.name, &bytes);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&at), bytes) != 0)
      return errno == EAGAIN ? LWMQ_E_EMPTY : LWMQ_E_PEER_LOST;
    const Hello ours = hello_of(options_, said_);
    has_said_hello_ = true;
    return send_all(socket_.get(), &ours, sizeof ours);
  }

  const Address address_;
  const lwmq_tli_options options_;
  const Said said_;
  const std::int64_t due_ns_;
  lwmq::os::UniqueFd socket_;
  bool has_said_hello_ = false;
  Incoming incoming_;
  Hello hello_{};
};

Attempt* of(lwmq_tli_attempt* attempt) { return reinterpret_cast<Attempt*>(attempt); }

lwmq_status begin(const char* text, const lwmq_tli_options* options, lwmq_tli_attempt** out_attempt) {
  Address address;
  if (const Status status = parse(text, &address); status != LWMQ_OK) return status;
  if (const Status status = check_options(address, *options); status != LWMQ_OK) return status;
  *out_attempt = reinterpret_cast<lwmq_tli_attempt*>(new Attempt(std::move(address), *options));
  return LWMQ_OK;
}

lwmq_status advance(lwmq_tli_attempt* attempt, lwmq_tli_transport** out_transport) {
  Transport* made = nullptr;
  const Status status = of(attempt)->advance(&made);
  *out_transport = reinterpret_cast<lwmq_tli_transport*>(made);
  if (status != LWMQ_E_TIMED_OUT) delete of(attempt);
  return status;
}

void cancel(lwmq_tli_attempt* attempt) { delete of(attempt); }

// ---- The tables -----------------------------------------------------------------------------------------

Transport* of(lwmq_tli_transport* transport) { return reinterpret_cast<Transport*>(transport); }

std::int32_t claim(const char* address) { return std::string_view(address).starts_with(kScheme) ? 1 : 0; }

lwmq_status limits(const char* text, lwmq_limits* out_limits) {
  Address address;
  if (const Status status = parse(text, &address); status != LWMQ_OK) return status;
  out_limits->buffer_bytes_max = kBufferBytesMax;
  out_limits->buffers_max = kBuffersMax;
  out_limits->capabilities = LWMQ_CAN_SEND | LWMQ_CAN_RECEIVE | LWMQ_IS_RELIABLE | LWMQ_IS_ORDERED;
  out_limits->loss_ms = 1000 + address.delay_ms;
  return LWMQ_OK;
}

using T = lwmq_tli_transport*;

const lwmq_tli_listener_table kListener = {
    .listen = listen,
    .accept = accept,
    .tend = tend,
    .descriptor = listener_descriptor,
    .address = [](lwmq_tli_listener* listener) { return listener->address.text.c_str(); },
    .close = close_listener,
};

const lwmq_tli_attempt_table kAttempt = {
    .begin = begin,
    .advance = advance,
    .descriptor = [](lwmq_tli_attempt* attempt) -> std::int32_t { return of(attempt)->descriptor(); },
    .cancel = cancel,
};

const lwmq_tli_transport_table kTransport = {
    .peer = [](T t, lwmq_tli_peer* out_peer) { of(t)->peer(out_peer); },
    .state = [](T t, lwmq_tli_figures* out_figures) { return of(t)->state(out_figures); },
    .acquire = [](T t, lwmq_tli_buffer* out_buffer) { return of(t)->acquire(out_buffer); },
    .show = [](T t, lwmq_tli_buffer* buffer, std::uint64_t bytes,
               std::uint32_t kind) { return of(t)->show(buffer, bytes, kind); },
    .flush = [](T t) { of(t)->flush(); },
    .ship = [](T t, lwmq_tli_buffer* buffer) { return of(t)->ship(buffer); },
    .abandon = [](T t, lwmq_tli_buffer* buffer) { of(t)->abandon(buffer); },
    .land = [](T t, lwmq_tli_extent* out_extent) { return of(t)->land(out_extent); },
    .release = [](T t, lwmq_tli_extent* extent) { of(t)->release(extent); },
    .wait = [](T t, std::uint32_t what, std::uint32_t timeout_ms) { return of(t)->wait(what, timeout_ms); },
    .arm = [](T t, std::uint32_t what) { return of(t)->arm(what); },
    .descriptor = [](T t) { return of(t)->descriptor(); },
    .close = [](T t, std::uint32_t lent, std::uint64_t unsent) { of(t)->close(lent, unsent); },
};

Region* of(lwmq_tli_region* region) { return reinterpret_cast<Region*>(region); }

const lwmq_tli_memory_table kMemory = {
    .create = nullptr,
    .export_to = nullptr,
    .find = nullptr,
    .info = nullptr,
    .owner_alive = nullptr,
    .keep = nullptr,
    .release = nullptr,
    .pin = [](T t, void* base, std::uint64_t bytes, std::uint32_t uses,
              lwmq_tli_region** out_region) { return of(t)->pin(base, bytes, uses, out_region); },
    .unpin = [](lwmq_tli_region* region) { of(region)->transport->unpin(of(region)); },
    .grant = [](T t, lwmq_tli_region* region, std::uint64_t offset, std::uint64_t bytes,
                lwmq_tli_grant* out_grant) { return of(t)->grant(*of(region), offset, bytes, out_grant); },
    .revoke = [](T t, const lwmq_tli_grant* grant) { of(t)->revoke(*grant); },
    .push = [](T t, const lwmq_tli_grant* grant, std::uint64_t offset, const lwmq_bytes* pieces,
               std::uint32_t count,
               std::uint64_t token) { return of(t)->push(*grant, offset, pieces, count, token); },
    .reap = [](T t, std::uint64_t* out_tokens,
               std::uint32_t limit) { return of(t)->reap(out_tokens, limit); },
};

const lwmq_tli_provider kFar = {
    .size = sizeof kFar,
    .version = LWMQ_TLI_VERSION,
    .name = "far",
    .claim = claim,
    .limits = limits,
    .settings = kSettings,
    .listener = &kListener,
    .attempt = &kAttempt,
    .transport = &kTransport,
    .fast = nullptr,
    .memory = &kMemory,
    .service = Transport::serve,
    .service_wake = Transport::wake_service,
};

LWMQ_TLI_REGISTER(kFar);

}  // namespace
