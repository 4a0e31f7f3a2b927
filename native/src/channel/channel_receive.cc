// Receiving, and waiting for what others change.
#include <algorithm>
#include <csignal>
#include <new>
#include <optional>
#include <utility>

#include "channel/channel.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/identity.h"
#include "os/spin.h"

namespace lwmq::channel {

namespace {

constexpr std::int64_t kPeerLookNs = 100 * os::kMillisecond;  // in which a loss is noticed

}  // namespace

// The next extent of the conversation, with its waits; `in_hand`: the landing side is. LWMQ_OK: it is still,
// until the caller has what it wants of the extent. Or what can be lent as it lies, where there is a `loan`.
// What is said of the peer comes once, among the arrivals, from the service thread when it has retired the
// transport.
Status Channel::receive_landed(std::uint32_t timeout_ms, bool in_hand, Landed* out_landed, Loan* loan) {
  std::int64_t deadline = 0;  // computed when we first wait: the clock costs as much as a small message
  bool drained = false;       // the descriptor, and then something was there: more may be behind it
  std::optional<Inside> inside;
  for (;;) {
    const std::uint32_t seen = changes_.load(std::memory_order_acquire);  // sync: change
    if (!std::exchange(in_hand, false)) landing_.take();
    std::unique_ptr<Report> report;
    const bool lent = loan != nullptr && receiver_.lend(*loan);
    Status status = lent ? LWMQ_OK : receiver_.next(out_landed, &report);
    if (status == LWMQ_OK) [[likely]] {
      if (deadline != 0 || drained) ring();  // our wait has taken the place of whoever polls
      return LWMQ_OK;
    }
    lwmq_tli_transport* transport = receiver_.transport();
    if (report != nullptr || phase_.load() != Phase::kOpen) {
      if (drained) ring();
      if (!inside) inside.emplace(*this);
      landing_.release();
      return report != nullptr ? report->say() : refuse_phase();
    }
    if (timeout_ms != 0 && deadline == 0) deadline = os::deadline_of(timeout_ms);
    const std::uint32_t left = timeout_ms == 0 ? 0 : os::ms_left(deadline);
    // Where the transport is to be retired, the service thread needs what we hold: then we wait for its
    // report.
    const bool waits_here = transport != nullptr && !peer_gone_.load(std::memory_order_acquire);
    if (status == LWMQ_E_EMPTY && waits_here && left > 0) {
      status = tli_->wait(transport, LWMQ_TLI_WAIT_EXTENT, std::min(left, os::kWaitSliceMs));
      in_hand = status == LWMQ_OK;
      if (!in_hand) {
        if (!inside) inside.emplace(*this);
        landing_.release();
      }
      if (status == LWMQ_E_INTERRUPTED) {
        ring();
        return status;
      }
      continue;
    }
    if (status == LWMQ_E_CORRUPT)
      set_broken(status);  // of this peer: nobody takes its place before the release
    if (is_peer_over(status)) note_peer_gone();
    const bool may_leave = left > 0 || may_leave_empty();
    if ((left > 0 || !may_leave) && !inside) inside.emplace(*this);
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
    status = os::wait_for_change(seen, deadline, changes_);
    if (status != LWMQ_OK) {
      ring();
      return status;
    }
  }
}

// ---- The descriptor ---------------------------------------------------------------------------------

// With the landing side in hand, before a receive answers that there is nothing: whoever polls will hear of
// what comes. False: something has come meanwhile.
bool Channel::may_leave_empty() noexcept {
  Descriptor* descriptor = descriptor_.load(std::memory_order_relaxed);
  if (descriptor == nullptr && queue_ == nullptr) {
    say_received();
    return true;
  }
  if (is_one_of_several()) return true;  // who receives from all of them arms all of them
  if (descriptor != nullptr) descriptor->drain();
  return arm_transport();
}

// With the landing side in hand: who polls waits for more as well, so what it has counts as read at the peer.
void Channel::say_received() noexcept {
  const std::uint64_t received = receiver_.messages();
  lwmq_tli_transport* transport = receiver_.transport();
  if (received == said_received_ || transport == nullptr || peer_gone_.load(std::memory_order_acquire))
    return;
  const Status status = tli_->wait(transport, LWMQ_TLI_WAIT_EXTENT, 0);
  if (status == LWMQ_E_TIMED_OUT) said_received_ = received;  // else it has seen something, and says nothing
}

// With the landing side in hand, behind a drain. False: something is there.
bool Channel::arm_transport() noexcept {
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
    service::ServiceThread::attending().request(&attend_);
    return true;
  }
  ring();  // a transport that nobody can poll: whoever polls asks again and again
  return true;
}

