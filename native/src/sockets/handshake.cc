#include "sockets/handshake.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "os/event_fd.h"
#include "os/identity.h"
#include "os/thread.h"
#include "tli/purpose.h"

namespace lwmq::sockets {
namespace {

void copy_boot(std::uint8_t (&out)[16]) noexcept {
  // The digits of the boot id: 128 bits in hexadecimal, with dashes.
  std::memset(out, 0, sizeof out);
  std::size_t digit = 0;
  for (const char* at = os::identity().boot_id; *at != '\0' && digit < 32; ++at) {
    const char c = *at;
    const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (value < 0) continue;
    out[digit / 2] = static_cast<std::uint8_t>(out[digit / 2] << 4 | value);
    ++digit;
  }
}

Status check_ready(const char* text, std::uint32_t sends, std::uint32_t ready) noexcept {
  if (ready == 0 || sends <= ready) return LWMQ_OK;
  return fail(
      LWMQ_E_INVALID,
      "%s: one side sends with %u buffers, the other is ready for %u; give both the same `buffers`, or "
      "the other one `buffers_send` alone",
      text, sends, ready);
}

Status check_hello(const Hello& hello, const Address& address, const lwmq_tli_options& options,
                   bool from_listener) noexcept {
  const char* text = address.text.c_str();
  if (static_cast<Kind>(hello.kind) != Kind::kHello || hello.name_bytes > sizeof hello.name)
    return fail(LWMQ_E_CORRUPT, "%s: a hello of kind %u with a name of %u bytes", text, hello.kind,
                hello.name_bytes);
  if (hello.buffers == 0 || hello.buffers > kBuffersMax || hello.buffer_bytes < kBufferBytesMin ||
      hello.buffer_bytes > kBufferBytesMax)
    return fail(LWMQ_E_CORRUPT, "%s: the peer has %u buffers of %" PRIu64 " bytes", text, hello.buffers,
                hello.buffer_bytes);
  const Status status = from_listener ? tli::check_purposes(text, options.purpose, hello.purpose)
                                      : tli::check_purposes(text, hello.purpose, options.purpose);
  if (status != LWMQ_OK) return status;
  if (hello.buffers + options.buffers_send > kBuffersMax)
    return fail(LWMQ_E_INVALID,
                "%s: %u buffers of one side and %u of the other are %u; a transport has at most %u", text,
                options.buffers_send, hello.buffers, hello.buffers + options.buffers_send, kBuffersMax);
  if (const Status ready = check_ready(text, hello.buffers, options.buffers_receive); ready != LWMQ_OK)
    return ready;
  return check_ready(text, options.buffers_send, hello.buffers_receive);
}

}  // namespace

// ---- What is said ------------------------------------------------------------------------------------

Hello hello_of(const Address& address, const lwmq_tli_options& options) noexcept {
  Hello hello{};
  hello.magic = kMagic;
  hello.version = kProtocolVersion;
  hello.kind = static_cast<std::uint32_t>(Kind::kHello);
  hello.purpose = options.purpose;
  hello.buffer_bytes = options.buffer_bytes;
  hello.buffers = options.buffers_send;
  hello.buffers_receive = options.buffers_receive;
  std::memcpy(hello.instance, os::identity().instance, sizeof hello.instance);
  copy_boot(hello.boot);
  hello.pid = os::identity().pid;
  hello.uid = geteuid();
  hello.channel = options.channel;
  hello.name_bytes = static_cast<std::uint32_t>(address.name.size());
  std::memcpy(hello.name, address.name.data(), std::min(address.name.size(), sizeof hello.name));
  return hello;
}

Status check_greeting(const Greeting& greeting, const Address& address, const lwmq_tli_options& options,
                      bool from_listener) noexcept {
  const char* text = address.text.c_str();
  const Hello& hello = greeting.hello;
  if (hello.magic != kMagic)
    return fail(LWMQ_E_CORRUPT, "%s: what is connected there is not lwmq: it begins with %#x", text,
                hello.magic);
  if (hello.version != kProtocolVersion)
    return fail(LWMQ_E_VERSION, "%s: the %s speaks version %u of the protocol, the %s %u", text,
                from_listener ? "listener" : "client", hello.version, from_listener ? "client" : "listener",
                kProtocolVersion);
  if (!from_listener || static_cast<Kind>(hello.kind) != Kind::kRefusal)
    return check_hello(hello, address, options, from_listener);
  if (greeting.refusal.status == LWMQ_E_EMPTY) return LWMQ_E_EMPTY;  // as where nobody listens
  char why[sizeof greeting.refusal.text + 1] = "";
  std::memcpy(why, greeting.refusal.text, sizeof greeting.refusal.text);
  return fail(told_failure(greeting.refusal.status), "%s: the listener refused: %s", text, why);
}

Greeting refusal_of(Status why) noexcept {
  Greeting greeting{};
  greeting.refusal.magic = kMagic;
  greeting.refusal.version = kProtocolVersion;
  greeting.refusal.kind = static_cast<std::uint32_t>(Kind::kRefusal);
  greeting.refusal.status = why;
  std::snprintf(greeting.refusal.text, sizeof greeting.refusal.text, "%s", last_error());
  return greeting;
}

void describe_peer(const Hello& hello, const std::string& place, lwmq_tli_peer* out_peer) noexcept {
  lwmq_tli_peer& peer = *out_peer;
  peer = {};
  std::memcpy(peer.instance, hello.instance, sizeof peer.instance);
  peer.buffer_bytes = hello.buffer_bytes;
  peer.buffers = hello.buffers;
  peer.channel = hello.channel;
  std::uint8_t boot[16];
  copy_boot(boot);
  const bool is_here = std::memcmp(boot, hello.boot, sizeof boot) == 0;
  if (is_here) {
    peer.pid = hello.pid;
    peer.uid = hello.uid;
  }
  std::snprintf(peer.name, sizeof peer.name, "%s %u at %s", is_here ? "process" : "a remote process",
                hello.pid, place.c_str());
}

// ---- Sockets -----------------------------------------------------------------------------------------

Status make_socket(const Address& address, const Place& place, os::UniqueFd* out_socket) noexcept {
  *out_socket =
      os::UniqueFd(::socket(place.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!*out_socket) {
    const int error = errno;
    if (const Status status = address.family->explain(address, error); status != LWMQ_OK) return status;
    return fail_call(LWMQ_E_SYSTEM, error, "socket");
  }
  address.family->prepare(out_socket->get(), address.family->silent_s);
  return LWMQ_OK;
}

// ---- Names -------------------------------------------------------------------------------------------

struct LookUp {
  Address address;
  os::UniqueFd done;
  std::atomic<bool> is_done{false};
  // Once is_done.
  Status status = LWMQ_OK;
  std::vector<Place> places;
};

namespace {

Status begin_look_up(const Address& address, std::shared_ptr<LookUp>* out_look_up) {
  auto made = std::make_shared<LookUp>();
  made->address = address;
  if (const Status status = os::create_event_fd(&made->done); status != LWMQ_OK) return status;
  auto* kept = new std::shared_ptr<LookUp>(made);
  pthread_t thread{};
  const Status status = os::start_thread(
      "lwmq-names",
      [](void* context) {
        const std::unique_ptr<std::shared_ptr<LookUp>> asked(static_cast<std::shared_ptr<LookUp>*>(context));
        LookUp& look_up = **asked;
        look_up.status = look_up.address.family->resolve(look_up.address, true, &look_up.places);
        look_up.is_done.store(true, std::memory_order_release);
        os::ring_event_fd(look_up.done.get());
      },
      kept, &thread);
  if (status != LWMQ_OK) {
    delete kept;
    return status;
  }
  pthread_detach(thread);
  *out_look_up = std::move(made);
  return LWMQ_OK;
}

}  // namespace

int Meeting::looked_up() const noexcept { return look_up != nullptr ? look_up->done.get() : -1; }

// ---- The calling end ---------------------------------------------------------------------------------

Status Meeting::begin(const Family& family, const char* text, const lwmq_tli_options& asked) {
  if (const Status status = parse(family, text, &address); status != LWMQ_OK) return status;
  if (address.host == "*" || address.port == 0)
    return fail(LWMQ_E_ADDRESS,
                "%s: '*' and port 0 are for the end that serves; connect to a host and its port", text);
  if (const Status status = check_options(address, &asked, &own); status != LWMQ_OK) return status;
  options = asked;
  opening.hello = hello_of(address, asked);
  if (family.has_links()) {
    Status status = prover.take_own_key(address, own);
    if (status == LWMQ_OK) status = prover.challenge(&opening.challenge);
    if (status != LWMQ_OK) return status;
  }
  if (address.is_secure) {
    if (const Status status = os::TlsCredentials::load(own.files, address.name.c_str(), &credentials);
        status != LWMQ_OK) {
      add_context(address.text.c_str());
      return status;
    }
  }
  if (family.resolve(address, false, &places) != LWMQ_OK) return begin_look_up(address, &look_up);
  const Status status = reach_next();
  return status == LWMQ_E_FULL ? LWMQ_OK : status;
}

// LWMQ_E_EMPTY: nobody knows the host. LWMQ_E_TIMED_OUT: no name server has answered. Nobody serves the
// address in that case, because that would look the name up, too, on a thread that others wait for.
Status Meeting::take_names() {
  if (!look_up->is_done.load(std::memory_order_acquire)) return LWMQ_E_FULL;
  const Status status = look_up->status;
  if (status == LWMQ_E_EMPTY)
    fail(status, "%s: nobody knows the host '%s'", address.text.c_str(), address.host.c_str());
  places = look_up->places;
  look_up.reset();
  return status;
}

// Begins to connect to the next place. LWMQ_E_FULL: under way, or done. LWMQ_E_EMPTY: nobody listens at any.
// `error`: why the place before could not be reached.
Status Meeting::reach_next(int error) {
  while (next_place < places.size()) {
    const Place& place = places[next_place++];
    if (address.family->has_links()) {
      std::unique_ptr<Link> link;
      const Status status = address.family->dial(address, own, place, &link);
      if (status == LWMQ_E_EMPTY) continue;
      if (status != LWMQ_OK) return status;
      socket = Socket(std::move(link));
      is_connected = false;
      return LWMQ_E_FULL;
    }
    os::UniqueFd made;
    if (const Status status = make_socket(address, place, &made); status != LWMQ_OK) return status;
    socket = Socket(std::move(made));
    is_connected = address.family->connect(socket.fd(), place) == 0;
    if (is_connected || errno == EINPROGRESS) return LWMQ_E_FULL;
    error = errno;
    socket.reset();
  }
  const Status status = address.family->explain(address, error);
  return status == LWMQ_OK ? LWMQ_E_EMPTY : status;
}

// LWMQ_OK: connected. LWMQ_E_FULL: not yet.
Status Meeting::finish_connecting() {
  if (Link* link = socket.link(); link != nullptr) {
    const Status status = link->connect();
    if (status == LWMQ_E_EMPTY) return reach_next();
    is_connected = status == LWMQ_OK;
    return status;
  }
  pollfd progress{socket.fd(), POLLOUT, 0};
  if (poll(&progress, 1, 0) <= 0) return LWMQ_E_FULL;
  int error = 0;
  socklen_t bytes = sizeof error;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  if (error != 0) return reach_next(error);
  is_connected = true;
  return LWMQ_OK;
}

Status Meeting::proceed(Greeting* out_greeting) {
  Status status = take_steps(out_greeting);
  while (status == LWMQ_E_FULL && socket.arm()) status = take_steps(out_greeting);
  if (status != LWMQ_E_FULL) return status;
  const char* text = address.text.c_str();
  if (look_up != nullptr) return fail(status, "%s: no name server has answered", text);
  const std::string at = place();
  if (!is_connected) {
    return fail(status,
                "%s: nothing at %s has answered: the host is down, or a firewall drops what it is sent", text,
                at.c_str());
  }
  return fail(status, "%s: a process listens at %s and has not answered: it is stopped, or is not lwmq", text,
              at.c_str());
}

Status Meeting::take_steps(Greeting* out_greeting) {
  Status status = LWMQ_OK;
  if (look_up != nullptr) {
    status = take_names();
    if (status == LWMQ_OK) status = reach_next();
    if (status != LWMQ_OK && status != LWMQ_E_FULL) return status;
    if (!socket) return LWMQ_E_FULL;
  }
  if (!is_connected) {
    status = finish_connecting();
    if (status != LWMQ_OK) return status;
  }
  if (credentials != nullptr && !is_secure) {
    status = secure();
    if (status != LWMQ_OK) return status;
  }
  status = exchange();
  if (status != LWMQ_OK) return status;
  status = check_greeting(answer.greeting, address, options, true);
  if (status == LWMQ_OK && address.family->has_links()) status = exchange_proofs();
  *out_greeting = answer.greeting;
  return status;
}

// LWMQ_OK: what follows is encrypted. LWMQ_E_FULL: not yet.
Status Meeting::secure() {
  Status status = LWMQ_OK;
  if (socket.tls() == nullptr) status = socket.encrypt(credentials, address.host.c_str());
  if (status == LWMQ_OK) status = socket.tls()->shake_hands();
  is_secure = status == LWMQ_OK;
  if (!is_failure(status)) return status;
  if (socket.tls() != nullptr && socket.tls()->first_word() == kMagic)
    return fail(LWMQ_E_DENIED, "%s: the listener speaks no TLS: it serves %s", address.text.c_str(),
                address.family->scheme);
  add_context(address.text.c_str());
  return status;
}

// LWMQ_OK: our opening is out, and the greeting is there. LWMQ_E_FULL: not yet.
Status Meeting::exchange() {
  if (is_proven) return LWMQ_OK;
  const bool has_links = address.family->has_links();
  const Status status = say(&opening, has_links ? sizeof opening : sizeof opening.hello);
  return status == LWMQ_OK ? hear(sizeof answer.greeting) : status;
}

// The same of what follows a greeting over a link.
Status Meeting::exchange_proofs() {
  Status status = hear(sizeof answer);
  if (status != LWMQ_OK) return status;
  if (!is_proven) {
    is_proven = true;
    said = 0;
    status = prover.check(opening, answer, true, answer.proof);
    if (status == LWMQ_OK) status = prover.prove(opening, answer, false, &proof);
    if (status != LWMQ_OK) {
      add_context(address.text.c_str());
      return status;
    }
  }
  return say(&proof, sizeof proof);
}

// Goes on until `bytes` of the words are out.
Status Meeting::say(const void* words, std::uint64_t bytes) {
  while (said < bytes) {
    const ssize_t sent = socket.write(static_cast<const std::uint8_t*>(words) + said, bytes - said);
    if (sent < 0) return errno == EAGAIN || errno == EINTR ? LWMQ_E_FULL : LWMQ_E_EMPTY;
    said += static_cast<std::uint64_t>(sent);
  }
  return LWMQ_OK;
}

// Goes on until `bytes` of the answer are there.
Status Meeting::hear(std::uint64_t bytes) {
  while (heard < bytes) {
    const ssize_t got = socket.read(reinterpret_cast<std::uint8_t*>(&answer) + heard, bytes - heard);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return LWMQ_E_FULL;
    if (got <= 0) {  // it has gone
      const Status refused = socket.tls() != nullptr ? socket.tls()->refusal() : LWMQ_OK;
      if (refused == LWMQ_OK) return LWMQ_E_EMPTY;
      add_context(address.text.c_str());
      return refused;
    }
    heard += static_cast<std::uint64_t>(got);
  }
  return LWMQ_OK;
}

}  // namespace lwmq::sockets
