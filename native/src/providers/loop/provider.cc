#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "os/clock.h"
#include "os/identity.h"
#include "providers/loop/loop.h"
#include "stats/process_counters.h"
#include "tli/purpose.h"

namespace lwmq::loop {
namespace {

constexpr char kScheme[] = "loop://";
constexpr std::uint32_t kNameMax = 119;
constexpr std::size_t kPendingMax = 64;   // of a listener, beside those that its owner keeps waiting
constexpr std::size_t kRefusalsMax = 16;  // to be told of; more at once are one

// Who serves which name, and which windows there are. Never destroyed: threads may outlive main.
struct World {
  std::mutex mutex;
  std::map<std::string, lwmq_tli_listener*> listeners;
  std::map<std::string, lwmq_tli_window*> windows;  // by the 16 bytes of the id
};

World& world() noexcept {
  static auto* instance = new World;
  return *instance;
}

// ---- Address and limits -----------------------------------------------------------------------------

std::int32_t claim(const char* address) { return std::strncmp(address, kScheme, sizeof kScheme - 1) == 0; }

Status check(const char* address, const lwmq_tli_options* options) noexcept {
  const std::size_t bytes = std::strlen(address) - (sizeof kScheme - 1);
  if (bytes == 0 || bytes > kNameMax) {
    return fail(LWMQ_E_ADDRESS, "%s: a name of 1 to %u bytes stands behind loop://, not %zu", address,
                kNameMax, bytes);
  }
  if (options == nullptr) return LWMQ_OK;
  if (options->buffers_send == 0 || options->buffers_send > kBuffersMax) {
    return fail(LWMQ_E_INVALID, "%s: %u send buffers; 1 to %u are possible", address, options->buffers_send,
                kBuffersMax);
  }
  if (options->buffer_bytes < kBufferBytesMin || options->buffer_bytes > kBufferBytesMax) {
    return fail(LWMQ_E_INVALID, "%s: buffers of %" PRIu64 " bytes; %" PRIu64 " to %" PRIu64 " are possible",
                address, options->buffer_bytes, kBufferBytesMin, kBufferBytesMax);
  }
  return LWMQ_OK;
}

lwmq_status limits(const char* address, lwmq_limits* out_limits) {
  const Status status = check(address, nullptr);
  if (status != LWMQ_OK) return status;
  out_limits->buffer_bytes_max = kBufferBytesMax;
  out_limits->buffers_max = kBuffersMax;
  out_limits->capabilities = LWMQ_CAN_SEND | LWMQ_CAN_RECEIVE | LWMQ_CAN_SHARE_WINDOW | LWMQ_IS_RELIABLE |
                             LWMQ_IS_ORDERED | LWMQ_CAN_ERASE | LWMQ_IS_IN_PROCESS;
  return LWMQ_OK;
}

// ---- Meeting ----------------------------------------------------------------------------------------

void poke(int event) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event, &one, sizeof one);  // full: already readable
}

void drain(int event) {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(event, &count, sizeof count);  // empty: nothing to drain
}

// Where the other end waits at a descriptor: at its own, else at its listener's bell.
bool poke_other_end(void* context) {
  auto* self = static_cast<lwmq_tli_transport*>(context);
  const int own = self->pair->event[1 - self->end].load(std::memory_order_acquire);
  if (own >= 0) {
    poke(own);
  } else if (self->peer_bell) {
    self->peer_bell->ring();
  }
  return true;
}

lwmq_status listen(const char* address, const lwmq_tli_options* options, lwmq_tli_listener** out_listener) {
  const Status status = check(address, options);
  if (status != LWMQ_OK) return status;
  auto bell = std::make_shared<Bell>(*options);
  if (bell->fd() < 0 && options->ring == nullptr)
    return fail_call(LWMQ_E_SYSTEM, errno, "%s: eventfd", address);
  const std::lock_guard lock(world().mutex);
  auto& slot = world().listeners[address];
  if (slot != nullptr) return fail(LWMQ_E_ADDRESS, "%s is served already in this process", address);
  slot = new lwmq_tli_listener;
  slot->address = address;
  slot->options = *options;
  slot->bell = std::move(bell);
  *out_listener = slot;
  return LWMQ_OK;
}

