#include "sockets/port.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "os/clock.h"
#include "os/deadline.h"
#include "os/identity.h"
#include "sockets/handshake.h"
#include "sockets/net.h"
#include "sockets/transport.h"

namespace lwmq::sockets {
namespace {

constexpr std::size_t kPendingMax = 8192;  // handshakes of one port; then the oldest makes place
constexpr std::size_t kReadyMax = 64;      // of one listener; others wait in their handshakes
constexpr std::size_t kRefusedMax = 64;
constexpr int kLetInAtOnce = 256;
constexpr int kBacklog = 4096;
constexpr std::int64_t kLookForLateNs = 1'000 * os::kMillisecond;
constexpr int kShortOfDescriptorsMs = 10;
constexpr std::int64_t kHandshakeNs = 10'000 * os::kMillisecond;
constexpr std::uint8_t kTlsHandshake = 22;  // the first byte that a client of TLS says

// The ports of this process. Never destroyed: threads may outlive main.
struct Ports {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Port>> by_place;
};

Ports& ports() noexcept {
  static auto* instance = new Ports;
  return *instance;
}

// Reads and drops what comes. True: the other end has closed.
bool has_gone(Socket& socket) noexcept {
  std::uint8_t bytes[4096];
  ssize_t got = 0;
  while ((got = socket.read_to_drop(bytes, sizeof bytes)) > 0) {
  }
  return got == 0 || (errno != EAGAIN && errno != EINTR);
}

Status not_bound(const Address& address, int error) noexcept {
  const char* text = address.text.c_str();
  if (const Status status = address.family->explain(address, error); status != LWMQ_OK) return status;
  if (error == EADDRINUSE) return fail(LWMQ_E_ADDRESS, "%s: another process serves the port", text);
  if (error == EADDRNOTAVAIL)
    return fail(LWMQ_E_ADDRESS,
                "%s: the host is none of this machine's; serve one of its own addresses, or *", text);
  return fail_call(error == EACCES ? LWMQ_E_DENIED : LWMQ_E_SYSTEM, error, "%s: bind", text);
}

std::string name_in(const Hello& hello) {
  return std::string(hello.name, std::min<std::size_t>(hello.name_bytes, sizeof hello.name));
}

std::string key_of(const Address& address, std::uint32_t port) {
  return address.family->scheme + address.host + ":" + std::to_string(port);
}

}  // namespace

// ---- The port ----------------------------------------------------------------------------------------

Status Port::get(const Address& address, const Own& own, std::shared_ptr<Port>* out_port) {
  auto made = std::make_shared<Port>();
  Status status = made->find_place(address);  // before the lock: a name server may take its time
  const std::lock_guard lock(ports().mutex);
  if (const auto found = ports().by_place.find(key_of(address, address.port));
      found != ports().by_place.end()) {
    if (auto known = found->second.lock(); known != nullptr) {
      *out_port = std::move(known);
      return (*out_port)->check_shared(address, own);
    }
  }
  if (status == LWMQ_OK && address.is_secure) {
    status = os::TlsCredentials::load(own.files, nullptr, &made->credentials_);
    if (status != LWMQ_OK) add_context(address.text.c_str());
  }
  if (status == LWMQ_OK) status = made->bind(address, own);
  if (status == LWMQ_OK) status = Net::instance().watch(made);
  if (status != LWMQ_OK) return status;
  made->files_ = own.files;
  made->key_ = key_of(address, made->number());
  ports().by_place[made->key_] = made;
  *out_port = std::move(made);
  return LWMQ_OK;
}

Port::~Port() {
  if (key_.empty()) return;
  const std::lock_guard lock(ports().mutex);
  const auto found = ports().by_place.find(key_);
  if (found != ports().by_place.end() && found->second.expired()) ports().by_place.erase(found);
}

Status Port::find_place(const Address& address) {
  family_ = address.family;
  std::vector<Place> places;
  if (family_->resolve(address, false, &places) != LWMQ_OK) family_->resolve(address, true, &places);
  if (places.empty()) return fail(LWMQ_E_ADDRESS, "%s: nobody knows the host", address.text.c_str());
  place_ = places.front();
  return LWMQ_OK;
}

Status Port::check_reach(const Address& address, const Own& own) const noexcept {
  if (family_->is_loopback(place_) || own.is_open || address.is_secure) return LWMQ_OK;
  if (family_->has_links()) {
    if (os::TlsKey kept; !own.files.psk.empty() || os::find_kept_key(address.name, &kept)) return LWMQ_OK;
    return fail(LWMQ_E_DENIED,
                "%s: other hosts would reach the port; give psk=FILE, a key that both ends share, serve "
                "localhost, or say auth=none to serve whoever reaches the port",
                address.text.c_str());
  }
  return fail(LWMQ_E_DENIED,
              "%s: %s has neither credentials nor encryption, so it is served at loopback addresses alone; "
              "serve %s, take %s, or say auth=none to serve whoever reaches the port",
              address.text.c_str(), family_->scheme, family_->loopbacks, family_->secure_scheme);
}

// A port speaks either TLS or none: otherwise it would have to guess which clients it may trust.
Status Port::check_shared(const Address& address, const Own& own) const noexcept {
  if (address.is_secure != (credentials_ != nullptr))
    return fail(LWMQ_E_ADDRESS, "%s: this process serves the port as %s already", address.text.c_str(),
                address.is_secure ? family_->scheme : family_->secure_scheme);
  if (own.files != files_)
    return fail(LWMQ_E_ADDRESS, "%s: this process serves the port with other credentials already",
                address.text.c_str());
  return check_reach(address, own);
}

Status Port::bind(const Address& address, const Own& own) {
  if (family_->has_links()) {
    Status status = check_reach(address, own);
    if (status == LWMQ_OK) status = family_->serve(address, own, place_, &door_);
    if (status != LWMQ_OK) return status;
    place_ = door_->place();
    status = poll_.open();
    return status == LWMQ_OK ? poll_.add(door_->fd(), EPOLLIN) : status;
  }
  if (const Status status = make_socket(address, place_, &socket_); status != LWMQ_OK) return status;
  const int yes = 1;
  setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes,
             sizeof yes);  // although connections of the last listener still end
  if (::bind(socket_.get(), place_.get(), place_.bytes) != 0) return not_bound(address, errno);
  // Only now, because an address of another host is refused with a text of its own, and may be waited for.
  if (const Status status = check_reach(address, own); status != LWMQ_OK) return status;
  if (::listen(socket_.get(), kBacklog) != 0) return not_bound(address, errno);
  socklen_t bytes = sizeof place_.address;
  getsockname(socket_.get(), place_.get(), &bytes);
  if (const Status status = poll_.open(); status != LWMQ_OK) return status;
  return poll_.add(socket_.get(), EPOLLIN);
}