// With the landing side in hand: what is attached is behind the descriptor, too; where there is a receive
// queue, the service thread looks at it.
void Channel::poll_transport() noexcept {
  Descriptor* descriptor = descriptor_.load(std::memory_order_relaxed);
  if ((descriptor == nullptr && queue_ == nullptr) || receiver_.transport() == nullptr || polled_fd_ >= 0)
    return;
  polled_fd_ = tli_->descriptor(receiver_.transport());
  if (polled_fd_ < 0) return;
  const Status status = queue_ != nullptr ? service::ServiceThread::attending().watch(&attend_, polled_fd_)
                                          : descriptor->add(polled_fd_);
  if (status != LWMQ_OK) polled_fd_ = -1;
}

// With the landing side in hand, before the transport is closed.
void Channel::poll_transport_no_more() noexcept {
  if (polled_fd_ < 0) return;
  if (queue_ != nullptr) {
    service::ServiceThread::attending().unwatch(polled_fd_);
  } else {
    descriptor_.load(std::memory_order_relaxed)->remove(polled_fd_);
  }
  polled_fd_ = -1;
}

Status Channel::descriptor(std::int32_t* out_fd) {
  if (os::forked() || phase_.load() >= Phase::kClosing) return refuse_phase();
  if (const Status status = check_receives(); status != LWMQ_OK) return status;
  if (descriptor_.load(std::memory_order_acquire) == nullptr) {
    landing_.take_before_others();  // a receiver that waits takes it again and again
    Status status = LWMQ_OK;
    if (descriptor_owner_ == nullptr) {
      std::unique_ptr<Descriptor> made(new (std::nothrow) Descriptor);
      status = made != nullptr ? made->open()
                               : fail(LWMQ_E_NO_MEMORY, "no memory for a descriptor (%s)", address_.c_str());
      if (status == LWMQ_OK) {
        descriptor_owner_ = std::move(made);
        descriptor_.store(descriptor_owner_.get(), std::memory_order_release);
        poll_transport();
      }
    }
    landing_.release();
    if (queue_ != nullptr) wake_follower();
    if (status != LWMQ_OK) return status;
  }
  *out_fd = descriptor_.load(std::memory_order_relaxed)->fd();
  return LWMQ_OK;
}

Status Channel::notify(lwmq_on_message callback, std::int32_t signal, void* context) {
  if (os::forked()) return refuse_phase();
  const bool ends = callback == nullptr && signal == 0;
  if (Notice* around = Notice::around(this); around != nullptr) {
    if (!ends)
      return fail(LWMQ_E_INVALID, "a call-back may end its calls, not put another in its place (%s)",
                  address_.c_str());
    around->end_after_this();
    return LWMQ_OK;
  }
  if (!ends) {
    if (const Status status = check_open_or_ended(false); status != LWMQ_OK) return status;
    if (callback == nullptr && (signal < SIGRTMIN || signal > SIGRTMAX))
      return fail(LWMQ_E_INVALID, "signal %d is no real-time signal: there are %d to %d (%s)", signal,
                  SIGRTMIN, SIGRTMAX, address_.c_str());
  }
  const std::lock_guard lock(notice_mutex_);
  if (notice_ != nullptr) {
    notice_->end();
    notice_.reset();
  }
  if (ends) return LWMQ_OK;
  auto made = callback != nullptr
                  ? std::make_unique<Notice>(this, callback, context)
                  : std::make_unique<Notice>(this, signal, reinterpret_cast<std::uintptr_t>(context));
  const Status status = made->begin();
  if (status == LWMQ_OK) notice_ = std::move(made);
  return status;
}

Status Channel::receive(std::uint32_t timeout_ms, std::uint32_t limit, Message** out_messages,
                        std::uint32_t* out_count) {
  const bool in_hand = check_open(false) == LWMQ_OK && queue_ == nullptr && landing_.try_take();
  if (in_hand) [[likely]] {
    const bool waits = timeout_ms != 0;
    std::uint32_t taken = waits && receiver_.is_chasing() ? 0 : receiver_.take_run(limit, out_messages);
    if (taken == 0 && waits && receiver_.take_soon(out_messages))
      taken = limit > 1 ? 1 + receiver_.take_run(limit - 1, out_messages + 1) : 1;
    if (taken > 0) [[likely]] {
      leave_landing();
      *out_count = taken;
      return LWMQ_OK;
    }
  }
  return receive_waiting(timeout_ms, limit, in_hand, out_messages, out_count);
}