lwmq_status accept(lwmq_tli_listener* listener, lwmq_tli_transport** out_transport) {
  const std::lock_guard lock(listener->mutex);
  if (!listener->refusals.empty()) {
    const std::string text = std::move(listener->refusals.front());
    listener->refusals.pop_front();
    return fail(LWMQ_E_VERSION, "%s", text.c_str());
  }
  if (listener->pending.empty()) {
    listener->bell->drain();  // who comes behind this look rings behind it
    return LWMQ_E_EMPTY;
  }
  *out_transport = listener->pending.front();
  listener->pending.pop_front();
  return LWMQ_OK;
}

std::int32_t listener_descriptor(lwmq_tli_listener* listener) { return listener->bell->fd(); }

// Zeroed pages that are paid for when they are touched. malloc would hand out what an earlier side has left,
// and clear, and so touch, all of it.
os::Mapping make_side(std::uint32_t buffers, std::uint64_t buffer_bytes) noexcept {
  const std::uint64_t bytes = lane::SideLayout::of(buffers, buffer_bytes).bytes;
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? os::Mapping() : os::Mapping(data, bytes);
}

void close(lwmq_tli_transport* transport, std::uint32_t lent, std::uint64_t unsent);

// The failure that the client has is to be told to the listener, too.
void tell_refusal(lwmq_tli_listener& listener) {
  {
    const std::lock_guard lock(listener.mutex);
    if (listener.refusals.size() < kRefusalsMax) listener.refusals.emplace_back(last_error());
  }
  listener.bell->ring();
}

// All there is to it is done in the first step, unless others wait there.
lwmq_status begin(const char* address, const lwmq_tli_options* options, lwmq_tli_attempt** out_attempt) {
  const Status status = check(address, options);
  if (status == LWMQ_OK) *out_attempt = new lwmq_tli_attempt{address, *options};
  return status;
}

Status connect(const char* address, const lwmq_tli_options* options, lwmq_tli_transport** out_transport) {
  const std::lock_guard lock(world().mutex);
  const auto found = world().listeners.find(address);
  if (found == world().listeners.end()) return LWMQ_E_EMPTY;
  lwmq_tli_listener* listener = found->second;
  const Status status = tli::check_purposes(address, options->purpose, listener->options.purpose);
  if (status != LWMQ_OK) {
    tell_refusal(*listener);
    return status;
  }
  {
    const std::lock_guard pending_lock(listener->mutex);
    if (listener->pending.size() >= kPendingMax) return LWMQ_E_TIMED_OUT;
  }
  auto pair = std::make_unique<Pair>();
  pair->side[0] = make_side(options->buffers_send, options->buffer_bytes);
  pair->side[1] = make_side(listener->options.buffers_send, listener->options.buffer_bytes);
  if (pair->side[0].data() == nullptr || pair->side[1].data() == nullptr)
    return fail(LWMQ_E_NO_MEMORY, "%s: no memory for the buffers", address);
  const lwmq_tli_options* of[2] = {options, &listener->options};
  for (int i = 0; i < 2; ++i) {
    auto* end = &pair->ends[i];
    end->pair = pair.get();
    end->options = *of[i];
    end->peer_options = *of[1 - i];
    end->sides.own = pair->side[i].data();
    end->sides.peer = pair->side[1 - i].data();
    end->end = i;
    (i == 0 ? end->peer_bell : end->own_bell) = listener->bell;
    end->sides.poke = poke_other_end;
    end->sides.context = end;
    end->waker.init(end->sides);
    if (!end->sender.init(end->sides, &end->waker, of[i]->buffers_send, of[i]->buffer_bytes) ||
        !end->receiver.init(end->sides, &end->waker, of[1 - i]->buffers_send, of[1 - i]->buffer_bytes)) {
      return fail(LWMQ_E_NO_MEMORY, "%s: no memory for the transport", address);
    }
    end->patience.init(*of[i], of[1 - i]->buffers_send, of[1 - i]->buffer_bytes);
    if (of[i]->secure_erase != 0) end->sender.erase_buffers(of[i]->purpose == LWMQ_TLI_FOR_RAW);
  }
  pair->is_whole = true;
  {
    const std::lock_guard pending_lock(listener->mutex);
    listener->pending.push_back(&pair->ends[1]);
  }
  listener->bell->ring();
  *out_transport = &pair.release()->ends[0];
  return LWMQ_OK;
}

