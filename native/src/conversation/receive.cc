// Receiving; the descriptor; waiting for a peer.
#include <algorithm>
#include <csignal>
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

constexpr std::uint32_t how_to_land(std::uint32_t timeout_ms) noexcept {
  return timeout_ms != 0 ? LWMQ_TLI_LAND_SOON : LWMQ_TLI_LAND_NOW;
}

constexpr std::int64_t kPeerLookNs = 100 * os::kMillisecond;  // a loss is noticed within this time

}  // namespace

// The next extent of the conversation, with its waits; or, with a `loan`, what can be lent as it lies.
// `in_hand`: the caller holds the landing side. On LWMQ_OK it does, until it has what it wants of the extent.
// The end of a peer comes once, among the arrivals, from the service thread after it has retired the
// transport.
Status Conversation::receive_landed(std::uint32_t timeout_ms, bool in_hand, Landed* out_landed, Loan* loan) {
  std::int64_t deadline = 0;  // read at the first wait: the clock costs as much as a small message
  bool drained = false;       // the descriptor was drained, and then something was there: more may follow
  std::optional<Inside> inside;
  for (;;) {
    const std::uint32_t seen = changes_.load(std::memory_order_acquire);  // sync: change
    if (!std::exchange(in_hand, false)) landing_.take();
    std::unique_ptr<Report> report;
    const bool lent = loan != nullptr && receiver_.lend(*loan, LWMQ_TLI_LAND_NOW);
    Status status = lent ? LWMQ_OK : receiver_.next(out_landed, &report);
    if (status == LWMQ_OK) [[likely]] {
      if (deadline != 0 || drained) ring();  // this thread has waited in place of one that polls
      return LWMQ_OK;
    }
    lwmq_tli_transport* transport = receiver_.transport();
    if (report != nullptr || phase_.load() != Phase::kOpen) {
      if (drained) ring();
      if (!inside) inside.emplace(shared_);
      landing_.release();
      return report != nullptr ? report->say() : refuse_phase();
    }
    if (timeout_ms != 0 && deadline == 0) deadline = os::deadline_of(timeout_ms);
    const std::uint32_t left = timeout_ms == 0 ? 0 : os::ms_left(deadline);
    // If the transport is to be retired, the service thread needs the landing side. Then this thread waits
    // for the report.
    const bool waits_here = transport != nullptr && !peer_gone_.load(std::memory_order_acquire);
    if (status == LWMQ_E_EMPTY && waits_here && left > 0) {
      status = tli_.wait(transport, LWMQ_TLI_WAIT_EXTENT, std::min(left, os::kWaitSliceMs));
      in_hand = status == LWMQ_OK;
      if (!in_hand) {
        if (!inside) inside.emplace(shared_);
        landing_.release();
      }
      if (status == LWMQ_E_INTERRUPTED) {
        ring();
        return status;
      }
      continue;
    }
    if (status == LWMQ_E_CORRUPT)
      set_broken(status);  // of this peer: no other can take its place before the release
    if (is_peer_over(status)) note_peer_gone();
    const bool may_leave = left > 0 || may_leave_empty();
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
    status = os::wait_for_change(seen, deadline, changes_);
    if (status != LWMQ_OK) {
      ring();
      return status;
    }
  }
}

// ---- The descriptor ---------------------------------------------------------------------------------

// With the landing side in hand, before a receive answers that there is nothing: a thread that polls will see
// what comes. False: something has come meanwhile.
bool Conversation::may_leave_empty() noexcept {
  Descriptor* descriptor = descriptor_.load(std::memory_order_relaxed);
  if (descriptor == nullptr && queue_ == nullptr) {
    say_received();
    return true;
  }
  if (shared_.several) return true;  // a receive from all of them arms all of them
  if (descriptor != nullptr) descriptor->drain();
  return arm_transport();
}

// With the landing side in hand: a thread that polls is done with what it received, so the peer is told that
// it was read.
void Conversation::say_received() noexcept {
  const std::uint64_t received = receiver_.messages();
  lwmq_tli_transport* transport = receiver_.transport();
  if (received == said_received_ || transport == nullptr || peer_gone_.load(std::memory_order_acquire))
    return;
  const Status status = tli_.wait(transport, LWMQ_TLI_WAIT_EXTENT, 0);
  if (status == LWMQ_E_TIMED_OUT) said_received_ = received;  // else nothing was told
}