Channel::Glance Channel::glance(Message** out_message) noexcept {
  if (check_open(false) != LWMQ_OK || queue_ != nullptr || is_one_of_several() || !landing_.try_take())
    return Glance::kMore;
  Glance seen = Glance::kMore;
  if (receiver_.take_run(1, out_message) == 1) {
    seen = Glance::kMessage;
  } else if (lwmq_tli_transport* transport = receiver_.transport();
             transport != nullptr && !receiver_.has_arrivals() &&
             tli_->wait(transport, LWMQ_TLI_WAIT_EXTENT, 0) == LWMQ_E_TIMED_OUT) {
    seen = Glance::kNothing;
  }
  if (seen == Glance::kMessage) note_activity();
  landing_.release();
  return seen;
}

// As receive_landed: LWMQ_OK with the landing side in hand.
Status Channel::receive_one(std::uint32_t timeout_ms, bool in_hand, Message** out_message, Loan* loan) {
  std::optional<Inside> inside;
  for (;; in_hand = false) {
    Landed landed;
    Status status = receive_landed(timeout_ms, in_hand, &landed, loan);
    if (status != LWMQ_OK || (loan != nullptr && loan->count() > 0)) return status;
    status = receiver_.decode(landed, out_message);
    if (status == LWMQ_OK) [[likely]]
      return LWMQ_OK;
    if (status == LWMQ_E_NO_MEMORY) {
      receiver_.put_back(landed);
      landing_.release();
      return status;
    }
    // Nothing that this peer says can be believed any more. Its conversation ends here; the report
    // comes in order.
    receiver_.uncount(landed);
    const bool present = receiver_.transport() == landed.transport;
    if (present) set_broken(status);
    if (!inside) inside.emplace(*this);
    landing_.release();
    if (!present) return status;
    note_peer_gone();
  }
}

// Whether a receive may wait; `in_hand`: the landing side is, and it is given up where it may not.
Status Channel::admit_waiting(bool in_hand, bool raw) {
  const Status status = check_receiving(raw);
  if (status != LWMQ_OK && in_hand) landing_.release();
  return status;
}

// Where no small message has landed; `in_hand`: the landing side is.
[[gnu::noinline]] Status Channel::receive_waiting(std::uint32_t timeout_ms, std::uint32_t limit, bool in_hand,
                                                  Message** out_messages, std::uint32_t* out_count) {
  Status status = admit_waiting(in_hand, false);
  if (status != LWMQ_OK) return status;
  if (queue_ != nullptr) return receive_queued(timeout_ms, limit, out_messages, out_count);
  status = receive_one(timeout_ms, in_hand, out_messages);
  if (status != LWMQ_OK) return status;
  *out_count = limit > 1 ? 1 + receive_more(limit - 1, out_messages + 1) : 1;
  leave_landing();
  return LWMQ_OK;
}

// With the landing side in hand: what has come behind a message that was received, up to the first thing
// that is no message.
std::uint32_t Channel::receive_more(std::uint32_t limit, Message** out_messages) {
  std::uint32_t count = 0;
  Status status = LWMQ_OK;
  while (count < limit && !receiver_.has_report()) {
    if (const std::uint32_t more = receiver_.take_run(limit - count, out_messages + count); more > 0) {
      count += more;
      continue;
    }
    Landed landed;
    std::unique_ptr<Report> none;  // has_report said so
    status = receiver_.next(&landed, &none);
    if (status != LWMQ_OK) break;
    status = receiver_.decode(landed, &out_messages[count]);
    if (status == LWMQ_E_NO_MEMORY) receiver_.put_back(landed);  // the next call's
    if (status == LWMQ_E_CORRUPT) receiver_.uncount(landed);
    if (status != LWMQ_OK) break;
    ++count;
  }
  if (status == LWMQ_E_CORRUPT) set_broken(status);
  if (status != LWMQ_E_NO_MEMORY && is_peer_over(status)) note_peer_gone();  // the report comes in order
  return count;
}

Status Channel::receive(std::uint32_t timeout_ms, Loan& loan) {
  const bool in_hand = landing_.try_take();
  if (in_hand) [[likely]] {
    const bool waits = timeout_ms != 0;
    const bool lent = !(waits && receiver_.is_chasing()) && receiver_.lend(loan);
    if (lent || (waits && receiver_.lend_soon(loan))) [[likely]] {
      leave_landing();
      return LWMQ_OK;
    }
  }
  return receive_waiting(timeout_ms, in_hand, loan);
}