void cancel(lwmq_tli_attempt* attempt) { delete attempt; }

lwmq_status advance(lwmq_tli_attempt* attempt, lwmq_tli_transport** out_transport) {
  const Status status = connect(attempt->address.c_str(), &attempt->options, out_transport);
  if (status != LWMQ_E_TIMED_OUT) cancel(attempt);
  return status;
}

void close_listener(lwmq_tli_listener* listener) {
  {
    const std::lock_guard lock(world().mutex);
    world().listeners.erase(listener->address);
  }
  listener->bell->end();
  for (auto* transport : listener->pending) close(transport, 0, 0);
  delete listener;
}

void peer(lwmq_tli_transport* transport, lwmq_tli_peer* out_peer) {
  const lwmq_identity& self = os::identity();
  std::memcpy(out_peer->instance, self.instance, sizeof self.instance);
  std::snprintf(out_peer->name, sizeof out_peer->name, "process %u", self.pid);
  out_peer->pid = self.pid;
  out_peer->uid = geteuid();
  out_peer->buffer_bytes = transport->peer_options.buffer_bytes;
  out_peer->buffers = transport->peer_options.buffers_send;
  out_peer->drops = transport->peer_options.drop != nullptr ? 1 : 0;
  out_peer->channel = transport->peer_options.channel;
}

bool is_open(const lwmq_tli_transport* transport) noexcept {
  return transport->sides.peer_header().closed.load(std::memory_order_acquire) == 0;  // sync: closed
}

std::int32_t state(lwmq_tli_transport* transport, lwmq_tli_figures* out_figures) {
  const std::int32_t seen = is_open(transport) ? LWMQ_TLI_CONNECTED : LWMQ_TLI_CLOSED;
  if (out_figures == nullptr) return seen;
  out_figures->free_buffers = transport->sender.free_buffers();  // first: it collects
  out_figures->unread_extents = transport->sender.unread_extents();
  out_figures->unsent = transport->sides.peer_header().unsent.load(std::memory_order_relaxed);
  return seen;
}

void end_is_over(lwmq_tli_transport* transport) {
  Pair* pair = transport->pair;
  if (pair->ends_left.fetch_sub(1, std::memory_order_acq_rel) == 1) delete pair;
}

void close(lwmq_tli_transport* transport, std::uint32_t lent, std::uint64_t unsent) {
  transport->sides.own_header().unsent.store(unsent, std::memory_order_relaxed);  // published by closed
  transport->sides.own_header().closed.store(1, std::memory_order_release);       // sync: closed
  transport->waker.ring();
  transport->sender.erase_rest(false, lent > 0);
  if (transport->outstanding.close(lent)) end_is_over(transport);
}

// ---- Buffers ----------------------------------------------------------------------------------------

Status closed_text() noexcept {
  return fail(LWMQ_E_CLOSED, "the other end of this loop transport has closed");
}

lwmq_status acquire(lwmq_tli_transport* transport, lwmq_tli_buffer* out_buffer) {
  if (!is_open(transport)) return closed_text();
  const Status status = transport->sender.acquire(out_buffer);
  transport->wants_room = status == LWMQ_E_FULL;
  return status;
}

lwmq_status show(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer, std::uint64_t bytes,
                 std::uint32_t kind) {
  return transport->sender.show(buffer, bytes, kind);
}

std::uint64_t show_run(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer, const lwmq_bytes* frames,
                       std::uint64_t count, std::uint32_t kind, std::uint64_t* out_bytes) {
  return transport->sender.show_run(buffer, frames, count, kind, out_bytes);
}

lwmq_status ship(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer) {
  transport->sender.ship(buffer);
  return LWMQ_OK;
}

lwmq_status ship_only(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer, std::uint64_t bytes,
                      std::uint32_t kind) {
  return transport->sender.ship_only(buffer, bytes, kind);
}

void note_landed(lwmq_tli_transport* transport, std::uint32_t count) {
  transport->outstanding.landed(count);
  transport->patience.landed(count);
}

