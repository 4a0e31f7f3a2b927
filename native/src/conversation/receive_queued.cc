// Receiving through a receive queue: several threads may receive at once, and messages land while none does.
//
// Leader and followers: a thread that finds the landing side free leads. It takes what has landed, or lands
// into the queue, and waits in the transport. The others follow: they wait for what is delivered to the
// queue, and one of them leads when the leader leaves. While no thread receives, the service thread lands:
// the transport is armed, and the service thread sleeps on its descriptor.
//
// Two threads meet here, besides the cases in conversation.h:
//
//   follower  A thread that will sleep counts itself in followers_, then looks at the queue (its lock). A
//             thread that delivers puts a message there (the lock), then loads followers_. One of the two
//             sees the other
//   leave     A thread that will sleep loads leaves_, counts itself in followers_, then finds the landing
//   side
//             taken, and sleeps on that value. The thread that releases the landing side then adds to leaves_
//             if followers_ shows somebody
#include <sched.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "conversation/conversation.h"
#include "os/clock.h"
#include "os/deadline.h"
#include "os/identity.h"
#include "os/spin.h"

namespace lwmq::conversation {
namespace {

constexpr std::uint64_t kLandAtOnce = 4096;     // messages, before other conversations have their turn
constexpr std::uint64_t kLandMost = 64 * kMiB;  // by one receive, whatever the peer says of its buffers
constexpr int kLandingsMax = 256;               // landings from one transport, before a receive takes some
constexpr std::uint64_t kFlood = 1024;          // so many messages in one receive are a flood
constexpr std::uint64_t kBytesPerMessage = 8;   // in a buffer, besides its own
// The service thread looks this often at a transport without a descriptor. An application is quick if it took
// so many messages since the look before.
constexpr std::int64_t kTick = 5 * os::kMillisecond;
constexpr std::int64_t kQuick = 1024;
constexpr std::uint32_t kReleaseGlances = 64;  // a microsecond: no store stays in a store buffer so long

}  // namespace

// With the landing side in hand: lands about `limit` messages into the receive queue. If they stay there
// (`stays`), they are copied, so that the peer's buffers go back. If they are taken at once, they may lie
// where they landed. A message that there is no memory for stays in the transport.
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
    status = stays ? receiver_.decode_copy(landed, &message) : receiver_.decode(landed, &message);
    if (status == LWMQ_OK) {
      queue_->deliver(message, place_, completions);
    } else if (status == LWMQ_E_NO_MEMORY) {
      receiver_.put_back(landed);
      queue_->report_shortage();
      return Left::kNoMemory;
    } else {
      receiver_.uncount(landed);
      break;
    }
  }
  if (status == LWMQ_E_CORRUPT) set_broken(status);
  if (limit > 0 && status != LWMQ_E_EMPTY && connected) note_peer_gone();
  return limit > 0 ? Left::kNothing : Left::kMore;
}

// With the landing side in hand, for a thread that takes `limit` messages next. Returns how many it has
// already, past the queue. Into a bounded queue lands everything that has come so far, at most what the
// peer's buffers hold. In a flood not each time: else a thread would only land and discard, and hardly
// receive. For an unbounded queue no more lands than is asked for, and small messages need not go through it.
std::uint32_t Conversation::land_for(std::uint32_t limit, Message** out_messages, Completions& completions) {
  if (queue_->is_bounded()) {
    if (takes_of_flood_ > 0 && !queue_->empty() && os::coarse_now_ns() == flood_ns_) {
      takes_of_flood_ -= std::min<std::uint64_t>(takes_of_flood_, limit);
      return 0;
    }
    const std::uint64_t before = receiver_.messages();
    const std::uint64_t bytes_before = receiver_.bytes();
    std::uint64_t landed = 0;
    std::uint64_t bytes = 0;
    const std::uint64_t most = std::min(receiver_.peer_buffers() * tli_options_.buffer_bytes, kLandMost);
    Left left = Left::kNothing;
    do {
      left = land_into_queue(kLandAtOnce, true, completions);
      landed = receiver_.messages() - before;
      bytes = receiver_.bytes() - bytes_before + landed * kBytesPerMessage;
    } while (left == Left::kMore && bytes < most);
    takes_of_flood_ = landed >= kFlood ? landed / 2 : 0;
    if (takes_of_flood_ > 0) flood_ns_ = os::coarse_now_ns();
    return 0;
  }
  const std::uint32_t taken =
      queue_->empty() ? receiver_.take_run(limit, LWMQ_TLI_LAND_NOW, out_messages) : 0;
  if (taken == 0 && queue_->size() < limit) land_into_queue(limit - queue_->size(), false, completions);
  return taken;
}