// Where nothing could be lent as it lies. Behind a message that could not there may be what can.
[[gnu::noinline]] Status Channel::receive_waiting(std::uint32_t timeout_ms, bool in_hand, Loan& loan) {
  Status status = admit_waiting(in_hand, false);
  if (status != LWMQ_OK) return status;
  status = receive_one(timeout_ms, in_hand, loan.next_message(), &loan);
  if (status != LWMQ_OK) return status;
  for (std::uint32_t count = loan.count() > 0 ? 0 : 1; count > 0;) {
    loan.note_messages(count);
    receiver_.lend(loan);
    count = loan.left() > 0 ? receive_more(1, loan.next_message()) : 0;
  }
  leave_landing();
  return LWMQ_OK;
}

Status Channel::wait_connected(std::uint32_t timeout_ms) {
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  for (;;) {
    const std::uint32_t seen = changes_.load(std::memory_order_acquire);  // sync: change
    if (phase_.load() != Phase::kOpen || os::forked()) return refuse_phase();
    lwmq_channel_statistics now{};
    now.size = sizeof now;
    Status status = query(&now);  // also notices a peer that is gone
    if (status != LWMQ_OK) return status;
    if (now.connected != 0) return LWMQ_OK;
    status = connect_failure();
    if (status == LWMQ_OK) status = os::wait_for_change(seen, deadline, changes_);
    if (status != LWMQ_OK) return status;
  }
}

Status Channel::wait_peer(std::uint32_t timeout_ms, lwmq_peer* peer) {
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  for (;;) {
    const std::uint32_t seen = changes_.load(std::memory_order_acquire);  // sync: change
    const bool is_last = phase_.load() > Phase::kOpen;                    // before the look
    lwmq_channel_statistics looked{};
    looked.size = sizeof looked;
    Status status = query(&looked);  // notices a peer that is gone
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
    status = os::wait_for_change(seen, std::min(deadline, until), changes_);
    if (status == LWMQ_E_TIMED_OUT && os::ms_left(deadline) > 0) continue;
    if (status != LWMQ_OK) return status;
  }
}

// With the pump in hand: for who asks while it is not free. Returns the state of the transport.
std::int32_t Channel::note_unread(lwmq_tli_transport* transport) noexcept {
  lwmq_tli_figures figures{};
  const std::int32_t state = tli_->state(transport, &figures);
  free_buffers_seen_.store(figures.free_buffers, std::memory_order_relaxed);
  unread_seen_.store(figures.unread_extents, std::memory_order_relaxed);
  return state;
}

Status Channel::query(lwmq_channel_statistics* out_statistics) {
  if (os::forked()) return refuse_phase();
  lwmq_tli_transport* transport = nullptr;
  std::uint32_t connected = 0;
  std::uint64_t unread_at_least = 0;
  if (phase_.load() == Phase::kClosed) {
    // Nobody is there, and nothing is to be shipped: the counters stay as they are.
  } else if (os::spin_until([this] { return pump_.try_take(); })) {
    transport = sender_.transport();
    if (transport != nullptr) {
      const std::int32_t state = note_unread(transport);
      connected = state == LWMQ_TLI_CONNECTED && !peer_gone_.load(std::memory_order_relaxed);
      if (connected == 0) note_peer_gone();
    }
    release_and_look();
  } else {
    // Somebody ships, and says now and then what is unread: there is a peer.
    connected = attached_.load(std::memory_order_relaxed) != nullptr ? 1 : 0;
    unread_at_least = 1;
  }
  out_statistics->connected = connected;
  out_statistics->is_server = is_server_.load(std::memory_order_relaxed) ? 1 : 0;
  out_statistics->messages_posted = raw_ ? sender_.messages() : scheduler_.posted();
  out_statistics->messages_shipped = sender_.messages();
  out_statistics->messages_received = receiver_.messages();
  out_statistics->messages_lost = messages_lost_.load(std::memory_order_relaxed);
  out_statistics->shipped_full = sender_.shipped_full();
  out_statistics->shipped_idle = sender_.shipped_idle();
  out_statistics->buffers_shipped = out_statistics->shipped_full + out_statistics->shipped_idle;
  out_statistics->bytes_shipped = sender_.bytes();
  out_statistics->bytes_received = receiver_.bytes();
  out_statistics->messages_passed = sender_.messages_passed();
  out_statistics->peers_lost = peers_lost_.load(std::memory_order_relaxed);
  out_statistics->clients_refused = clients_refused_.load(std::memory_order_relaxed);
  if (queue_ != nullptr) {
    out_statistics->receive_queued = queue_->size();
    out_statistics->receive_discarded = queue_->discarded();
  }
  out_statistics->messages_unread =
      connected != 0 ? std::max(unread_seen_.load(std::memory_order_relaxed), unread_at_least) : 0;
  out_statistics->buffers_free = connected != 0 ? free_buffers_seen_.load(std::memory_order_relaxed) : 0;
  return LWMQ_OK;
}

}  // namespace lwmq::channel