lwmq_status land(lwmq_tli_transport* transport, lwmq_tli_extent* out_extent) {
  // The state first: what the peer showed before it closed is then seen by land.
  const bool open = is_open(transport);
  const Status status = transport->receiver.land(out_extent);
  if (status == LWMQ_OK) note_landed(transport, 1);
  return status == LWMQ_E_EMPTY && !open ? closed_text() : status;
}

void release_run(lwmq_tli_transport* transport, const std::uint64_t token[2], std::uint32_t count) {
  transport->receiver.release(token, count);
  if (transport->outstanding.came_back(count)) end_is_over(transport);
}

void abandon(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer) {
  transport->sender.abandon(buffer);
  auto& outstanding = transport->outstanding;
  if (outstanding.keeps_lent() && outstanding.came_back(1)) end_is_over(transport);
}

void release(lwmq_tli_transport* transport, lwmq_tli_extent* extent) {
  release_run(transport, extent->token, 1);
}

std::uint32_t land_run(lwmq_tli_transport* transport, std::uint64_t bytes_below, std::uint32_t limit,
                       std::uint64_t out_token[2], lwmq_tli_piece* out_pieces) {
  const std::uint32_t count = transport->receiver.land_run(bytes_below, limit, out_token, out_pieces);
  note_landed(transport, count);
  return count;
}

bool is_ready(lwmq_tli_transport* transport, std::uint32_t what) noexcept {
  return ((what & LWMQ_TLI_WAIT_EXTENT) != 0 && transport->receiver.has_extent()) ||
         ((what & LWMQ_TLI_WAIT_ROOM) != 0 && transport->sender.has_room()) || !is_open(transport);
}

// Looks as long as a wait does before it sleeps. True: land may find one.
bool sees_extent(lwmq_tli_transport* transport) {
  return transport->patience.sees([transport] { return is_ready(transport, LWMQ_TLI_WAIT_EXTENT); });
}

std::uint32_t land_soon(lwmq_tli_transport* transport, std::uint64_t bytes_below, std::uint64_t out_token[2],
                        lwmq_tli_piece* out_piece) {
  transport->patience.hold([transport] { return transport->receiver.has_extent(); });
  if (!sees_extent(transport) || !transport->receiver.land_one(bytes_below, out_token, out_piece))
      [[unlikely]]
    return 0;
  note_landed(transport, 1);
  return 1;
}

std::uint32_t land_awaited(lwmq_tli_transport* transport, lwmq_tli_extent* out_extent) {
  if (!sees_extent(transport) || transport->receiver.land(out_extent) != LWMQ_OK) [[unlikely]]
    return 0;
  transport->outstanding.landed(1);  // of no message: nobody holds back for it
  return 1;
}

void release_last(lwmq_tli_transport* transport, const std::uint64_t token[2], std::uint32_t count) {
  transport->receiver.release_last(token, count);
  transport->outstanding.released_last(count);
}

// ---- Waiting ----------------------------------------------------------------------------------------

lwmq_status wait(lwmq_tli_transport* transport, std::uint32_t what, std::uint32_t timeout_ms) {
  const auto ready = [&] { return is_ready(transport, what); };
  const auto has_extent = [&] { return transport->receiver.has_extent(); };
  if (transport->patience.look(what, timeout_ms, ready, has_extent)) return LWMQ_OK;
  transport->receiver.say_received(what);
  if (timeout_ms == 0) return LWMQ_E_TIMED_OUT;
  transport->announced.forget();
  auto& header = transport->sides.own_header();
  auto& waiting = (what & LWMQ_TLI_WAIT_EXTENT) != 0 ? header.waiting_extent : header.waiting_room;
  const std::int64_t begin = os::now_ns();
  const std::int64_t timeout_ns = timeout_ms == LWMQ_FOREVER ? -1 : std::int64_t{timeout_ms} * 1'000'000;
  const bool both = (what & LWMQ_TLI_WAIT_EXTENT) != 0 && (what & LWMQ_TLI_WAIT_ROOM) != 0;
  const auto result = lane::sleep_until_rung(transport->sides, waiting, both ? &header.waiting_room : nullptr,
                                             nullptr, 0, timeout_ns, ready);
  transport->patience.slept(what, os::now_ns() - begin);
  if (result == os::WaitResult::kInterrupted) return LWMQ_E_INTERRUPTED;
  return result == os::WaitResult::kTimedOut ? LWMQ_E_TIMED_OUT : LWMQ_OK;
}

