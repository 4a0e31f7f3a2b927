// Receiving through a receive queue: several threads at once, and what comes while none of them receives.
//
// Leader and follower: whoever finds the landing side free takes what has landed, or lands into the queue,
// and waits in the transport; the others wait for what is delivered there, and one of them leads when it
// leaves. While nobody receives, the service thread lands: the transport is armed, and its descriptor is
// among those that the thread sleeps on.
//
// Two meetings of shared.h are theirs: follower and leave.
#include <sched.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "conversation/conversation.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/spin.h"

namespace lwmq::conversation {
namespace {

constexpr std::uint64_t kLandAtOnce = 4096;     // between two looks at other channels
constexpr std::uint64_t kLandMost = 64 * kMiB;  // by one receive, whatever the peer says of its buffers
constexpr std::uint64_t kFlood = 1024;          // messages that one receive finds
constexpr std::uint64_t kBytesPerMessage = 8;   // of a buffer, beside its own
// Between two looks at a transport that has no descriptor, or from which an application receives quickly: so
// many messages since the look before.
constexpr std::int64_t kTick = 5 * os::kMillisecond;
constexpr std::int64_t kQuick = 1024;
constexpr std::uint32_t kReleaseGlances = 64;  // a microsecond: no store stays in its buffer so long

}  // namespace

// With the landing side in hand: about `limit` messages go into the receive queue. What stays there is
// copied, so that the peer's buffers come back; what is taken at once may lie where it landed. What there is
// no memory for stays where it is.
Conversation::Left Conversation::land_into_queue(std::uint64_t limit, bool stays, Completions& completions) {
  const bool connected = receiver_.transport() != nullptr;
  Status status = LWMQ_OK;
  for (; limit > 0; --limit) {
    Landed landed;
    std::unique_ptr<Report> report;
    status = receiver_.next(&landed, &report);
    if (report != nullptr) {
      queue_->report(std::move(report));
      continue;
    }
    if (status != LWMQ_OK) break;
    if (queue_->refuses()) {
      receiver_.discard(landed, completions);
      queue_->count_refused();
      continue;
    }
    Message* message = nullptr;
    status = receiver_.decode_next(landed, stays, &message);
    if (status == LWMQ_E_NO_MEMORY) {
      queue_->report_shortage();
      return Left::kNoMemory;
    }
    if (status != LWMQ_OK) break;
    queue_->deliver(message, place_, completions);
  }
  if (status == LWMQ_E_CORRUPT) set_broken();
  if (limit > 0 && status != LWMQ_E_EMPTY && connected) note_peer_gone();
  return limit > 0 ? Left::kNothing : Left::kMore;
}

// With the landing side in hand, for who takes next, who may have some already, past the queue. A bounded
// queue is what has come so far, at most what the peer's buffers hold; but in a flood not each time: who did
// nothing but land and discard would hardly receive. Of an unbounded one no more lands than is asked for, and
// what is small need not go through it.
void Conversation::land_for(Messages& into, Completions& completions) {
  if (queue_->is_bounded()) {
    if (takes_of_flood_ > 0 && !queue_->empty() && os::coarse_now_ns() == flood_ns_) {
      takes_of_flood_ -= std::min<std::uint64_t>(takes_of_flood_, into.left());
      return;
    }
    const std::uint64_t before = receiver_.messages();
    const std::uint64_t bytes_before = receiver_.bytes();
    std::uint64_t landed = 0;
    std::uint64_t bytes = 0;
    const std::uint64_t most =
        std::min(receiver_.peer_buffers() * settings_.transport.buffer_bytes, kLandMost);
    Left left = Left::kNothing;
    do {
      left = land_into_queue(kLandAtOnce, true, completions);
      landed = receiver_.messages() - before;
      bytes = receiver_.bytes() - bytes_before + landed * kBytesPerMessage;
    } while (left == Left::kMore && bytes < most);
    takes_of_flood_ = landed >= kFlood ? landed / 2 : 0;
    if (takes_of_flood_ > 0) flood_ns_ = os::coarse_now_ns();
    return;
  }
  if (queue_->empty() && into.take_run(receiver_)) return;
  if (queue_->size() < into.left()) land_into_queue(into.left() - queue_->size(), false, completions);
}

// The service thread's, while nobody receives, or slowly. An application that is quick does better alone:
// what we land goes through the queue and its lock, and takes time of a core. Who has found nothing, and
// polls, waits for us all the same.
std::int64_t Conversation::land_for_nobody(std::int64_t now_ns) {
  if (queue_ == nullptr) return service::kNever;
  if (now_ns - looked_ns_ >= kTick) {
    const std::uint64_t taken = receiver_.messages() - queue_->size() - queue_->discarded();
    const auto since = static_cast<std::int64_t>(taken - taken_seen_);  // the three are not of one moment
    is_quick_ = since >= kQuick && shared_.is_alone;
    taken_seen_ = taken;
    looked_ns_ = now_ns;
    if (is_quick_) shared_.ring();  // others that poll may have some of it
  }
  if (is_quick_ && !armed_.load(std::memory_order_relaxed)) return looked_ns_ + kTick;
  return land_waiting(now_ns);
}

// Into the queue, for whoever takes next.
std::int64_t Conversation::land_waiting(std::int64_t now_ns) {
  if (queue_ == nullptr) return service::kNever;
  if (!landing_.try_take()) {
    // A leader that waits looks by itself; another one may have armed, and looked, before what we came for.
    return shared_.leader_waits.load(std::memory_order_acquire) ? service::kNever : now_ns + os::kMillisecond;
  }
  Completions completions;  // gone behind the landing side's release
  const Left left = land_into_queue(kLandAtOnce, true, completions);
  lwmq_tli_transport* transport = receiver_.transport();
  std::int64_t again = left == Left::kNothing ? service::kNever
                       : left == Left::kMore  ? now_ns
                                              : now_ns + kTick;
  if (left == Left::kNothing && transport != nullptr && !peer_gone_.load(std::memory_order_acquire)) {
    if (polled_fd_ < 0) {
      again = now_ns + kTick;
    } else {
      const bool armed = tli_->arm(transport, LWMQ_TLI_WAIT_EXTENT) == 0;
      armed_.store(armed, std::memory_order_relaxed);
      if (!armed) again = now_ns;
    }
  }
  landing_.release();
  note_delivered();
  return again;
}

// Behind the landing side's release: something may be in the queue that those who sleep do not know of. Where
// there is nothing, one of them waits in the transport in our place.
void Conversation::note_delivered() noexcept {
  if (queue_->empty()) return wake_follower();
  if (shared_.followers.load(std::memory_order_relaxed) > 0) shared_.changed();  // sync: follower
  shared_.ring();
}

// Behind the landing side's release: one of those who sleep leads, unless one was called and has not come
// yet. Who was not asleep when the call went out takes it back: it begins to follow, or does not fall asleep.
void Conversation::wake_follower() noexcept {
  if (shared_.followers.load(std::memory_order_relaxed) == 0 ||
      shared_.called.load(std::memory_order_relaxed))
    return;  // sync: follower
  shared_.called.store(true, std::memory_order_relaxed);
  shared_.leaves.fetch_add(1, std::memory_order_release);  // sync: leave
  os::futex_wake_one(shared_.leaves, os::Sleepers::kOfThisProcess);
}

// Without the landing side, before a receive answers that there is nothing: whoever polls sleeps while
// another thread waits in the transport, which rings when it leaves. False: nobody waits there now, or
// something has come.
bool Conversation::may_leave_behind_leader() noexcept {
  Descriptor* descriptor = shared_.descriptor.load(std::memory_order_acquire);
  if (descriptor == nullptr) return true;
  descriptor->drain();
  if (shared_.leader_waits.load(std::memory_order_acquire) && queue_->empty() &&
      phase_.load() == Phase::kOpen)
    return true;
  shared_.ring();
  sched_yield();  // another one lands just now
  return false;
}

Status Conversation::take_queued(How how, Messages& into) {
  if (const Status status = check_receiving(false); status != LWMQ_OK) return status;
  const std::uint32_t timeout_ms = how.timeout_ms;
  std::optional<Shared::Inside> inside;  // gone last
  struct Following {
    Shared& shared;
    bool on = false;
    bool called = false;  // perhaps we, since the receive began
    void begin() noexcept {
      on = true;
      shared.called.store(false, std::memory_order_relaxed);
      shared.followers.fetch_add(1);  // sync: follower
    }
    void end() noexcept {
      if (!std::exchange(on, false)) return;
      shared.followers.fetch_sub(1, std::memory_order_relaxed);
      if (shared.called.exchange(false, std::memory_order_relaxed)) called = true;
    }
    ~Following() { end(); }
  } following{shared_};
  std::int64_t deadline = 0;
  std::uint32_t seen = 0;  // of shared_.leaves, from before we count as a follower
  bool leads = false;
  bool drained = false;  // the descriptor, and then something was there: more may be behind it
  // Without the landing side: somebody else leads now, and polls.
  const auto leave = [&](Status status) {
    following.end();
    if (leads || following.called) wake_follower();
    const bool has_nothing = status == LWMQ_E_EMPTY || status == LWMQ_E_TIMED_OUT;
    if (!has_nothing && (deadline != 0 || drained || !queue_->empty())) shared_.ring();
    note_activity();
    return status;
  };
  for (bool first = true;; first = false) {
    if (!following.on) seen = shared_.leaves.load(std::memory_order_acquire);  // sync: leave
    Completions completions;  // gone behind the landing side's release
    leads = landing_.try_take();
    // What another thread lands just now comes first; one that waits in the transport is not waited for.
    while (!leads && queue_->is_bounded() && !shared_.leader_waits.load(std::memory_order_acquire)) {
      os::pause();
      leads = landing_.try_take();
      if (!leads) sched_yield();
    }
    const bool holds_back = leads && first && timeout_ms != 0 && receiver_.is_chasing();
    const bool open = phase_.load() == Phase::kOpen;  // what ends it is in the queue by then
    if (leads && !holds_back) {
      if (armed_.load(std::memory_order_relaxed)) {
        armed_.store(false, std::memory_order_relaxed);
        drained = true;
      }
      land_for(into, completions);
    }
    Status status = into.count() > 0 ? LWMQ_OK : queue_->take(into);
    if (status != LWMQ_E_EMPTY || !open) {
      if (!open && !inside) inside.emplace(shared_);
      if (leads) landing_.release();
      if (status != LWMQ_E_EMPTY) return leave(status);
      if (drained) shared_.ring();  // who polls hears of the end, too
      return refuse_phase();
    }
    if (timeout_ms != 0 && deadline == 0) deadline = os::deadline_of(timeout_ms);
    const std::uint32_t left = timeout_ms == 0 ? 0 : os::ms_left(deadline);
    lwmq_tli_transport* transport = leads ? receiver_.transport() : nullptr;
    if (transport != nullptr && !peer_gone_.load(std::memory_order_acquire) && left > 0) {
      shared_.leader_waits.store(true, std::memory_order_release);
      status = tli_->wait(transport, LWMQ_TLI_WAIT_EXTENT, std::min(left, os::kWaitSliceMs));
      shared_.leader_waits.store(false, std::memory_order_release);
      if (!inside) inside.emplace(shared_);
      landing_.release();
      if (status == LWMQ_E_INTERRUPTED) return leave(status);
      continue;
    }
    const bool may_leave = left > 0 || !leads || may_leave_empty(how.when_empty);
    if (leads) landing_.release();
    if (!may_leave || (left == 0 && !leads && !may_leave_behind_leader())) {
      drained = true;
      continue;
    }
    status = leads && transport == nullptr ? connect_failure() : LWMQ_OK;
    if (status != LWMQ_OK) return leave(status);
    if (left == 0) return leave(timeout_ms == 0 ? LWMQ_E_EMPTY : LWMQ_E_TIMED_OUT);
    if (!following.on) {
      if (!inside) inside.emplace(shared_);
      following.begin();
      // Who leaves just now has no fence between its release and its look at us: until we see the one.
      if (!leads && !shared_.leader_waits.load(std::memory_order_acquire))
        os::spin_until([this] { return landing_.may_be_free(); }, kReleaseGlances);
      continue;
    }
    status = os::wait_for_change(
        seen, leads ? deadline : std::min(deadline, os::now_ns() + os::kWaitSliceMs * os::kMillisecond),
        shared_.leaves);
    following.end();
    if (status != LWMQ_OK && (status != LWMQ_E_TIMED_OUT || os::ms_left(deadline) == 0)) return leave(status);
  }
}

}  // namespace lwmq::conversation
