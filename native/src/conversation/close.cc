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

// What the peer has read cannot be waited for: we look, at first often, then seldom.
constexpr std::int64_t kFirstPauseNs = 20'000;
constexpr std::int64_t kLongestPauseNs = 5 * os::kMillisecond;
constexpr std::uint32_t kRoomWaitMs = 5;  // others may want the pump meanwhile

}  // namespace

// One step: ships what can be shipped within `room_ms`, and says whether all of it is out (and read by the
// peer). What was handed to the service thread we take back: who waits for the end of it may as well do it.
Conversation::Drained Conversation::drain(bool also_read, std::uint32_t room_ms) noexcept {
  if (!pump_.try_take() && !pump_.adopt()) return Drained::kUnknown;  // somebody ships
  Drained drained = Drained::kNo;
  {
    Completions completions;
    Sent sent = pump(UINT64_MAX / 2, completions);
    const std::int64_t end = sent == Sent::kNoRoom ? os::now_ns() + room_ms * os::kMillisecond : 0;
    while (sent == Sent::kNoRoom && os::now_ns() < end) {
      const Status status = tli_->wait(sender_.transport(), LWMQ_TLI_WAIT_ROOM, room_ms);
      if (status == LWMQ_E_INTERRUPTED) drained = Drained::kInterrupted;
      if (status != LWMQ_OK) break;
      sent = pump(UINT64_MAX / 2, completions);
    }
    if (sent == Sent::kPeerGone) note_peer_gone();  // what is queued waits for the next one
    codec::Encoding ignored;
    const bool empty = sent == Sent::kAll || !scheduler_.front(&ignored);
    if (for_one_peer_ && sender_.transport() == nullptr) {
      drained = Drained::kYes;  // nobody will come for what is left
    } else if (empty) {
      sender_.ship_idle();
      lwmq_tli_transport* transport = sender_.transport();
      if (!also_read || transport == nullptr) {
        drained = Drained::kYes;
      } else {
        lwmq_tli_figures figures{};
        const bool over = tli_->state(transport, &figures) != LWMQ_TLI_CONNECTED;
        drained = over || figures.unread_extents == 0 ? Drained::kYes : Drained::kNo;
      }
    }
    release_and_look();
  }
  return drained;
}

Status Conversation::wait_drained(std::int64_t deadline, bool also_read) noexcept {
  std::int64_t pause_ns = kFirstPauseNs;
  for (;;) {
    const std::uint32_t seen = shared_.changes.load(std::memory_order_acquire);  // sync: change
    const Drained drained = drain(also_read, std::min(os::ms_left(deadline), kRoomWaitMs));
    if (drained == Drained::kYes) return LWMQ_OK;
    if (drained == Drained::kInterrupted) return LWMQ_E_INTERRUPTED;
    const std::int64_t left = deadline == os::kNoDeadline ? kLongestPauseNs : deadline - os::now_ns();
    if (left <= 0) return LWMQ_E_TIMED_OUT;
    if (os::futex_wait(shared_.changes, seen, std::min(pause_ns, left), os::Sleepers::kOfThisProcess) ==
        os::WaitResult::kInterrupted) {
      return LWMQ_E_INTERRUPTED;
    }
    pause_ns = std::min(pause_ns * 2, kLongestPauseNs);
  }
}

Status Conversation::after_drain(Status status) const noexcept {
  const bool for_nobody = for_one_peer_ && attached_.load() == nullptr;
  return status == LWMQ_OK && (is_over() || for_nobody) ? refuse_phase() : status;
}