void drain_own(lwmq_tli_transport* transport) noexcept {
  if (const int own = transport->pair->event[transport->end].load(std::memory_order_relaxed); own >= 0) {
    drain(own);
  } else if (transport->own_bell) {
    transport->own_bell->drain();
  }
}

// 1: there is something already. Room counts where somebody has asked for it in vain: else it is nearly
// always there.
std::int32_t has_news(lwmq_tli_transport* transport, std::uint32_t what) noexcept {
  const bool has_room =
      (what & LWMQ_TLI_WAIT_ROOM) != 0 && transport->wants_room && transport->sender.has_room();
  return has_room || is_ready(transport, what & LWMQ_TLI_WAIT_EXTENT) ? 1 : 0;
}

void disarm(lwmq_tli_transport* transport) noexcept {
  transport->announced.forget();
  auto& header = transport->sides.own_header();
  lane::clear_waiting(header.waiting_extent);
  lane::clear_waiting(header.waiting_room);
  drain_own(transport);
}

std::int32_t arm(lwmq_tli_transport* transport, std::uint32_t what) {
  if (what == 0) {
    disarm(transport);
    return 0;
  }
  transport->receiver.say_received(what);
  const bool has_own_event = transport->pair->event[transport->end].load(std::memory_order_relaxed) >= 0;
  if (!has_own_event && transport->announced.stands(transport->sides, what)) return has_news(transport, what);
  if (has_own_event) drain_own(transport);
  transport->announced.note(transport->sides, what);
  auto& header = transport->sides.own_header();
  if ((what & LWMQ_TLI_WAIT_EXTENT) != 0) lane::announce_waiting(header.waiting_extent, true);
  if ((what & LWMQ_TLI_WAIT_ROOM) != 0) lane::announce_waiting(header.waiting_room, true);
  return has_news(transport, what);
}

std::int32_t descriptor(lwmq_tli_transport* transport) {
  const std::lock_guard lock(transport->pair->mutex);
  auto& event = transport->pair->event[transport->end];
  if (event.load(std::memory_order_relaxed) < 0) {
    const int made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made < 0) fail_errno(LWMQ_E_SYSTEM, errno, "eventfd");
    event.store(made, std::memory_order_release);
  }
  return event.load(std::memory_order_relaxed);
}

// ---- Windows ----------------------------------------------------------------------------------------

std::string key_of(const std::uint8_t id[16]) { return {reinterpret_cast<const char*>(id), 16}; }

lwmq_status window_create(std::uint64_t bytes, lwmq_tli_window** out_window) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return fail_errno(LWMQ_E_NO_MEMORY, errno, "a window of %" PRIu64 " bytes", bytes);
  auto* window = new lwmq_tli_window;
  auto& info = window->info;
  os::random_bytes(info.id, sizeof info.id);
  info.base = static_cast<std::uint8_t*>(base);
  info.bytes = bytes;
  info.owned = 1;
  info.owner_pid = os::identity().pid;
  std::memcpy(info.owner, os::identity().instance, sizeof info.owner);
  stats::add(stats::process().window_bytes, bytes);
  const std::lock_guard lock(world().mutex);
  world().windows[key_of(info.id)] = window;
  *out_window = window;
  return LWMQ_OK;
}

void window_keep(lwmq_tli_window* window) { window->references.fetch_add(1, std::memory_order_relaxed); }

lwmq_status window_export(lwmq_tli_transport* transport, lwmq_tli_window* window) {
  const std::lock_guard lock(transport->pair->mutex);
  if (transport->pair->shown.emplace(key_of(window->info.id), window).second) window_keep(window);
  return LWMQ_OK;
}

