// stub://group - a one-to-many datagram provider for the conformance suite, in one process and nothing but
// correct.
//
// It stands for what is unlike shared memory: a small largest unit, no windows, and a sender whose buffers
// reach every member of a group. Who listens is the hub; who connects joins. What the hub shows goes to all
// members, what a member shows to the hub. It drops nothing and keeps the order; every call takes one lock.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "os/identity.h"

namespace {

constexpr char kScheme[] = "stub://";
constexpr std::uint64_t kUnitBytes = 1408;
constexpr std::uint32_t kBuffersMax = 1024;

struct Transport;

// One shown extent on its way to one receiver; a copy, as a network makes it.
struct Datagram {
  std::shared_ptr<Transport> sender;
  std::uint32_t buffer = 0;
  std::uint32_t kind = 0;
  std::unique_ptr<std::uint64_t[]> bytes;  // aligned as extents are
  std::uint64_t length = 0;
};

struct Buffer {
  std::unique_ptr<std::uint8_t[]> memory;
  bool lent = false;     // in the sender's hands
  bool shipped = false;  // waits for its extents to be released
  std::uint64_t unread = 0;

  std::uint8_t* start() const {
    const auto address = reinterpret_cast<std::uintptr_t>(memory.get());
    return memory.get() + ((64 - address % 64) % 64);
  }
};

struct World {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, lwmq_tli_listener*> listeners;
};

World& world() {
  static auto* instance = new World;
  return *instance;
}

struct Transport {
  lwmq_tli_options options{};
  std::vector<Buffer> buffers;
  std::deque<std::unique_ptr<Datagram>> inbox;
  std::vector<std::shared_ptr<Transport>> peers;  // the members of a hub, or the hub of a member
  bool closed = false;                            // by its owner
  std::uint64_t unsent = 0;                       // what its close said
  bool had_peer = false;
  std::shared_ptr<int> event;  // of the listener that accepted it; its own once it was asked for
  bool has_own_event = false;
  bool armed = false;
  bool wants_room = false;  // its last acquire has found none

  bool peer_closed() const {
    return had_peer && std::all_of(peers.begin(), peers.end(), [](const auto& peer) { return peer->closed; });
  }
  std::uint64_t unread() const {
    std::uint64_t extents = 0;
    for (const Buffer& buffer : buffers) extents += buffer.unread;
    return extents;
  }
  std::uint32_t free_buffers() const {
    return static_cast<std::uint32_t>(std::count_if(buffers.begin(), buffers.end(), [](const Buffer& buffer) {
      return !buffer.lent && !(buffer.shipped && buffer.unread > 0);
    }));
  }
  void news() {
    world().changed.notify_all();
    const std::uint64_t one = 1;
    if (armed && event) [[maybe_unused]]
      const auto written = ::write(*event, &one, sizeof one);
  }
};

// A circle of references would keep both ends for ever.
void break_circle(Transport& transport) {
  for (const auto& to : transport.peers) to->peers.clear(), to->inbox.clear();
  transport.peers.clear();
}

std::shared_ptr<Transport> make_transport(const lwmq_tli_options& options) {
  auto transport = std::make_shared<Transport>();
  transport->options = options;
  transport->buffers.resize(options.buffers_send);
  for (Buffer& buffer : transport->buffers)
    buffer.memory.reset(new std::uint8_t[options.buffer_bytes + 128]());
  return transport;
}

}  // namespace

struct lwmq_tli_listener {
  std::string address;
  lwmq_tli_options options{};
  std::shared_ptr<int> event;
  std::shared_ptr<Transport> hub;  // made by the first member; the next one after it was closed makes another
  bool accepted = true;
};

struct lwmq_tli_transport {
  std::shared_ptr<Transport> self;
  std::uint32_t kept = 0;  // of its buffers, behind the close
};

struct lwmq_tli_window {};