void Conversation::begin_close() noexcept {
  if (os::forked()) return;  // nor does the parent hear of it
  lost_before_close_.store(messages_lost_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  Phase open = Phase::kOpen;
  if (!phase_.compare_exchange_strong(open, Phase::kClosing)) return;
  wake_posters();
  shared_.announce();
}

void Conversation::reopen() noexcept {
  Phase closing = Phase::kClosing;
  if (phase_.compare_exchange_strong(closing, Phase::kOpen)) end_without_peer();  // sync: ended
}

// Of a channel for one peer, when that has gone: posts are refused from here on.
void Conversation::end_without_peer() noexcept {
  if (!for_one_peer_ || attached_.load() != nullptr) return;
  Phase open = Phase::kOpen;
  if (!phase_.compare_exchange_strong(open, Phase::kEnded)) return;  // sync: ended
  wake_posters();
  shared_.announce();
}

// When nothing is locked: messages may go with it. Of a raw one nobody gives a buffer back meanwhile.
void Conversation::close_transport(lwmq_tli_transport* transport, std::uint64_t unsent) noexcept {
  if (!settings_.raw) return tli_->close(transport, 0, unsent);
  take_pump();
  tli_->close(transport, raw_lent_of(transport), unsent);
  release_and_look();
}

Status Conversation::close(bool has_ended, std::int64_t waited_ms) {
  if (os::forked() || is_closed()) return refuse_phase();
  const bool was_opened = !is_created();
  has_ended = has_ended || !is_closing();
  if (attending_) {
    service::ServiceThread::connecting().remove(&connect_);
    service::ServiceThread::attending().remove(&attend_);
    attending_ = false;
    cancel_attempt();
  }
  landing_.take();  // a thread of the application that still waits in receive leaves within a slice
  take_pump();
  phase_.store(Phase::kClosed);
  lwmq_tli_transport* const transport = sender_.transport();
  std::uint64_t unread = 0;  // by the peer that is here, and by those that have gone while we lingered
  if (transport != nullptr) {
    sender_.ship_idle();
    if (tli_->state(transport, nullptr) != LWMQ_TLI_CONNECTED)
      receiver_.drain();  // its last words may be among it
    lwmq_tli_figures figures{};
    tli_->state(transport, &figures);
    unread = count_unread(figures.unread_extents);
    const bool holds = is_redundant() && shared_.merge->holds(place_);
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
    service::ServiceThread::attending().unwatch(provider_->listener->descriptor(listener));  // if it has one
  std::uint64_t dropped = 0, untold = 0;
  {
    Completions completions;
    untold = receiver_.untold_losses();
    receiver_.clear(completions);
    if (queue_ != nullptr && place_ == 0) {  // the first, which closes last
      untold += queue_->untold_losses();
      queue_->clear(completions);
    }
    dropped = drop_queued(completions);
    pump_.release();
    // Who was in the middle of a post either sees behind it that the channel is closed, and takes its message
    // back, or its message is here now.
    os::heavy_barrier_within();  // sync: last-post
    pump_.take();
    dropped += drop_queued(completions);
    pump_.release();
    landing_.release();
  }
  // A peer that hears of the end asks for the address at once: we are not to be found there any more.
  if (listener != nullptr) provider_->listener->close(listener);
  if (transport != nullptr) close_transport(transport, dropped);
  shared_.changed();
  messages_lost_.fetch_add(unread + dropped, std::memory_order_relaxed);
  // Also what was lost before: a peer may have gone just as this began, and nobody has received that.
  const std::uint64_t lost =
      messages_lost_.load(std::memory_order_relaxed) - lost_before_close_.load(std::memory_order_relaxed);
  unread = std::max(lost - dropped, unread + untold);
  if (unread + dropped == 0) return LWMQ_OK;
  char how[64];
  std::snprintf(how, sizeof how, "closed after a linger of %" PRId64 " ms", waited_ms);
  return fail(LWMQ_E_TIMED_OUT,
              "%s; %" PRIu64 " messages were dropped before they were shipped, and %" PRIu64
              " were shipped and not seen read (%s)",
              !was_opened ? "it was never opened"
              : has_ended ? "the peer has gone"
                          : how,
              dropped, unread, settings_.address.c_str());
}

}  // namespace lwmq::conversation