// For the service thread, while no thread receives, or the receivers are slow. A quick application does
// better alone: what the service thread lands goes through the queue and its lock, and takes time of a core.
// But an application that has found nothing and polls waits for the service thread.
std::int64_t Conversation::land_for_nobody(std::int64_t now_ns) {
  if (queue_ == nullptr) return service::kNever;
  if (now_ns - looked_ns_ >= kTick) {
    const std::uint64_t taken = receiver_.messages() - queue_->size() - queue_->discarded();
    const auto since = static_cast<std::int64_t>(taken - taken_seen_);  // not read at one moment
    is_quick_ = since >= kQuick && !shared_.several;
    taken_seen_ = taken;
    looked_ns_ = now_ns;
    if (is_quick_) ring();  // other threads that poll may take some of it
  }
  if (is_quick_ && !armed_.load(std::memory_order_relaxed)) return looked_ns_ + kTick;
  return land_waiting(now_ns);
}

// Lands into the queue, for any thread that takes next.
std::int64_t Conversation::land_waiting(std::int64_t now_ns) {
  if (queue_ == nullptr) return service::kNever;
  if (!landing_.try_take()) {
    // A leader that waits looks by itself. Any other holder may have armed, and looked, before this came.
    return leader_waits_.load(std::memory_order_acquire) ? service::kNever : now_ns + os::kMillisecond;
  }
  Completions completions;  // destroyed after the landing side is released
  const Left left = land_into_queue(kLandAtOnce, true, completions);
  lwmq_tli_transport* transport = receiver_.transport();
  std::int64_t again = left == Left::kNothing ? service::kNever
                       : left == Left::kMore  ? now_ns
                                              : now_ns + kTick;
  if (left == Left::kNothing && transport != nullptr && !peer_gone_.load(std::memory_order_acquire)) {
    if (polled_fd_ < 0) {
      again = now_ns + kTick;
    } else {
      const bool armed = tli_.arm(transport, LWMQ_TLI_WAIT_EXTENT) == 0;
      armed_.store(armed, std::memory_order_relaxed);
      if (!armed) again = now_ns;
    }
  }
  landing_.release();
  note_delivered();
  return again;
}

void Conversation::land_now() noexcept {
  std::int64_t again = land_waiting(0);
  for (int i = 0; again == 0 && i < kLandingsMax; ++i) again = land_waiting(0);
  if (again != service::kNever) request_attention();
}

// After the landing side was released: something may be in the queue that sleeping threads do not know of. If
// nothing is, one of them waits in the transport in this thread's place.
void Conversation::note_delivered() noexcept {
  if (queue_->empty()) return wake_follower();
  const bool are_some = followers_.load(std::memory_order_relaxed) > 0 ||
                        (shared_.several && shared_.followers.load(std::memory_order_relaxed) > 0);
  if (are_some) changed();  // sync: follower
  ring();
}

// After the landing side was released: one of the sleeping threads leads, unless one was called and has not
// come yet. A thread that was not asleep when the call went out takes the call back: it begins to follow, or
// does not fall asleep.
void Conversation::wake_follower() noexcept {
  if (followers_.load(std::memory_order_relaxed) == 0 || called_.load(std::memory_order_relaxed))
    return;  // sync: follower
  called_.store(true, std::memory_order_relaxed);
  leaves_.fetch_add(1, std::memory_order_release);  // sync: leave
  os::futex_wake_one(leaves_, os::Sleepers::kOfThisProcess);
}

// Without the landing side, before a receive answers that there is nothing. A thread that polls may sleep
// while another one waits in the transport, because that one rings when it leaves. False: no thread waits
// there now, or something has come.
bool Conversation::may_leave_behind_leader() noexcept {
  Descriptor* descriptor = descriptor_.load(std::memory_order_acquire);
  if (descriptor == nullptr) return true;
  descriptor->drain();
  if (leader_waits_.load(std::memory_order_acquire) && queue_->empty() && phase_.load() == Phase::kOpen)
    return true;
  ring();
  sched_yield();  // another thread lands just now
  return false;
}

