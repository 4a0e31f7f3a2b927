#include "providers/ipc/transport.h"

#include <algorithm>
#include <new>

#include "base/yield_point.h"
#include "os/clock.h"
#include "os/event_fd.h"
#include "os/membarrier.h"

namespace lwmq::ipc {
namespace {

constexpr std::int64_t kOwedRingNs = 10'000'000;  // between two attempts of who sleeps to take a doorbell

Status forked_text() noexcept {
  return fail(LWMQ_E_CLOSED, "forked: this transport is the parent process's");
}

}  // namespace

Status Transport::create(TransportParts parts, Transport** out_transport) {
  auto* transport = new (std::nothrow) Transport(std::move(parts));
  if (transport == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for a transport");
  auto& our = transport->parts_;
  auto& sides = transport->sides_;
  sides.own = our.own_side.data();
  sides.peer = our.peer_side.data();
  sides.peer_has_membarrier = (our.process->page().flags & kPageHasMembarrier) != 0;
  sides.poke = [](void* self) { return static_cast<Transport*>(self)->ring_peer(); };
  sides.context = transport;
  transport->waker_.init(sides);
  if (!transport->sender_.init(sides, &transport->waker_, our.options.buffers_send,
                               our.options.buffer_bytes) ||
      !transport->receiver_.init(sides, &transport->waker_, our.peer.buffers, our.peer.buffer_bytes)) {
    delete transport;
    return fail(LWMQ_E_NO_MEMORY, "no memory for a transport");
  }
  if (our.options.secure_erase != 0)
    transport->sender_.erase_buffers(our.options.purpose == LWMQ_TLI_FOR_RAW);
  if (our.options.purpose == LWMQ_TLI_FOR_RAW) transport->sender_.use_fresh_buffers_first();
  transport->patience_.init(our.options, our.peer.buffers, our.peer.buffer_bytes);
  *out_transport = transport;
  return LWMQ_OK;
}

Status Transport::stand_behind(std::shared_ptr<Door> door) {
  if (const Status status = door->add_transport(this); status != LWMQ_OK) return status;
  door_ = std::move(door);
  is_polled_alone_.store(false, std::memory_order_relaxed);
  watch_death(this, death_, parts_.process, door_->bell());
  const std::uint32_t purpose = parts_.options.purpose;
  if (purpose == LWMQ_TLI_FOR_MESSAGES || purpose == LWMQ_TLI_FOR_RAW) return LWMQ_OK;  // few are polled
  std::unique_lock lock(line_mutex_);
  make_doorbell(lock);  // else arm does, once there are descriptors
  return LWMQ_OK;
}

// ---- Doorbells ---------------------------------------------------------------------------------------

// With line_mutex_: the peer is told before we announce that we wait at it. LWMQ_E_SYSTEM.
Status Transport::make_doorbell(std::unique_lock<std::mutex>& lock) {
  if (doorbell_.is_there()) return LWMQ_OK;
  os::UniqueFd made;
  Status status = os::create_event_fd(&made);
  if (status == LWMQ_OK && door_ != nullptr) status = door_->add_doorbell(made.get());
  if (status != LWMQ_OK) return status;
  const Doorbell doorbell{{kMagic, kProtocolVersion, kDoorbell}};
  const int fds[] = {made.get()};
  LWMQ_YIELD("doorbell.send");
  status = os::send_message(life_line(), &doorbell, sizeof doorbell, fds, 1);
  if (status == LWMQ_E_PEER_LOST) {  // state says how it ended; nobody will ring
    hung_up_.store(true, std::memory_order_release);
  } else if (status != LWMQ_OK) {
    if (door_ != nullptr) door_->leave_doorbell(made.get());
    if (status != LWMQ_E_FULL) return status;
    return fail(LWMQ_E_SYSTEM, "%s: the kernel takes no doorbell: too many descriptors are on their way",
                parts_.address.c_str());
  }
  doorbell_.put(std::move(made));
  // A peer that sleeps shall take it: what lies in a socket counts among the descriptors that this user may
  // have on their way. Of two ends that send at once, one finds the other's, here, and rings it.
  waker_.wake();
  read_life_line(lock);
  if (const int bell = peer_bell_.get(); bell >= 0) os::ring_event_fd(bell);
  return LWMQ_OK;
}

// The peer waits at its descriptor, and has sent its doorbell before it said so. False: we cannot take it
// now, for want of descriptors or behind windows that nobody has looked for. Then whoever takes it rings, and
// who shows the next extent or sleeps tries again.
bool Transport::ring_peer() noexcept {
  int bell = peer_bell_.get();
  if (bell < 0) {
    std::unique_lock lock(line_mutex_);
    read_life_line(lock);
    bell = peer_bell_.get();
    const bool may_come = life_line_ && !hung_up_.load(std::memory_order_relaxed);
    owes_ring_.store(bell < 0 && may_come, std::memory_order_relaxed);
    if (bell < 0) return !may_come;
  }
  os::ring_event_fd(bell);
  return true;
}

// ---- State -------------------------------------------------------------------------------------------

void Transport::end(std::int32_t state) noexcept {
  std::int32_t connected = LWMQ_TLI_CONNECTED;
  end_.compare_exchange_strong(connected, state, std::memory_order_release, std::memory_order_relaxed);
}

std::int32_t Transport::state(lwmq_tli_figures* out_figures) noexcept {
  const std::int32_t seen = state();
  if (out_figures == nullptr) return seen;
  out_figures->free_buffers = sender_.free_buffers();  // first: it collects
  out_figures->unread_extents = sender_.unread_extents();
  out_figures->unsent = sides_.peer_header().unsent.load(std::memory_order_relaxed);  // published by closed
  return seen;
}

std::int32_t Transport::look_at_end() noexcept {
  if (os::forked()) return LWMQ_TLI_LOST;
  const std::int32_t known = end_.load(std::memory_order_acquire);
  if (known != LWMQ_TLI_CONNECTED) return known;
  const auto& closed = sides_.peer_header().closed;
  if (closed.load(std::memory_order_acquire) != 0) {  // sync: closed
    end(LWMQ_TLI_CLOSED);
  } else if (!os::is_held(*death_) || hung_up_.load(std::memory_order_acquire)) {
    // Closed and gone at once: the order of our two looks must not turn an orderly end into a loss.
    end(closed.load(std::memory_order_acquire) != 0 ? LWMQ_TLI_CLOSED : LWMQ_TLI_LOST);
  }
  // Ours, just now or by another of our threads. That one may be the only one that has seen `closed`: what
  // the peer has written before it, such as `unsent`, is then read behind this load.
  return end_.load(std::memory_order_acquire);
}

Status Transport::over() noexcept {
  if (os::forked()) return forked_text();
  if (end_.load(std::memory_order_relaxed) == LWMQ_TLI_CLOSED) {
    return fail(LWMQ_E_CLOSED, "%s: the peer (%s) has closed", parts_.address.c_str(), parts_.peer.name);
  }
  return fail(LWMQ_E_PEER_LOST, "%s: the peer (%s) %s", parts_.address.c_str(), parts_.peer.name,
              broken_.load(std::memory_order_relaxed) ? "broke the protocol" : "died or vanished");
}

void Transport::hung_up() noexcept {
  hung_up_.store(true, std::memory_order_release);
  if (const int bell = doorbell_.get(); bell >= 0) os::ring_event_fd(bell);
}

// ---- Buffers -----------------------------------------------------------------------------------------

Status Transport::acquire(lwmq_tli_buffer* out_buffer) noexcept {
  if (state() != LWMQ_TLI_CONNECTED) return over();
  const Status status = sender_.acquire(out_buffer);
  wants_room_ = status == LWMQ_E_FULL;
  return status;
}

Status Transport::show(lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind) noexcept {
  if (!is_connected()) [[unlikely]]
    return show_looking(buffer, bytes, kind);
  return sender_.show(buffer, bytes, kind);
}

// The rare part: a call in the usual one would cost each message what has to be saved around it.
[[gnu::noinline]] Status Transport::show_looking(lwmq_tli_buffer* buffer, std::uint64_t bytes,
                                                 std::uint32_t kind) noexcept {
  return look_at_end() == LWMQ_TLI_CONNECTED ? sender_.show(buffer, bytes, kind) : over();
}

std::uint64_t Transport::show_run(lwmq_tli_buffer* buffer, const lwmq_bytes* frames, std::uint64_t count,
                                  std::uint32_t kind, std::uint64_t* out_bytes) noexcept {
  return state() == LWMQ_TLI_CONNECTED ? sender_.show_run(buffer, frames, count, kind, out_bytes) : 0;
}

Status Transport::ship(lwmq_tli_buffer* buffer) noexcept {
  if (os::forked()) return forked_text();
  sender_.ship(buffer);
  return LWMQ_OK;
}

Status Transport::ship_only(lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind) noexcept {
  if (state() == LWMQ_TLI_CONNECTED) return sender_.ship_only(buffer, bytes, kind);
  ship(buffer);
  return over();
}

[[gnu::always_inline]] inline void Transport::note_landed(std::uint32_t count) noexcept {
  outstanding_.landed(count);
  patience_.landed(count);
}

Status Transport::land(lwmq_tli_extent* out_extent) noexcept {
  if (os::forked() || broken_.load(std::memory_order_relaxed)) [[unlikely]]
    return land_no_more();
  const Status status = receiver_.land(out_extent);
  if (status != LWMQ_OK) return land_nothing(status, out_extent);
  note_landed(1);
  return LWMQ_OK;
}

// The lane has answered `status`.
Status Transport::land_nothing(Status status, lwmq_tli_extent* out_extent) noexcept {
  if (status == LWMQ_E_EMPTY) {
    if (state() == LWMQ_TLI_CONNECTED) return LWMQ_E_EMPTY;
    status =
        receiver_.land(out_extent);  // behind the look at the state: what came before the end is seen now
    if (status == LWMQ_E_EMPTY) return land_no_more();
  }
  if (status == LWMQ_OK) {
    outstanding_.landed(1);
    return LWMQ_OK;
  }
  broken_.store(true, std::memory_order_relaxed);
  end(LWMQ_TLI_LOST);
  add_context(parts_.address.c_str());
  return status;
}

Status Transport::land_no_more() noexcept {
  const Status status = over();
  if (status != LWMQ_E_PEER_LOST || !broken_.load(std::memory_order_relaxed)) return status;
  const std::lock_guard lock(line_mutex_);
  if (breach_.status() != LWMQ_OK) breach_.tell();  // says more
  return LWMQ_E_CORRUPT;
}

void Transport::release(const std::uint64_t token[2], std::uint32_t count) noexcept {
  if (os::forked()) return;
  receiver_.release(token, count);
  if (outstanding_.came_back(count)) delete this;
}

std::uint32_t Transport::land_run(std::uint64_t bytes_below, std::uint32_t limit, std::uint64_t out_token[2],
                                  lwmq_tli_piece* out_pieces) noexcept {
  if (!os::still_ours() || broken_.load(std::memory_order_relaxed)) [[unlikely]]
    return 0;
  const std::uint32_t count = receiver_.land_run(bytes_below, limit, out_token, out_pieces);
  note_landed(count);
  return count;
}

// Looks as long as a wait does before it sleeps. True: land may find one.
[[gnu::always_inline]] inline bool Transport::sees_extent() noexcept {
  return patience_.sees([this] { return receiver_.has_extent() || !is_connected(); }) && os::still_ours() &&
         !broken_.load(std::memory_order_relaxed);
}

bool Transport::land_soon(std::uint64_t bytes_below, std::uint64_t out_token[2],
                          lwmq_tli_piece* out_piece) noexcept {
  patience_.hold([this] { return receiver_.has_extent(); });
  if (!sees_extent() || !receiver_.land_one(bytes_below, out_token, out_piece)) [[unlikely]]
    return false;
  note_landed(1);
  return true;
}

bool Transport::land_awaited(lwmq_tli_extent* out_extent) noexcept {
  if (!sees_extent() || receiver_.land(out_extent) != LWMQ_OK) [[unlikely]]
    return false;
  outstanding_.landed(1);  // of no message: nobody holds back for it
  return true;
}

void Transport::release_last(const std::uint64_t token[2], std::uint32_t count) noexcept {
  if (!os::still_ours()) return;
  receiver_.release_last(token, count);
  outstanding_.released_last(count);
}

void Transport::close(std::uint32_t lent, std::uint64_t unsent) noexcept {
  if (os::forked()) return;  // the memory is the parent's; ours is lost with the process
  sides_.own_header().unsent.store(unsent, std::memory_order_relaxed);  // published by closed
  LWMQ_YIELD("transport.close");
  sides_.own_header().closed.store(1, std::memory_order_release);  // sync: closed
  LWMQ_YIELD("transport.closed");
  waker_.ring();
  LWMQ_YIELD("transport.closed_rung");
  sender_.erase_rest(state() == LWMQ_TLI_LOST, lent > 0);
  if (door_ != nullptr || own_poll_) unwatch_death(this);
  if (door_ != nullptr) {
    if (doorbell_.is_there()) door_->leave_doorbell(doorbell_.get());
    door_->remove_transport(this);
    door_.reset();
  }
  {
    const std::lock_guard lock(line_mutex_);
    own_poll_.reset();
    life_line_.reset();
    shown_.clear();
  }
  if (outstanding_.close(lent)) delete this;
}

void Transport::abandon(lwmq_tli_buffer* buffer) noexcept {
  sender_.abandon(buffer);
  if (outstanding_.keeps_lent() && outstanding_.came_back(1)) delete this;
}

// ---- Waiting -----------------------------------------------------------------------------------------

bool Transport::is_ready(std::uint32_t what) noexcept {
  return ((what & LWMQ_TLI_WAIT_EXTENT) != 0 && receiver_.has_extent()) ||
         ((what & LWMQ_TLI_WAIT_ROOM) != 0 && sender_.has_room()) || state() != LWMQ_TLI_CONNECTED;
}

Status Transport::wait(std::uint32_t what, std::uint32_t timeout_ms) noexcept {
  if (patience_.look(
          what, timeout_ms, [&] { return is_ready(what); }, [this] { return receiver_.has_extent(); })) {
    return LWMQ_OK;
  }
  if (timeout_ms != 0) return sleep_until_ready(what, timeout_ms);
  receiver_.say_received(what);
  return LWMQ_E_TIMED_OUT;
}

// Apart, so that who is answered at a glance has little to save and to restore.
[[gnu::noinline]] Status Transport::sleep_until_ready(std::uint32_t what, std::uint32_t timeout_ms) noexcept {
  const std::int64_t begin = os::now_ns();
  const std::int64_t deadline =
      timeout_ms == LWMQ_FOREVER ? INT64_MAX : begin + std::int64_t{timeout_ms} * 1'000'000;
  for (;;) {
    const std::int64_t left = deadline == INT64_MAX ? -1 : std::max<std::int64_t>(deadline - os::now_ns(), 0);
    const Status status = sleep(what, left);
    if (status == LWMQ_E_INTERRUPTED) return status;
    const bool ready = is_ready(what);
    if (ready || left == 0) {
      patience_.slept(what, os::now_ns() - begin);
      return ready ? LWMQ_OK : LWMQ_E_TIMED_OUT;
    }
  }
}

Status Transport::sleep(std::uint32_t what, std::int64_t timeout_ns) noexcept {
  glance_at_life_line();
  if (owes_ring_.load(std::memory_order_relaxed))
    timeout_ns = timeout_ns < 0 ? kOwedRingNs : std::min(timeout_ns, kOwedRingNs);
  const std::uint32_t alive = death_->load(std::memory_order_acquire);
  if (!os::is_held(*death_)) return LWMQ_OK;
  auto& header = sides_.own_header();
  const bool both = (what & LWMQ_TLI_WAIT_EXTENT) != 0 && (what & LWMQ_TLI_WAIT_ROOM) != 0;
  receiver_.say_received(what);
  announced_.forget();
  auto& waiting = (what & LWMQ_TLI_WAIT_EXTENT) != 0 ? header.waiting_extent : header.waiting_room;
  const os::FutexWord others[] = {{death_, alive}};
  const os::WaitResult result = lane::sleep_until_rung(sides_, waiting, both ? &header.waiting_room : nullptr,
                                                       others, 1, timeout_ns, [&] { return is_ready(what); });
  // The kernel wakes one sleeper of a death word, and it may be us: pass it on to our other threads.
  if (!os::is_held(*death_)) os::futex_wake_all(*death_);
  return result == os::WaitResult::kInterrupted ? LWMQ_E_INTERRUPTED : LWMQ_OK;
}

std::int32_t Transport::arm(std::uint32_t what) noexcept {
  if (what == 0) {
    disarm();
    return 0;
  }
  if (os::forked()) return 1;
  receiver_.say_received(what);
  // Whoever looks at the door tells us of a hang-up; everybody else has to see for himself.
  const bool is_told = !is_polled_alone_.load(std::memory_order_relaxed) && door_->has_listener();
  if (is_told && announced_.stands(sides_, what) && !owes_ring_.load(std::memory_order_relaxed))
    return has_news(what);
  if (!doorbell_.is_there()) {
    std::unique_lock lock(line_mutex_);
    if (make_doorbell(lock) != LWMQ_OK) return -1;
  }
  os::drain_event_fd(doorbell_.get());
  glance_at_life_line();
  announced_.note(sides_, what);
  auto& header = sides_.own_header();
  const bool room = (what & LWMQ_TLI_WAIT_ROOM) != 0;
  if (room) lane::announce_waiting(header.waiting_room, true);
  if ((what & LWMQ_TLI_WAIT_EXTENT) != 0) lane::announce_waiting(header.waiting_extent, true);
  return has_news(what);
}

// 1: there is something already. Room counts where somebody has asked for it in vain: else it is nearly
// always there.
std::int32_t Transport::has_news(std::uint32_t what) noexcept {
  const bool has_room = (what & LWMQ_TLI_WAIT_ROOM) != 0 && wants_room_ && sender_.has_room();
  return has_room || is_ready(what & LWMQ_TLI_WAIT_EXTENT) ? 1 : 0;
}

std::int32_t Transport::fd() noexcept {
  if (os::forked()) return -1;
  std::unique_lock lock(line_mutex_);
  if (own_poll_) return own_poll_.get();
  if (make_doorbell(lock) != LWMQ_OK) return -1;
  if (Door::create_for(doorbell_.get(), life_line(), &own_poll_) != LWMQ_OK) return -1;
  is_polled_alone_.store(true, std::memory_order_relaxed);
  if (door_ != nullptr) {
    door_->leave_doorbell(doorbell_.get());
    unwatch_death(this);
  }
  watch_death(this, death_, parts_.process, doorbell_.get());
  return own_poll_.get();
}

void Transport::disarm() noexcept {
  if (os::forked()) return;
  announced_.forget();
  auto& header = sides_.own_header();
  lane::clear_waiting(header.waiting_extent);
  lane::clear_waiting(header.waiting_room);
  if (doorbell_.is_there()) os::drain_event_fd(doorbell_.get());
  if (door_ != nullptr) door_->disarm();
}

}  // namespace lwmq::ipc
