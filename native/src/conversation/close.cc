// Flush, linger and close.
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "conversation/conversation.h"
#include "os/deadline.h"
#include "os/futex.h"
#include "os/identity.h"
#include "os/membarrier.h"

namespace lwmq::conversation {

namespace {

// Nothing tells when the peer has read, so a close looks again and again: often at first, then seldom.
constexpr std::int64_t kFirstPauseNs = 20'000;
constexpr std::int64_t kLongestPauseNs = 5 * os::kMillisecond;
constexpr std::uint32_t kRoomWaitMs = 5;  // other threads may want the pump meanwhile

}  // namespace

// One step: ships what can be shipped within `room_ms`, and says whether everything is shipped (and read by
// the peer). Takes the pump back from the service thread, because this thread waits for the same anyway.
Conversation::Drained Conversation::drain(bool also_read, std::uint32_t room_ms) noexcept {
  if (!pump_.try_take() && !pump_.adopt()) return Drained::kUnknown;  // another thread ships
  Drained drained = Drained::kNo;
  {
    Completions completions;
    Sent sent = pump(UINT64_MAX / 2, completions);
    const std::int64_t end = sent == Sent::kNoRoom ? os::now_ns() + room_ms * os::kMillisecond : 0;
    while (sent == Sent::kNoRoom && os::now_ns() < end) {
      const Status status = tli_.wait(sender_.transport(), LWMQ_TLI_WAIT_ROOM, room_ms);
      if (status == LWMQ_E_INTERRUPTED) drained = Drained::kInterrupted;
      if (status != LWMQ_OK) break;
      sent = pump(UINT64_MAX / 2, completions);
    }
    if (sent == Sent::kPeerGone) note_peer_gone();  // what is queued waits for the next peer
    codec::Encoding ignored;
    const bool empty = sent == Sent::kAll || !scheduler_.front(&ignored);
    if (for_one_peer_ && sender_.transport() == nullptr) {
      drained = Drained::kYes;  // no peer will come for what is left
    } else if (empty) {
      sender_.ship_idle();
      lwmq_tli_transport* transport = sender_.transport();
      if (!also_read || transport == nullptr) {
        drained = Drained::kYes;
      } else {
        lwmq_tli_figures figures{};
        const bool over = tli_.state(transport, &figures) != LWMQ_TLI_CONNECTED;
        drained = over || figures.unread_extents == 0 ? Drained::kYes : Drained::kNo;
      }
    }
    release_and_look();
  }
  return drained;
}

// LWMQ_OK, LWMQ_E_TIMED_OUT, LWMQ_E_INTERRUPTED.
Status Conversation::wait_drained(std::int64_t deadline, bool also_read) noexcept {
  std::int64_t pause_ns = kFirstPauseNs;
  for (;;) {
    const std::uint32_t seen = changes_.load(std::memory_order_acquire);  // sync: change
    const Drained drained = drain(also_read, std::min(os::ms_left(deadline), kRoomWaitMs));
    if (drained == Drained::kYes) return LWMQ_OK;
    if (drained == Drained::kInterrupted) return LWMQ_E_INTERRUPTED;
    const std::int64_t left = deadline == os::kNoDeadline ? kLongestPauseNs : deadline - os::now_ns();
    if (left <= 0) return LWMQ_E_TIMED_OUT;
    if (os::futex_wait(changes_, seen, std::min(pause_ns, left), os::Sleepers::kOfThisProcess) ==
        os::WaitResult::kInterrupted) {
      return LWMQ_E_INTERRUPTED;
    }
    pause_ns = std::min(pause_ns * 2, kLongestPauseNs);
  }
}

Status Conversation::flush(std::uint32_t timeout_ms) {
  const Inside inside(shared_);
  const Status status = check_open(raw_);
  return status != LWMQ_OK ? status : after_drain(wait_drained(os::deadline_of(timeout_ms), false));
}

Status Conversation::after_drain(Status status) const noexcept {
  const bool for_nobody = for_one_peer_ && attached_.load() == nullptr;
  return status == LWMQ_OK && (is_over() || for_nobody) ? refuse_phase() : status;
}

void Conversation::begin_close() noexcept {
  if (os::forked()) return;  // the parent does not hear of it either
  Phase open = Phase::kOpen;
  if (!phase_.compare_exchange_strong(open, Phase::kClosing)) return;
  wake_posters();
  announce();
}

void Conversation::reopen() noexcept {
  Phase closing = Phase::kClosing;
  if (phase_.compare_exchange_strong(closing, Phase::kOpen)) end_without_peer();  // sync: ended
}

// Where the only peer has gone: posts are refused from here on.
void Conversation::end_without_peer() noexcept {
  if (!for_one_peer_ || attached_.load() != nullptr) return;
  Phase open = Phase::kOpen;
  if (!phase_.compare_exchange_strong(open, Phase::kEnded)) return;  // sync: ended
  wake_posters();
  announce();
}

// While nothing is locked, because messages may be destroyed with the transport. Of a raw channel no buffer
// is given back meanwhile.
void Conversation::close_transport(lwmq_tli_transport* transport, std::uint64_t unsent) noexcept {
  if (raw_) take_pump();
  const auto kept = std::find_if(raw_kept_.begin(), raw_kept_.end(),
                                 [transport](const Kept& one) { return one.transport == transport; });
  tli_.close(transport, kept != raw_kept_.end() ? kept->lent : 0, unsent);
  if (raw_) release_and_look();
}

Status Conversation::close(std::uint32_t linger_ms, std::uint32_t lingered_ms) {
  if (os::forked()) return refuse_phase();
  const std::uint64_t lost_before = messages_lost_.load(std::memory_order_relaxed);
  if (phase_.load() == Phase::kClosed) return refuse_phase();
  begin_close();
  const bool lingers = phase_.load() == Phase::kClosing;
  const bool was_opened = phase_.load() != Phase::kCreated;
  const std::int64_t began_ns = os::now_ns();
  const Status lingered = lingers ? wait_drained(os::deadline_of(linger_ms), true) : LWMQ_E_TIMED_OUT;
  if (lingered == LWMQ_E_INTERRUPTED) {
    shared_.lingered_ns += os::now_ns() - began_ns;
    reopen();
    return LWMQ_E_INTERRUPTED;
  }
  if (attending_) {
    service::ServiceThread::attending().remove(&attend_);
    attending_ = false;
    give_up_meeting();
  }
  landing_.take();  // a thread that still waits in receive leaves within a slice
  take_pump();
  phase_.store(Phase::kClosed);
  lwmq_tli_transport* const transport = sender_.transport();
  std::uint64_t unread = 0;  // by the present peer, and by peers that have gone during the linger
  if (transport != nullptr) {
    sender_.ship_idle();
    if (tli_.state(transport, nullptr) != LWMQ_TLI_CONNECTED)
      receiver_.drain();  // its goodbye may be among it
    unread = count_unread(transport);
    const bool holds = shared_.redundant && shared_.merge->holds(place_);
    const std::uint64_t untaken = queue_ != nullptr ? queue_->size_of(place_) : holds ? 1 : 0;
    const std::uint64_t landed = receiver_.messages_from_peer();
    sender_.say_goodbye(landed - std::min(landed, untaken));
    shared_.peers.leave(place_);
    poll_transport_no_more();
    sender_.detach();
    receiver_.detach();
    attached_.store(nullptr, std::memory_order_release);
    keep_raw_lent(transport);
  }
  lwmq_tli_listener* listener = listener_.exchange(nullptr);
  if (listener != nullptr)
    service::ServiceThread::attending().unwatch(listener_tli_.descriptor(listener));  // if there is one
  std::uint64_t dropped = 0, untold = 0;
  {
    Completions completions;
    untold = receiver_.untold_losses();
    receiver_.clear(completions);
    if (queue_ != nullptr && place_ == 0) {  // the conversation that closes last
      untold += queue_->untold_losses();
      queue_->clear(completions);
    }
    dropped = drop_queued(completions);
    pump_.release();
    // A thread in the middle of a post either sees after it that the conversation is closed, and takes its
    // message back; or its message is here now.
    os::heavy_barrier_within();  // sync: last-post
    pump_.take();
    dropped += drop_queued(completions);
    pump_.release();
    landing_.release();
  }
  // A peer that hears of the end asks for the address at once, and must not find this listener there.
  if (listener != nullptr) listener_tli_.close(listener);
  if (transport != nullptr) close_transport(transport, dropped);
  changed();
  messages_lost_.fetch_add(unread + dropped, std::memory_order_relaxed);
  // Includes what was lost before: a peer may have gone just as this began, and the application has not
  // received that.
  unread = std::max(messages_lost_.load(std::memory_order_relaxed) - lost_before - dropped, unread + untold);
  if (unread + dropped == 0) return LWMQ_OK;
  // A linger ends before its time if no peer is left to read the rest.
  const bool ended =
      !lingers || lingered == LWMQ_OK || linger_ms == LWMQ_FOREVER || lingered_ms == LWMQ_FOREVER;
  const std::int64_t waited_ms = linger_ms + lingered_ms + shared_.lingered_ns / os::kMillisecond;
  char how[64];
  std::snprintf(how, sizeof how, "closed after a linger of %" PRId64 " ms", waited_ms);
  return fail(LWMQ_E_TIMED_OUT,
              "%s; %" PRIu64 " messages were dropped before they were shipped, and %" PRIu64
              " were shipped and not seen read (%s)",
              !was_opened ? "it was never opened"
              : ended     ? "the peer has gone"
                          : how,
              dropped, unread, address_.c_str());
}

}  // namespace lwmq::conversation