// With the landing side in hand, after a drain. False: something is there.
bool Conversation::arm_transport() noexcept {
  if ((queue_ != nullptr && !queue_->empty()) || receiver_.has_arrivals() || phase_.load() != Phase::kOpen)
    return false;
  lwmq_tli_transport* transport = receiver_.transport();
  if (transport == nullptr || peer_gone_.load(std::memory_order_acquire)) return true;  // what follows rings
  poll_transport();  // in case descriptors were short before
  if (polled_fd_ >= 0) {
    const bool armed = tli_.arm(transport, LWMQ_TLI_WAIT_EXTENT) == 0;
    armed_.store(armed, std::memory_order_relaxed);
    return armed;
  }
  if (queue_ != nullptr) {  // the service thread looks now and then
    request_attention();
    return true;
  }
  ring();  // the transport has no descriptor: a thread that polls asks again and again
  return true;
}

bool Conversation::arm() noexcept {
  landing_.take();
  const bool armed = arm_transport();
  landing_.release();
  return armed;
}

// With the landing side in hand: adds the attached transport to the descriptor. If there is a receive queue,
// the service thread polls the transport.
void Conversation::poll_transport() noexcept {
  Descriptor* descriptor = descriptor_.load(std::memory_order_relaxed);
  if ((descriptor == nullptr && queue_ == nullptr) || receiver_.transport() == nullptr || polled_fd_ >= 0)
    return;
  polled_fd_ = tli_.descriptor(receiver_.transport());
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
    descriptor_.load(std::memory_order_relaxed)->remove(polled_fd_);
  }
  polled_fd_ = -1;
}

Status Conversation::descriptor(std::int32_t* out_fd) {
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

Status Conversation::receive(std::uint32_t timeout_ms, std::uint32_t limit, Message** out_messages,
                             std::uint32_t* out_count) {
  const bool in_hand = check_open(false) == LWMQ_OK && queue_ == nullptr && landing_.try_take();
  if (in_hand) [[likely]] {
    const std::uint32_t taken = receiver_.take_run(limit, how_to_land(timeout_ms), out_messages);
    if (taken > 0) [[likely]] {
      leave_landing();
      *out_count = taken;
      return LWMQ_OK;
    }
  }
  return receive_waiting(timeout_ms, limit, in_hand, out_messages, out_count);
}

Conversation::Glance Conversation::glance(Message** out_message) noexcept {
  if (check_open(false) != LWMQ_OK || queue_ != nullptr || shared_.several || !landing_.try_take())
    return Glance::kMore;
  Glance seen = Glance::kMore;
  if (receiver_.take_run(1, LWMQ_TLI_LAND_NOW, out_message) == 1) {
    seen = Glance::kMessage;
  } else if (lwmq_tli_transport* transport = receiver_.transport();
             transport != nullptr && !receiver_.has_arrivals() &&
             tli_.wait(transport, LWMQ_TLI_WAIT_EXTENT, 0) == LWMQ_E_TIMED_OUT) {
    seen = Glance::kNothing;
  }
  if (seen == Glance::kMessage) note_activity();
  landing_.release();
  return seen;
}

// As receive_landed: on LWMQ_OK the landing side is in hand.
Status Conversation::receive_one(std::uint32_t timeout_ms, bool in_hand, Message** out_message, Loan* loan) {
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
    // Nothing of this peer can be trusted any more. Its conversation ends here. The report comes in order.
    receiver_.uncount(landed);
    const bool present = receiver_.transport() == landed.transport;
    if (present) set_broken(status);
    if (!inside) inside.emplace(shared_);
    landing_.release();
    if (!present) return status;
    note_peer_gone();
  }
}

// Whether a receive may wait. `in_hand`: the caller holds the landing side, which is released if it may not.
Status Conversation::admit_waiting(bool in_hand, bool raw) {
  const Status status = check_receiving(raw);
  if (status != LWMQ_OK && in_hand) landing_.release();
  return status;
}

// If no small message has landed. `in_hand`: the caller holds the landing side.
[[gnu::noinline]] Status Conversation::receive_waiting(std::uint32_t timeout_ms, std::uint32_t limit,
                                                       bool in_hand, Message** out_messages,
                                                       std::uint32_t* out_count) {
  Status status = admit_waiting(in_hand, false);
  if (status != LWMQ_OK) return status;
  if (queue_ != nullptr) return receive_queued(timeout_ms, limit, out_messages, out_count);
  status = receive_one(timeout_ms, in_hand, out_messages);
  if (status != LWMQ_OK) return status;
  *out_count = limit > 1 ? 1 + receive_more(limit - 1, out_messages + 1) : 1;
  leave_landing();
  return LWMQ_OK;
}