lwmq_status window_find(lwmq_tli_transport* transport, const std::uint8_t id[16],
                        std::uint32_t /*timeout_ms*/, lwmq_tli_window** out_window) {
  {
    const std::lock_guard lock(transport->pair->mutex);
    const auto shown = transport->pair->shown.extract(key_of(id));
    if (!shown.empty()) {
      *out_window = shown.mapped();  // with the reference that it travelled with
      return LWMQ_OK;
    }
  }
  const std::lock_guard lock(world().mutex);
  const auto found = world().windows.find(key_of(id));
  if (found == world().windows.end())
    return fail(LWMQ_E_CORRUPT, "the peer names a window that it has not shown");
  window_keep(found->second);
  *out_window = found->second;
  return LWMQ_OK;
}

void window_info(const lwmq_tli_window* window, lwmq_tli_window_info* out_info) { *out_info = window->info; }

std::int32_t window_owner_alive(const lwmq_tli_window* /*window*/) { return 1; }

void window_release(lwmq_tli_window* window) {
  {
    // Under the lock, so that window_find cannot revive what is going.
    const std::lock_guard lock(world().mutex);
    if (window->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    world().windows.erase(key_of(window->info.id));
  }
  ::munmap(window->info.base, window->info.bytes);
  stats::subtract(stats::process().window_bytes, window->info.bytes);
  delete window;
}

}  // namespace

Pair::~Pair() {
  for (auto& end : ends) {
    if (!is_whole) break;
    lwmq_tli_extent extent{};
    while (end.options.drop != nullptr && end.receiver.land(&extent) == LWMQ_OK) {
      end.options.drop(extent.data, extent.bytes, extent.kind);
      end.receiver.release_last(extent.token, 1);
    }
    end.sender.erase_rest(true, false);
  }
  for (const auto& own : event) {
    if (const int fd = own.load(std::memory_order_relaxed); fd >= 0) ::close(fd);
  }
  for (const auto& [id, window] : shown) window_release(window);
}

Bell::Bell(const lwmq_tli_options& options) noexcept : call_(options.ring), context_(options.ring_context) {
  if (call_ == nullptr) fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

Bell::~Bell() {
  if (fd_ >= 0) ::close(fd_);
}

void Bell::ring() noexcept {
  if (fd_ >= 0) return poke(fd_);
  const std::lock_guard lock(mutex_);
  if (call_ != nullptr) call_(context_);
}

void Bell::drain() const noexcept {
  if (fd_ >= 0) loop::drain(fd_);
}

void Bell::end() noexcept {
  const std::lock_guard lock(mutex_);
  call_ = nullptr;
}

namespace {

constexpr lwmq_tli_listener_table kListener = {
    .listen = listen,
    .accept = accept,
    .tend = nullptr,  // who gives up has left nothing
    .descriptor = listener_descriptor,
    .address = nullptr,
    .close = close_listener,
};

constexpr lwmq_tli_attempt_table kAttempt = {
    .begin = begin,
    .advance = advance,
    .descriptor = [](lwmq_tli_attempt*) -> std::int32_t { return -1; },
    .cancel = cancel,
};

constexpr lwmq_tli_transport_table kTransport = {
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

constexpr lwmq_tli_fast_table kFast = {
    .show_run = show_run,
    .ship_only = ship_only,
    .release_run = release_run,
    .release_last = release_last,
    .land_run = land_run,
    .land_soon = land_soon,
    .land_awaited = land_awaited,
};

constexpr lwmq_tli_memory_table kMemory = {
    .create = window_create,
    .export_to = window_export,
    .find = window_find,
    .info = window_info,
    .owner_alive = window_owner_alive,
    .keep = window_keep,
    .release = window_release,
    .pin = nullptr,
    .unpin = nullptr,
    .grant = nullptr,
    .revoke = nullptr,
    .push = nullptr,
    .reap = nullptr,
};

constexpr lwmq_tli_provider kLoopProvider = {
    .size = sizeof(lwmq_tli_provider),
    .version = LWMQ_TLI_VERSION,
    .name = "loop",
    .claim = claim,
    .limits = limits,
    .settings = nullptr,
    .listener = &kListener,
    .attempt = &kAttempt,
    .transport = &kTransport,
    .fast = &kFast,
    .memory = &kMemory,
    .service = nullptr,
    .service_wake = nullptr,
};

}  // namespace
}  // namespace lwmq::loop

using lwmq::loop::kLoopProvider;
LWMQ_TLI_REGISTER(kLoopProvider);
