// Receiving, and waiting for what others change.
#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "conversation/conversation.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/identity.h"
#include "os/spin.h"

namespace lwmq::conversation {

namespace {

constexpr std::int64_t kPeerLookNs = 100 * os::kMillisecond;  // in which a loss is noticed

}  // namespace

// The first of what is taken, with its waits; `in_hand`: the landing side is. LWMQ_OK: it is still. What is
// said of the peer comes once, among the arrivals, from the service thread when it has retired the transport.
Status Conversation::take_first(How how, bool in_hand, Into& into) {
  const std::uint32_t timeout_ms = how.timeout_ms;
  std::int64_t deadline = 0;  // computed when we first wait: the clock costs as much as a small message
  bool drained = false;       // the descriptor, and then something was there: more may be behind it
  std::optional<Shared::Inside> inside;
  for (;;) {
    const std::uint32_t seen = shared_.changes.load(std::memory_order_acquire);  // sync: change
    if (!std::exchange(in_hand, false)) landing_.take();
    if (untold_.status() != LWMQ_OK) {
      if (!inside) inside.emplace(shared_);
      const Status status = untold_.tell();
      untold_.forget();
      landing_.release();
      return status;
    }
    Landed landed;
    std::unique_ptr<Report> report;
    Status status = into.take_next(receiver_, &landed, &report);
    if (status == LWMQ_OK) [[likely]] {
      if (deadline != 0 || drained) shared_.ring();  // our wait has taken the place of whoever polls
      return LWMQ_OK;
    }
    const bool is_answer = report != nullptr || (status == LWMQ_E_NO_MEMORY && landed.transport != nullptr) ||
                           (status == LWMQ_E_CORRUPT && !note_corrupt(landed));
    if (is_answer || phase_.load() != Phase::kOpen) {
      if (drained) shared_.ring();
      if (!inside) inside.emplace(shared_);
      landing_.release();
      if (report != nullptr) return report->say();
      return is_answer ? status : refuse_phase();
    }
    if (timeout_ms != 0 && deadline == 0) deadline = os::deadline_of(timeout_ms);
    const std::uint32_t left = timeout_ms == 0 ? 0 : os::ms_left(deadline);
    // Where the transport is to be retired, the service thread needs what we hold: then we wait for its
    // report.
    lwmq_tli_transport* transport = receiver_.transport();
    const bool waits_here = transport != nullptr && !peer_gone_.load(std::memory_order_acquire);
    if (status == LWMQ_E_EMPTY && waits_here && left > 0) {
      status = tli_->wait(transport, LWMQ_TLI_WAIT_EXTENT, std::min(left, os::kWaitSliceMs));
      in_hand = status == LWMQ_OK;
      if (!in_hand) {
        if (!inside) inside.emplace(shared_);
        landing_.release();
      }
      if (status == LWMQ_E_INTERRUPTED) {
        shared_.ring();
        return status;
      }
      continue;
    }
    if (is_peer_over(status)) note_peer_gone();
    const bool may_leave = left > 0 || may_leave_empty(how.when_empty);
    if ((left > 0 || !may_leave) && !inside) inside.emplace(shared_);
    landing_.release();
    if (!may_leave) {
      drained = true;
      continue;
    }
    if (transport == nullptr) {
      status = connect_failure();
      if (status != LWMQ_OK) return status;
    }
    if (left == 0) return timeout_ms == 0 ? LWMQ_E_EMPTY : LWMQ_E_TIMED_OUT;
    status = os::wait_for_change(seen, deadline, shared_.changes);
    if (status != LWMQ_OK) {
      shared_.ring();
      return status;
    }
  }
}

// With the landing side in hand: what has come behind the first, up to the first thing that is not taken.
void Conversation::take_more(Into& into) {
  std::unique_ptr<Report> none;  // has_report said so
  while (into.has_room() && !receiver_.has_report()) {
    Landed landed;
    const Status status = into.take_next(receiver_, &landed, &none);
    if (status == LWMQ_OK) continue;
    if (status == LWMQ_E_CORRUPT && !note_corrupt(landed)) {
      untold_.keep(status);
    } else if (is_peer_over(status) && (status != LWMQ_E_NO_MEMORY || landed.transport == nullptr)) {
      note_peer_gone();  // the report comes in order
    }
    return;
  }
}

// Where nothing is at hand; `in_hand`: the landing side is.
[[gnu::noinline]] Status Conversation::take_waiting(How how, bool in_hand, Into& into) {
  Status status = check_receiving(into.is_raw());
  const bool looks_in_vain =
      status == LWMQ_OK && in_hand && how.when_empty == WhenEmpty::kLook && sees_nothing();
  if (looks_in_vain) status = LWMQ_E_EMPTY;
  if (status != LWMQ_OK) {
    if (in_hand) landing_.release();
    return status;
  }
  status = take_first(how, in_hand, into);
  if (status != LWMQ_OK) return status;
  take_more(into);
  leave_landing();
  return LWMQ_OK;
}

template <typename Kind>
[[gnu::always_inline]] inline Status Conversation::take_landed(How how, Kind& into) {
  const bool in_hand =
      is_open() && into.is_raw() == settings_.raw && check_receives() == LWMQ_OK && landing_.try_take();
  if (in_hand) [[likely]] {
    const bool waits = how.timeout_ms != 0;
    const bool taken = !(waits && receiver_.is_chasing()) && into.take_run(receiver_);
    if (taken || (waits && into.take_soon(receiver_))) [[likely]] {
      leave_landing();
      return LWMQ_OK;
    }
  }
  return take_waiting(how, in_hand, into);
}

Status Conversation::take(How how, Messages& into) {
  return queue_ == nullptr ? take_landed(how, into) : take_queued(how, into);
}
Status Conversation::take(How how, Lent& into) { return take_landed(how, into); }
Status Conversation::take(How how, Buffer& into) { return take_landed(how, into); }

// ---- The descriptor ---------------------------------------------------------------------------------

// With the landing side in hand, before a receive answers that there is nothing: whoever polls will hear of
// what comes. False: something has come meanwhile.
bool Conversation::may_leave_empty(WhenEmpty when_empty) noexcept {
  if (when_empty == WhenEmpty::kLeave) return true;
  Descriptor* descriptor = shared_.descriptor.load(std::memory_order_relaxed);
  if (descriptor == nullptr && queue_ == nullptr) {
    say_received();
    return true;
  }
  if (descriptor != nullptr) descriptor->drain();
  return arm_transport();
}

// With the landing side in hand: whether a look at the transport shows that nothing is there. What was taken
// counts as read at the peer then.
bool Conversation::sees_nothing() noexcept {
  lwmq_tli_transport* transport = receiver_.transport();
  return transport != nullptr && !receiver_.has_arrivals() &&
         tli_->wait(transport, LWMQ_TLI_WAIT_EXTENT, 0) == LWMQ_E_TIMED_OUT;
}

// With the landing side in hand: who polls waits for more as well, so what it has counts as read at the peer.
void Conversation::say_received() noexcept {
  const std::uint64_t received = receiver_.messages();
  lwmq_tli_transport* transport = receiver_.transport();
  if (received == said_received_ || transport == nullptr || peer_gone_.load(std::memory_order_acquire))
    return;
  const Status status = tli_->wait(transport, LWMQ_TLI_WAIT_EXTENT, 0);
  if (status == LWMQ_E_TIMED_OUT) said_received_ = received;  // else it has seen something, and says nothing
}

// With the landing side in hand, behind a drain. False: something is there.
bool Conversation::arm_transport() noexcept {
  if ((queue_ != nullptr && !queue_->empty()) || receiver_.has_arrivals() || phase_.load() != Phase::kOpen)
    return false;
  lwmq_tli_transport* transport = receiver_.transport();
  if (transport == nullptr || peer_gone_.load(std::memory_order_acquire)) return true;  // what follows rings
  poll_transport();  // where descriptors were short before
  if (polled_fd_ >= 0) {
    const bool armed = tli_->arm(transport, LWMQ_TLI_WAIT_EXTENT) == 0;
    armed_.store(armed, std::memory_order_relaxed);
    return armed;
  }
  if (queue_ != nullptr) {  // the service thread looks now and then
    ask_service();
    return true;
  }
  shared_.ring();  // a transport that nobody can poll: whoever polls asks again and again
  return true;
}

bool Conversation::arm() noexcept {
  landing_.take();
  const bool armed = arm_transport();
  landing_.release();
  return armed;
}

// With the landing side in hand: what is attached is behind the descriptor, too; where there is a receive
// queue, the service thread looks at it.
void Conversation::poll_transport() noexcept {
  Descriptor* descriptor = shared_.descriptor.load(std::memory_order_relaxed);
  if ((descriptor == nullptr && queue_ == nullptr) || receiver_.transport() == nullptr || polled_fd_ >= 0)
    return;
  polled_fd_ = tli_->descriptor(receiver_.transport());
  if (polled_fd_ < 0) return;
  const Status status = queue_ != nullptr ? service::ServiceThread::attending().watch(&attend_, polled_fd_)
                                          : descriptor->add(polled_fd_);
  if (status != LWMQ_OK) polled_fd_ = -1;
}

// With the landing side in hand, before the transport is closed.
void Conversation::poll_transport_no_more() noexcept {
  if (polled_fd_ < 0) return;
  if (queue_ != nullptr) {
    service::ServiceThread::attending().unwatch(polled_fd_);
  } else {
    shared_.descriptor.load(std::memory_order_relaxed)->remove(polled_fd_);
  }
  polled_fd_ = -1;
}

Status Conversation::descriptor(std::int32_t* out_fd) {
  if (!is_usable()) return refuse_phase();
  if (const Status status = check_receives(); status != LWMQ_OK) return status;
  if (shared_.descriptor.load(std::memory_order_acquire) == nullptr) {
    landing_.take_before_others();  // a receiver that waits takes it again and again
    Status status = LWMQ_OK;
    if (shared_.descriptor_owner == nullptr) {
      std::unique_ptr<Descriptor> made(new (std::nothrow) Descriptor);
      status = made != nullptr
                   ? made->open()
                   : fail(LWMQ_E_NO_MEMORY, "no memory for a descriptor (%s)", settings_.address.c_str());
      if (status == LWMQ_OK) {
        shared_.descriptor_owner = std::move(made);
        shared_.descriptor.store(shared_.descriptor_owner.get(), std::memory_order_release);
        poll_transport();
      }
    }
    landing_.release();
    if (queue_ != nullptr) wake_follower();
    if (status != LWMQ_OK) return status;
  }
  *out_fd = shared_.descriptor.load(std::memory_order_relaxed)->fd();
  return LWMQ_OK;
}

Status Conversation::wait_peer(std::uint32_t timeout_ms, lwmq_peer* peer) {
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  for (;;) {
    const std::uint32_t seen = shared_.changes.load(std::memory_order_acquire);  // sync: change
    const bool is_last = phase_.load() > Phase::kOpen;                           // before the look
    lwmq_channel_statistics ignored{};
    bool connected = false;
    Status status = add_figures(&ignored, &connected);  // notices a peer that is gone
    lwmq_peer now{};
    if (status == LWMQ_OK) status = this->peer(&now);
    if (status != LWMQ_OK && status != LWMQ_E_EMPTY) return status;
    if (now.number != peer->number || now.connected != peer->connected) {
      *peer = now;
      return LWMQ_OK;
    }
    if (is_last) return refuse_phase();
    // Of a transport that nobody polls its end is no news.
    const std::int64_t until = now.connected != 0 ? os::now_ns() + kPeerLookNs : os::kNoDeadline;
    status = os::wait_for_change(seen, std::min(deadline, until), shared_.changes);
    if (status == LWMQ_E_TIMED_OUT && os::ms_left(deadline) > 0) continue;
    if (status != LWMQ_OK) return status;
  }
}

// With the pump in hand: for who asks while it is not free. Returns the state of the transport.
std::int32_t Conversation::note_unread(lwmq_tli_transport* transport) noexcept {
  lwmq_tli_figures figures{};
  const std::int32_t state = tli_->state(transport, &figures);
  free_buffers_seen_.store(figures.free_buffers, std::memory_order_relaxed);
  unread_seen_.store(figures.unread_extents, std::memory_order_relaxed);
  return state;
}

Status Conversation::add_figures(lwmq_channel_statistics* sums, bool* out_connected) {
  if (os::forked()) return refuse_phase();
  lwmq_tli_transport* transport = nullptr;
  bool connected = false;
  std::uint64_t unread_at_least = 0;
  if (is_closed()) {
    // Nobody is there, and nothing is to be shipped: the counters stay as they are.
  } else if (os::spin_until([this] { return pump_.try_take(); })) {
    transport = sender_.transport();
    if (transport != nullptr) {
      const std::int32_t state = note_unread(transport);
      connected = state == LWMQ_TLI_CONNECTED && !peer_gone_.load(std::memory_order_relaxed);
      if (!connected) note_peer_gone();
    }
    release_and_look();
  } else {
    // Somebody ships, and says now and then what is unread: there is a peer.
    connected = attached_.load(std::memory_order_relaxed) != nullptr;
    unread_at_least = 1;
  }
  *out_connected = connected;
  if (place_ == 0) {  // what is the channel's own
    sums->is_server = is_server_.load(std::memory_order_relaxed) ? 1 : 0;
    sums->messages_posted = settings_.raw ? sender_.messages() : scheduler_.posted();
    if (queue_ != nullptr) {
      sums->receive_queued = queue_->size();
      sums->receive_discarded = queue_->discarded();
    }
  }
  const std::uint64_t full = sender_.shipped_full();
  const std::uint64_t idle = sender_.shipped_idle();
  sums->messages_shipped += sender_.messages();
  sums->messages_received += receiver_.messages();
  sums->messages_lost += messages_lost_.load(std::memory_order_relaxed);
  sums->shipped_full += full;
  sums->shipped_idle += idle;
  sums->buffers_shipped += full + idle;
  sums->bytes_shipped += sender_.bytes();
  sums->bytes_received += receiver_.bytes();
  sums->messages_passed += sender_.messages_passed();
  sums->peers_lost += peers_lost_.load(std::memory_order_relaxed);
  sums->clients_refused += clients_refused_.load(std::memory_order_relaxed);
  if (connected) {
    sums->messages_unread += std::max(unread_seen_.load(std::memory_order_relaxed), unread_at_least);
    sums->buffers_free += free_buffers_seen_.load(std::memory_order_relaxed);
  }
  return LWMQ_OK;
}

}  // namespace lwmq::conversation