// With the landing side in hand: more messages after one that was received, up to the first thing that is no
// message.
std::uint32_t Conversation::receive_more(std::uint32_t limit, Message** out_messages) {
  std::uint32_t count = 0;
  Status status = LWMQ_OK;
  while (count < limit && !receiver_.has_report()) {
    const std::uint32_t more = receiver_.take_run(limit - count, LWMQ_TLI_LAND_NOW, out_messages + count);
    if (more > 0) {
      count += more;
      continue;
    }
    Landed landed;
    std::unique_ptr<Report> none;  // has_report has said that there is none
    status = receiver_.next(&landed, &none);
    if (status != LWMQ_OK) break;
    status = receiver_.decode(landed, &out_messages[count]);
    if (status == LWMQ_E_NO_MEMORY) receiver_.put_back(landed);  // for the next call
    if (status == LWMQ_E_CORRUPT) receiver_.uncount(landed);
    if (status != LWMQ_OK) break;
    ++count;
  }
  if (status == LWMQ_E_CORRUPT) set_broken(status);
  if (status != LWMQ_E_NO_MEMORY && is_peer_over(status)) note_peer_gone();  // the report comes in order
  return count;
}

Status Conversation::receive(std::uint32_t timeout_ms, Loan& loan) {
  const bool in_hand = landing_.try_take();
  if (in_hand) [[likely]] {
    if (receiver_.lend(loan, how_to_land(timeout_ms))) [[likely]] {
      leave_landing();
      return LWMQ_OK;
    }
  }
  return receive_waiting(timeout_ms, in_hand, loan);
}

// If nothing could be lent as it lies. After a message that could not be lent, others may be lent.
[[gnu::noinline]] Status Conversation::receive_waiting(std::uint32_t timeout_ms, bool in_hand, Loan& loan) {
  Status status = admit_waiting(in_hand, false);
  if (status != LWMQ_OK) return status;
  status = receive_one(timeout_ms, in_hand, loan.next_message(), &loan);
  if (status != LWMQ_OK) return status;
  for (std::uint32_t count = loan.count() > 0 ? 0 : 1; count > 0;) {
    loan.note_messages(count);
    receiver_.lend(loan, LWMQ_TLI_LAND_NOW);
    count = loan.left() > 0 ? receive_more(1, loan.next_message()) : 0;
  }
  leave_landing();
  return LWMQ_OK;
}

Status Conversation::wait_connected(std::uint32_t timeout_ms) {
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
    if (status == LWMQ_E_TIMED_OUT) return nobody_came();
    if (status != LWMQ_OK) return status;
  }
}

Status Conversation::wait_peer(std::uint32_t timeout_ms, lwmq_peer* peer) {
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
    // The end of a transport without a descriptor is not announced, so this looks again.
    const std::int64_t until = now.connected != 0 ? os::now_ns() + kPeerLookNs : os::kNoDeadline;
    status = os::wait_for_change(seen, std::min(deadline, until), changes_);
    if (status == LWMQ_E_TIMED_OUT && os::ms_left(deadline) > 0) continue;
    if (status != LWMQ_OK) return status;
  }
}

// With the pump in hand: for threads that ask while another holds the pump.
void Conversation::note_unread(lwmq_tli_transport* transport) noexcept {
  lwmq_tli_figures figures{};
  tli_.state(transport, &figures);
  free_buffers_seen_.store(figures.free_buffers, std::memory_order_relaxed);
  unread_seen_.store(figures.unread_extents, std::memory_order_relaxed);
}

Status Conversation::query(lwmq_channel_statistics* out_statistics) {
  if (os::forked()) return refuse_phase();
  lwmq_tli_transport* transport = nullptr;
  std::uint32_t connected = 0;
  std::uint64_t unread_at_least = 0;
  if (phase_.load() == Phase::kClosed) {
    // No peer is there and nothing is to be shipped. The counters keep their values.
  } else if (os::spin_until([this] { return pump_.try_take(); })) {
    transport = sender_.transport();
    if (transport != nullptr) {
      connected =
          tli_.state(transport, nullptr) == LWMQ_TLI_CONNECTED && !peer_gone_.load(std::memory_order_relaxed);
      note_unread(transport);
      if (connected == 0) note_peer_gone();
    }
    release_and_look();
  } else {
    // Another thread ships, and notes now and then what is unread: there is a peer.
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

}  // namespace lwmq::conversation