Status Port::add(Listener* listener) {
  const std::lock_guard lock(mutex_);
  if (listeners_.emplace(listener->address().name, listener).second) return LWMQ_OK;
  return fail(LWMQ_E_ADDRESS, "%s is served already in this process", listener->address().text.c_str());
}

void Port::remove(Listener* listener) {
  const std::lock_guard lock(mutex_);
  listeners_.erase(listener->address().name);
  if (!listeners_.empty()) return;
  Net::instance().forget(*this);
  pending_.clear();
  socket_.reset();  // the address can be served again at once
  door_.reset();
  const std::lock_guard all(ports().mutex);
  ports().by_place.erase(key_);
}

void Port::drive() {
  {
    const std::lock_guard lock(mutex_);
    int ready[64];
    const int listening = door_ != nullptr ? door_->fd() : socket_.get();
    for (int i = listening >= 0 ? poll_.ready(ready, std::size(ready)) : 0; i-- > 0;) {
      if (ready[i] == listening) let_in();
      const auto found = pending_.find(ready[i]);
      if (found != pending_.end() && take_steps(&found->second)) pending_.erase(found);
    }
    if (os::now_ns() < next_look_ns_) return;
    next_look_ns_ = os::now_ns() + kLookForLateNs;
  }
  advance_all();
}

void Port::advance_all() {
  const std::lock_guard lock(mutex_);
  for (auto it = pending_.begin(); it != pending_.end();)
    it = take_steps(&it->second) ? pending_.erase(it) : std::next(it);
}