namespace {

std::int32_t claim(const char* address) { return std::strncmp(address, kScheme, sizeof kScheme - 1) == 0; }

lwmq_status check(const char* address) {
  if (std::strlen(address) > sizeof kScheme - 1) return LWMQ_OK;
  return lwmq::fail(LWMQ_E_ADDRESS, "%s: the name of a group stands behind stub://", address);
}

lwmq_status limits(const char* address, lwmq_limits* out_limits) {
  const lwmq_status status = check(address);
  if (status != LWMQ_OK) return status;
  out_limits->buffer_bytes_max = kUnitBytes;
  out_limits->buffers_max = kBuffersMax;
  out_limits->capabilities =
      LWMQ_CAN_SEND | LWMQ_CAN_RECEIVE | LWMQ_CAN_MULTICAST | LWMQ_IS_RELIABLE | LWMQ_IS_ORDERED;
  return LWMQ_OK;
}

lwmq_status check_options(const char* address, const lwmq_tli_options* options) {
  const lwmq_status status = check(address);
  if (status != LWMQ_OK) return status;
  if (options->buffer_bytes > kUnitBytes || options->buffers_send == 0 ||
      options->buffers_send > kBuffersMax) {
    return lwmq::fail(LWMQ_E_INVALID, "%s: %u buffers of %llu bytes; up to %u of %llu are possible", address,
                      options->buffers_send, static_cast<unsigned long long>(options->buffer_bytes),
                      kBuffersMax, static_cast<unsigned long long>(kUnitBytes));
  }
  return LWMQ_OK;
}

std::shared_ptr<int> make_event() {
  return {new int(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), [](const int* fd) {
            ::close(*fd);
            delete fd;
          }};
}

lwmq_status listen(const char* address, const lwmq_tli_options* options, lwmq_tli_listener** out_listener) {
  const lwmq_status status = check_options(address, options);
  if (status != LWMQ_OK) return status;
  const std::lock_guard lock(world().mutex);
  auto& slot = world().listeners[address];
  if (slot != nullptr) return lwmq::fail(LWMQ_E_ADDRESS, "%s is served already", address);
  slot = new lwmq_tli_listener{address, *options, nullptr, nullptr, true};
  slot->event = make_event();
  *out_listener = slot;
  return LWMQ_OK;
}

void drain(const std::shared_ptr<int>& event) {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(*event, &count, sizeof count);
}

lwmq_status accept(lwmq_tli_listener* listener, lwmq_tli_transport** out_transport) {
  const std::lock_guard lock(world().mutex);
  drain(listener->event);
  if (listener->accepted) return LWMQ_E_EMPTY;
  listener->accepted = true;
  *out_transport = new lwmq_tli_transport{listener->hub};
  return LWMQ_OK;
}

std::int32_t listener_descriptor(lwmq_tli_listener* listener) { return *listener->event; }

void close_listener(lwmq_tli_listener* listener) {
  const std::lock_guard lock(world().mutex);
  world().listeners.erase(listener->address);
  if (!listener->accepted) {  // nobody will ever hear its members
    listener->hub->closed = true;
    if (listener->hub->peer_closed()) break_circle(*listener->hub);
  }
  world().changed.notify_all();
  delete listener;
}

// To connect takes two steps, a millisecond apart.
struct Attempt {
  std::string address;
  lwmq_tli_options options;
  int timer;
};

lwmq_status begin(const char* address, const lwmq_tli_options* options, lwmq_tli_attempt** out_attempt) {
  const lwmq_status status = check_options(address, options);
  if (status != LWMQ_OK) return status;
  {
    const std::lock_guard lock(world().mutex);
    if (!world().listeners.contains(address)) return LWMQ_E_EMPTY;
  }
  constexpr itimerspec kLater{{0, 0}, {0, 1'000'000}};
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  timerfd_settime(timer, 0, &kLater, nullptr);
  *out_attempt = reinterpret_cast<lwmq_tli_attempt*>(new Attempt{address, *options, timer});
  return LWMQ_OK;
}

Attempt* of(lwmq_tli_attempt* attempt) { return reinterpret_cast<Attempt*>(attempt); }

void cancel(lwmq_tli_attempt* attempt) {
  ::close(of(attempt)->timer);
  delete of(attempt);
}

lwmq_status join(const char* address, const lwmq_tli_options* options, lwmq_tli_transport** out_transport) {
  const std::lock_guard lock(world().mutex);
  const auto found = world().listeners.find(address);
  if (found == world().listeners.end()) return LWMQ_E_EMPTY;
  lwmq_tli_listener* listener = found->second;
  if (listener->options.purpose != options->purpose) {
    return lwmq::fail(LWMQ_E_VERSION, "%s: the group is for another purpose", address);
  }
  if (!listener->hub || listener->hub->closed || listener->hub->peer_closed()) {
    if (!listener->accepted) break_circle(*listener->hub);  // its members came and went
    listener->hub = make_transport(listener->options);
    listener->hub->event = listener->event;
    listener->accepted = false;
  }
  auto member = make_transport(*options);
  member->peers.push_back(listener->hub);
  member->had_peer = true;
  listener->hub->peers.push_back(member);
  listener->hub->had_peer = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(*listener->event, &one, sizeof one);
  *out_transport = new lwmq_tli_transport{member};
  return LWMQ_OK;
}

lwmq_status advance(lwmq_tli_attempt* attempt, lwmq_tli_transport** out_transport) {
  std::uint64_t count = 0;
  if (::read(of(attempt)->timer, &count, sizeof count) < 0) return LWMQ_E_TIMED_OUT;
  const lwmq_status status = join(of(attempt)->address.c_str(), &of(attempt)->options, out_transport);
  cancel(attempt);
  return status;
}

void peer(lwmq_tli_transport* transport, lwmq_tli_peer* out_peer) {
  const std::lock_guard lock(world().mutex);
  const lwmq_identity& self = lwmq::os::identity();
  std::memcpy(out_peer->instance, self.instance, sizeof self.instance);
  out_peer->pid = self.pid;
  std::snprintf(out_peer->name, sizeof out_peer->name, "a group of process %u", self.pid);
  out_peer->uid = self.uid;
  out_peer->buffer_bytes = transport->self->peers.front()->options.buffer_bytes;
  out_peer->buffers = transport->self->peers.front()->options.buffers_send;
}

std::int32_t state(lwmq_tli_transport* transport, lwmq_tli_figures* out_figures) {
  const std::lock_guard lock(world().mutex);
  if (out_figures != nullptr) {
    *out_figures = {};
    out_figures->free_buffers = transport->self->free_buffers();
    out_figures->unread_extents = transport->self->unread();
    for (const auto& from : transport->self->peers) out_figures->unsent += from->unsent;
  }
  return transport->self->peer_closed() ? LWMQ_TLI_CLOSED : LWMQ_TLI_CONNECTED;
}

lwmq_status closed() { return lwmq::fail(LWMQ_E_CLOSED, "every peer of this transport has closed"); }

void place(lwmq_tli_buffer* buffer, const Buffer& memory, std::uint64_t at, std::uint64_t limit) {
  buffer->token[1] = at;
  buffer->next = memory.start() + at;
  buffer->room = at < limit ? limit - at : 0;
}

lwmq_status acquire(lwmq_tli_transport* transport, lwmq_tli_buffer* out_buffer) {
  const std::lock_guard lock(world().mutex);
  Transport& self = *transport->self;
  if (self.peer_closed()) return closed();
  self.wants_room = self.free_buffers() == 0;
  for (std::uint32_t i = 0; i < self.buffers.size(); ++i) {
    Buffer& buffer = self.buffers[i];
    if (buffer.lent || (buffer.shipped && buffer.unread > 0)) continue;
    buffer.lent = true;
    buffer.shipped = false;
    out_buffer->token[0] = i;
    place(out_buffer, buffer, 0, self.options.buffer_bytes);
    return LWMQ_OK;
  }
  return LWMQ_E_FULL;
}

lwmq_status show(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer, std::uint64_t bytes,
                 std::uint32_t kind) {
  const std::lock_guard lock(world().mutex);
  Transport& self = *transport->self;
  if (bytes > buffer->room || kind > LWMQ_TLI_KIND_MAX) {
    return lwmq::fail(LWMQ_E_TOO_BIG, "extent of %llu bytes", static_cast<unsigned long long>(bytes));
  }
  if (self.peer_closed()) return closed();
  const auto index = static_cast<std::uint32_t>(buffer->token[0]);
  for (const auto& to : self.peers) {
    if (to->closed) continue;
    auto datagram = std::make_unique<Datagram>();
    datagram->sender = transport->self;
    datagram->buffer = index;
    datagram->kind = kind;
    datagram->length = bytes;
    datagram->bytes.reset(new std::uint64_t[bytes / 8 + 1]);
    std::memcpy(datagram->bytes.get(), buffer->next, bytes);
    to->inbox.push_back(std::move(datagram));
    ++self.buffers[index].unread;
    to->news();
  }
  place(buffer, self.buffers[index], (buffer->token[1] + bytes + 7) / 8 * 8, self.options.buffer_bytes);
  return LWMQ_OK;
}

lwmq_status ship(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer) {
  const std::lock_guard lock(world().mutex);
  Buffer& memory = transport->self->buffers[buffer->token[0]];
  memory.lent = false;
  memory.shipped = true;
  buffer->room = 0;
  return LWMQ_OK;
}

void abandon(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer) {
  const std::lock_guard lock(world().mutex);
  transport->self->buffers[buffer->token[0]].lent = false;
  buffer->room = 0;
  if (transport->kept > 0) --transport->kept;
  if (transport->self->closed && transport->kept == 0) delete transport;
}

lwmq_status land(lwmq_tli_transport* transport, lwmq_tli_extent* out_extent) {
  const std::lock_guard lock(world().mutex);
  Transport& self = *transport->self;
  if (self.inbox.empty()) return self.peer_closed() ? closed() : LWMQ_E_EMPTY;
  Datagram* datagram = self.inbox.front().release();
  self.inbox.pop_front();
  out_extent->data = reinterpret_cast<const std::uint8_t*>(datagram->bytes.get());
  out_extent->bytes = datagram->length;
  out_extent->kind = datagram->kind;
  out_extent->token[0] = datagram->buffer;
  out_extent->token[1] = reinterpret_cast<std::uintptr_t>(datagram);
  return LWMQ_OK;
}

void read_by_peer(Datagram* datagram) {
  --datagram->sender->buffers[datagram->buffer].unread;
  datagram->sender->news();
}

void release(lwmq_tli_transport* /*transport*/, lwmq_tli_extent* extent) {
  const std::lock_guard lock(world().mutex);
  const std::unique_ptr<Datagram> datagram(
      reinterpret_cast<Datagram*>(static_cast<std::uintptr_t>(extent->token[1])));
  read_by_peer(datagram.get());
}

bool is_ready(const Transport& self, std::uint32_t what) {
  return ((what & LWMQ_TLI_WAIT_EXTENT) != 0 && !self.inbox.empty()) ||
         ((what & LWMQ_TLI_WAIT_ROOM) != 0 && self.free_buffers() > 0) || self.peer_closed();
}

lwmq_status wait(lwmq_tli_transport* transport, std::uint32_t what, std::uint32_t timeout_ms) {
  std::unique_lock lock(world().mutex);
  const auto ready = [&] { return is_ready(*transport->self, what); };
  if (timeout_ms == LWMQ_FOREVER) {
    world().changed.wait(lock, ready);
    return LWMQ_OK;
  }
  const bool is = world().changed.wait_for(lock, std::chrono::milliseconds(timeout_ms), ready);
  return is ? LWMQ_OK : LWMQ_E_TIMED_OUT;
}

std::int32_t arm(lwmq_tli_transport* transport, std::uint32_t what) {
  const std::lock_guard lock(world().mutex);
  if (what == 0) {
    transport->self->armed = false;
    if (transport->self->event) drain(transport->self->event);
    return 0;
  }
  if (transport->self->has_own_event) drain(transport->self->event);
  transport->self->armed = true;
  // Room counts where somebody has asked for it in vain: else it is nearly always there.
  if (!transport->self->wants_room) what &= LWMQ_TLI_WAIT_EXTENT;
  return is_ready(*transport->self, what) ? 1 : 0;
}

std::int32_t descriptor(lwmq_tli_transport* transport) {
  const std::lock_guard lock(world().mutex);
  if (!std::exchange(transport->self->has_own_event, true)) transport->self->event = make_event();
  return *transport->self->event;
}

void close(lwmq_tli_transport* transport, std::uint32_t lent, std::uint64_t unsent) {
  const std::lock_guard lock(world().mutex);
  transport->kept = lent;
  transport->self->unsent = unsent;
  auto& self = transport->self;
  self->closed = true;
  for (const auto& to : self->peers) to->news();
  // What we never landed stays unread for a sender that has nobody else; one with other members gets its room
  // back.
  for (const auto& datagram : self->inbox) {
    if (!datagram->sender->peer_closed()) --datagram->sender->buffers[datagram->buffer].unread;
  }
  self->inbox.clear();
  if (self->peer_closed()) break_circle(*self);
  if (transport->kept == 0) delete transport;
}

const lwmq_tli_listener_table kListener = {
    .listen = listen,
    .accept = accept,
    .tend = nullptr,
    .descriptor = listener_descriptor,
    .address = nullptr,
    .close = close_listener,
};

const lwmq_tli_attempt_table kAttempt = {
    .begin = begin,
    .advance = advance,
    .descriptor = [](lwmq_tli_attempt* attempt) -> std::int32_t { return of(attempt)->timer; },
    .cancel = cancel,
};

const lwmq_tli_transport_table kTransport = {
    .peer = peer,
    .state = state,
    .acquire = acquire,
    .show = show,
    .flush = nullptr,
    .ship = ship,
    .abandon = abandon,
    .land = land,
    .release = release,
    .wait = wait,
    .arm = arm,
    .descriptor = descriptor,
    .close = close,
};

const lwmq_tli_provider kStub = {
    .size = sizeof(lwmq_tli_provider),
    .version = LWMQ_TLI_VERSION,
    .name = "stub",
    .claim = claim,
    .limits = limits,
    .settings = nullptr,
    .listener = &kListener,
    .attempt = &kAttempt,
    .transport = &kTransport,
    .fast = nullptr,
    .memory = nullptr,
    .service = nullptr,
    .service_wake = nullptr,
};

}  // namespace

LWMQ_TLI_REGISTER(kStub);