Status Conversation::receive_queued(std::uint32_t timeout_ms, std::uint32_t limit, Message** out_messages,
                                    std::uint32_t* out_count) {
  std::optional<Inside> inside;  // destroyed last
  struct Following {
    Conversation& channel;
    bool on = false;
    bool called = false;  // a follower was called since the receive began, perhaps this one
    void begin() noexcept {
      on = true;
      channel.called_.store(false, std::memory_order_relaxed);
      channel.followers_.fetch_add(1);  // sync: follower
    }
    void end() noexcept {
      if (!std::exchange(on, false)) return;
      channel.followers_.fetch_sub(1, std::memory_order_relaxed);
      if (channel.called_.exchange(false, std::memory_order_relaxed)) called = true;
    }
    ~Following() { end(); }
  } following{*this};
  std::int64_t deadline = 0;
  std::uint32_t seen = 0;  // leaves_, from before this thread counts as a follower
  bool leads = false;
  bool drained = false;  // the descriptor was drained, and then something was there: more may follow
  // Leaves without the landing side: another thread leads now, and polls.
  const auto leave = [&](Status status) {
    following.end();
    if (leads || following.called) wake_follower();
    const bool has_nothing = status == LWMQ_E_EMPTY || status == LWMQ_E_TIMED_OUT;
    if (!has_nothing && (deadline != 0 || drained || !queue_->empty())) ring();
    note_activity();
    return status;
  };
  for (;;) {
    if (!following.on) seen = leaves_.load(std::memory_order_acquire);  // sync: leave
    Completions completions;  // destroyed after the landing side is released
    leads = landing_.try_take();
    // What another thread lands just now comes first. A thread that waits in the transport is not waited for.
    while (!leads && queue_->is_bounded() && !leader_waits_.load(std::memory_order_acquire)) {
      os::pause();
      leads = landing_.try_take();
      if (!leads) sched_yield();
    }
    const bool open = phase_.load() == Phase::kOpen;  // the report of the end is in the queue by then
    std::uint32_t taken = 0;
    if (leads) {
      if (armed_.load(std::memory_order_relaxed)) {
        armed_.store(false, std::memory_order_relaxed);
        drained = true;
      }
      taken = land_for(limit, out_messages, completions);
    }
    Status status = LWMQ_OK;
    if (taken > 0) {
      *out_count = taken;
    } else {
      status = queue_->take(limit, out_messages, out_count);
    }
    if (status != LWMQ_E_EMPTY || !open) {
      if (!open && !inside) inside.emplace(shared_);
      if (leads) landing_.release();
      if (status != LWMQ_E_EMPTY) return leave(status);
      if (drained) ring();  // threads that poll hear of the end, too
      return refuse_phase();
    }
    if (timeout_ms != 0 && deadline == 0) deadline = os::deadline_of(timeout_ms);
    const std::uint32_t left = timeout_ms == 0 ? 0 : os::ms_left(deadline);
    lwmq_tli_transport* transport = leads ? receiver_.transport() : nullptr;
    if (transport != nullptr && !peer_gone_.load(std::memory_order_acquire) && left > 0) {
      leader_waits_.store(true, std::memory_order_release);
      status = tli_.wait(transport, LWMQ_TLI_WAIT_EXTENT, std::min(left, os::kWaitSliceMs));
      leader_waits_.store(false, std::memory_order_release);
      if (!inside) inside.emplace(shared_);
      landing_.release();
      if (status == LWMQ_E_INTERRUPTED) return leave(status);
      continue;
    }
    const bool may_leave = left > 0 || !leads || may_leave_empty();
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
      // A leader that leaves just now has no fence between its release and its look at followers_. Look until
      // the release is visible.
      if (!leads && !leader_waits_.load(std::memory_order_acquire))
        os::spin_until([this] { return landing_.may_be_free(); }, kReleaseGlances);
      continue;
    }
    status = os::wait_for_change(
        seen, leads ? deadline : std::min(deadline, os::now_ns() + os::kWaitSliceMs * os::kMillisecond),
        leaves_);
    following.end();
    if (status != LWMQ_OK && (status != LWMQ_E_TIMED_OUT || os::ms_left(deadline) == 0)) return leave(status);
  }
}

}  // namespace lwmq::conversation