void Port::let_in() {
  for (int i = 0; i < kLetInAtOnce; ++i) {
    Pending pending;
    if (!accept(&pending)) return;
    pending.deadline_ns = os::now_ns() + kHandshakeNs;
    const int fd = pending.socket.fd();
    if (poll_.add(fd, EPOLLIN) != LWMQ_OK) continue;
    if (pending_.size() == kPendingMax) {
      pending_.erase(std::min_element(pending_.begin(), pending_.end(), [](const auto& a, const auto& b) {
        return a.second.deadline_ns < b.second.deadline_ns;
      }));
    }
    Pending& added = pending_.insert_or_assign(fd, std::move(pending)).first->second;
    if (door_ != nullptr && take_steps(&added)) pending_.erase(fd);
  }
}

// False: nobody else is there now.
bool Port::accept(Pending* out_pending) {
  if (door_ != nullptr) {
    std::unique_ptr<Link> link;
    Status status = LWMQ_OK;
    while (is_failure(status = door_->accept(&link, &out_pending->peer))) {
      for (const auto& [name, listener] : listeners_) listener->note_refused(status);
    }
    out_pending->socket = Socket(std::move(link));
    return status == LWMQ_OK;
  }
  Place& peer = out_pending->peer;
  peer.bytes = sizeof peer.address;
  out_pending->socket =
      Socket(os::UniqueFd(accept4(socket_.get(), peer.get(), &peer.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC)));
  if (!out_pending->socket) {
    // The client stays in the queue of the socket, and the socket readable.
    if (errno == EMFILE || errno == ENFILE) ::poll(nullptr, 0, kShortOfDescriptorsMs);
    return false;
  }
  family_->prepare(out_pending->socket.fd(), family_->silent_s);
  return true;
}

// As far as it can go. True: the handshake is over, one way or the other.
bool Port::take_steps(Pending* pending) {
  do {
    if (advance(pending)) return true;
  } while (pending->socket.arm());
  return false;
}

bool Port::advance(Pending* pending) {
  const bool is_late = os::now_ns() > pending->deadline_ns;
  if (pending->is_refused) {
    if (pending->socket.link() != nullptr) pending->socket.finish();
    return is_late || has_gone(pending->socket);
  }
  if (credentials_ != nullptr && !pending->is_secure && !pending->is_plain) {
    const Status status = secure(pending);
    if (status == LWMQ_E_FULL) return is_late;
    if (status == LWMQ_E_EMPTY) return true;
    if (status != LWMQ_OK) {
      add_context(family_->text(pending->peer).c_str());
      refuse(pending, status);
      return false;
    }
  }
  const std::uint64_t whole = family_->has_links() ? sizeof pending->opening : sizeof pending->opening.hello;
  while (!pending->is_greeted && pending->heard < whole) {
    auto* bytes = reinterpret_cast<std::uint8_t*>(&pending->opening);
    const ssize_t got = pending->socket.read(bytes + pending->heard, whole - pending->heard);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return is_late;
    if (got <= 0) return true;
    pending->heard += static_cast<std::uint64_t>(got);
    // Only a hello of ours has a known length.
    if (pending->heard < sizeof(std::uint32_t) || pending->opening.hello.magic == kMagic) continue;
    if (bytes[0] != kTlsHandshake || credentials_ != nullptr) return true;
    refuse(pending, fail(LWMQ_E_DENIED, "the client speaks TLS, and port %u is served as %s", number(),
                         family_->scheme));
    return false;
  }
  const auto found = listeners_.find(name_in(pending->opening.hello));
  Listener* const listener = found != listeners_.end() ? found->second : nullptr;
  if (listener != nullptr && listener->is_full()) {  // `accept` makes room, and goes on
    poll_.remove(pending->socket.fd());
    return is_late;
  }
  if (pending->is_greeted) return await_proof(pending, listener) || is_late;
  return answer(pending, listener);
}

// LWMQ_OK: what follows is encrypted, or the client speaks no TLS. LWMQ_E_FULL: not yet.
Status Port::secure(Pending* pending) {
  Socket& socket = pending->socket;
  Status status = LWMQ_OK;
  if (socket.tls() == nullptr) {
    std::uint8_t first = 0;
    const ssize_t got = recv(socket.fd(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return LWMQ_E_FULL;
    if (got <= 0) return LWMQ_E_EMPTY;
    pending->is_plain = first == (kMagic & 0xff);
    if (pending->is_plain) return LWMQ_OK;
    status = socket.encrypt(credentials_, nullptr);
  }
  if (status == LWMQ_OK) status = socket.tls()->shake_hands();
  pending->is_secure = status == LWMQ_OK;
  poll_.change(socket.fd(), socket.has_unsent() ? EPOLLIN | EPOLLOUT : EPOLLIN);
  return status;
}

// The client has not named a listener yet, so every listener hears of the refusal.
void Port::refuse(Pending* pending, Status why) {
  if (pending->socket.tls() == nullptr) {
    const Greeting greeting = refusal_of(why);
    pending->socket.write(&greeting, sizeof greeting);
  }
  for (const auto& [name, listener] : listeners_) listener->note_refused(why);
  shutdown(pending->socket.fd(), SHUT_WR);
  pending->is_refused = true;
}

// Whether a client whose opening has come whole is served. `asked_for` is null where no listener has the
// name.
Status Port::check(Pending* pending, Listener* asked_for) {
  const std::string name = name_in(pending->opening.hello);
  if (pending->is_plain)
    return fail(LWMQ_E_DENIED, "the client speaks no TLS, and port %u is served as %s", number(),
                family_->secure_scheme);
  if (os::Tls* tls = pending->socket.tls(); tls != nullptr && !tls->is_good_for(name))
    return fail(LWMQ_E_DENIED, "the client's key is for '%s', and it asks for '%s'",
                tls->key_is_for().c_str(), name.c_str());
  // The client may try again: the listener of that name may open later.
  if (asked_for == nullptr) return fail(LWMQ_E_EMPTY, "port %u serves no '%s'", number(), name.c_str());
  Greeting greeting{};
  greeting.hello = pending->opening.hello;
  Status status = check_greeting(greeting, asked_for->address(), asked_for->options(), false);
  Prover& prover = pending->prover;
  Reply& answer = pending->answer;
  answer.greeting.hello = hello_of(asked_for->address(), asked_for->options());
  if (status != LWMQ_OK || !family_->has_links()) return status;
  status = prover.find_key(asked_for->address(), asked_for->own(), pending->opening);
  if (status == LWMQ_OK) status = prover.challenge(&answer.challenge);
  if (status == LWMQ_OK) status = prover.prove(pending->opening, answer, true, &answer.proof);
  return status;
}

// True: the handshake is over.
bool Port::answer(Pending* pending, Listener* asked_for) {
  const Status status = check(pending, asked_for);
  if (status != LWMQ_OK) {
    if (asked_for != nullptr) asked_for->note_refused(status);
    const Greeting refusal = refusal_of(status);
    pending->socket.write(&refusal, sizeof refusal);
    // A socket that closes delivers what it holds; a link is closed when the client has read it.
    pending->is_refused = pending->socket.link() != nullptr;
    if (pending->is_refused) pending->socket.finish();
    return !pending->is_refused;
  }
  if (pending->socket.link() == nullptr) {
    open(pending, asked_for);
    return true;
  }
  pending->socket.write(&pending->answer, sizeof pending->answer);  // a new link takes that much at once
  pending->heard = 0;
  pending->is_greeted = true;
  return await_proof(pending, asked_for);
}

// True: the handshake is over.
bool Port::await_proof(Pending* pending, Listener* asked_for) {
  while (pending->heard < sizeof pending->proof) {
    auto* bytes = reinterpret_cast<std::uint8_t*>(&pending->proof);
    const ssize_t got = pending->socket.read(bytes + pending->heard, sizeof pending->proof - pending->heard);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) {
      fail(LWMQ_E_DENIED, "the client at %s has gone without a proof that it has the key",
           family_->text(pending->peer).c_str());
      if (asked_for != nullptr) asked_for->note_refused(LWMQ_E_DENIED);
      return true;
    }
    pending->heard += static_cast<std::uint64_t>(got);
  }
  if (asked_for == nullptr) return true;  // it has closed meanwhile
  const Status status = pending->prover.check(pending->opening, pending->answer, false, pending->proof);
  if (status == LWMQ_OK) {
    open(pending, asked_for);
  } else {
    asked_for->note_refused(status);
  }
  return true;
}

// The client becomes a transport of the listener.
void Port::open(Pending* pending, Listener* asked_for) {
  Listener& listener = *asked_for;
  poll_.remove(pending->socket.fd());
  const bool is_greeted = pending->is_greeted;
  pending->socket.wish(listener.own().wishes);
  Transport* transport = nullptr;
  const Status status = Transport::serve(&pending->socket, listener.address(), listener.options(),
                                         pending->opening.hello, pending->peer, listener.poll(), &transport);
  if (status != LWMQ_OK) {
    listener.note_refused(status);
    const Greeting refusal = refusal_of(status);
    if (!is_greeted) pending->socket.write(&refusal, sizeof refusal);
    return;
  }
  // A new connection takes that much at once. The transport has no user yet, so that nothing goes before it.
  if (is_greeted || transport->greet(pending->answer.greeting)) {
    listener.put(transport);
  } else {
    transport->close(0, 0);
  }
}

// ---- A listener --------------------------------------------------------------------------------------

Status Listener::open(const Family& family, const char* address, const lwmq_tli_options* options,
                      Listener** out_listener) {
  if (os::forked()) return fail(LWMQ_E_CLOSED, "%s: forked: the sockets are the parent's", address);
  Address parsed;
  if (const Status status = parse(family, address, &parsed); status != LWMQ_OK) return status;
  Own own;
  if (const Status status = check_options(parsed, options, &own); status != LWMQ_OK) return status;
  std::unique_ptr<Listener> made(new Listener(std::move(parsed), *options));
  made->own_ = own;
  Status status = Port::get(made->address_, own, &made->port_);
  if (status == LWMQ_OK) status = made->poll_->open();
  if (status == LWMQ_OK) status = made->port_->add(made.get());
  if (status != LWMQ_OK) return status;
  const Address& ours = made->address_;
  made->bound_ = (ours.is_secure ? family.secure_scheme : family.scheme) + family.host_for_clients(ours) +
                 ":" + std::to_string(made->port_->number()) + (ours.name.empty() ? "" : "/" + ours.name);
  *out_listener = made.release();
  return LWMQ_OK;
}

Status Listener::accept(Transport** out_transport) {
  if (os::forked())
    return fail(LWMQ_E_CLOSED, "%s: forked: the listener is the parent's", address_.text.c_str());
  poll_->drain();
  std::unique_lock lock(mutex_);
  if (ready_.empty() && refused_.empty()) return LWMQ_E_EMPTY;
  if (ready_.size() + refused_.size() > 1) poll_->ring();
  if (!ready_.empty()) {
    *out_transport = ready_.front();
    ready_.pop_front();
    const bool has_room = ready_.size() == kReadyMax / 2;
    lock.unlock();
    if (has_room) port_->advance_all();
    return LWMQ_OK;
  }
  const auto [status, text] = std::move(refused_.front());
  refused_.pop_front();
  return fail(status, "%s: %s", address_.text.c_str(), text.c_str());
}

bool Listener::is_full() {
  const std::lock_guard lock(mutex_);
  return ready_.size() >= kReadyMax;
}

void Listener::put(Transport* transport) {
  const std::lock_guard lock(mutex_);
  ready_.push_back(transport);
  poll_->ring();
}

void Listener::note_refused(Status why) {
  const std::lock_guard lock(mutex_);
  if (refused_.size() == kRefusedMax) refused_.pop_front();
  refused_.emplace_back(why, "a client was refused: " + std::string(last_error()));
  poll_->ring();
}

void Listener::close() {
  if (os::forked()) return;
  port_->remove(this);
  std::deque<Transport*> ready;
  {
    const std::lock_guard lock(mutex_);
    ready.swap(ready_);
  }
  for (Transport* transport : ready) transport->close(0, 0);
  delete this;
}

}  // namespace lwmq::sockets
