// Receiving through a receive queue: several threads at once, and what comes while none of them receives.
//
// Leader and follower: whoever finds the landing side free lands into the queue and waits in the transport;
// the others wait for what it delivers, and one of them leads when it leaves. While nobody receives, the
// service thread lands: the transport is armed, and its descriptor is among those that the thread sleeps on.
//
// One meeting, beside those of channel.h:
//
//   follower  who will sleep counts itself in followers_, then looks at the queue (its lock); who delivers
//             puts a message there (the lock), then loads followers_: one of the two sees the other
#include <sched.h>

#include <algorithm>

#include "channel/channel.h"
#include "channel/deadline.h"
#include "os/identity.h"
#include "tli/spin.h"

namespace lwmq::channel {
namespace {

constexpr std::uint64_t kLandAtOnce = 4096;               // between two looks at other channels
constexpr std::int64_t kUnpolledTick = 5 * kMillisecond;  // a transport that has no descriptor is looked at

}  // namespace

// With the landing side in hand: about `limit` messages go into the receive queue. What stays there is
// copied, so that the peer's buffers come back; what is taken at once may lie where it landed. False: there
// may be more.
bool Channel::land_into_queue(std::uint64_t limit, bool stays, Completions& completions) {
  const bool connected = receiver_.transport() != nullptr;
  Status status = LWMQ_OK;
  for (; limit > 0; --limit) {
    Landed landed;
    bool reported = false;
    status = receiver_.next(&landed, &reported);
    if (reported) {
      queue_->report(status, last_error());
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
      queue_->report(status, last_error());
    } else {
      break;
    }
  }
  if (status == LWMQ_E_CORRUPT) set_broken(status);
  if (limit > 0 && status != LWMQ_E_EMPTY && connected) note_peer_gone();
  return limit > 0;
}

// The service thread's, while nobody receives.
std::int64_t Channel::land_waiting(std::int64_t now_ns) {
  if (queue_ == nullptr || !landing_.try_take()) return kNever;  // whoever lands now sees to what follows
  Completions completions;                                       // gone behind the landing side's release
  const bool all = land_into_queue(kLandAtOnce, true, completions);
  lwmq_tli_transport* transport = receiver_.transport();
  std::int64_t again = all ? kNever : now_ns;
  if (all && transport != nullptr && !peer_gone_.load(std::memory_order_acquire)) {
    if (polled_fd_ < 0) {
      again = now_ns + kUnpolledTick;
    } else if (provider_->arm(transport, LWMQ_TLI_WAIT_EXTENT) != 0) {
      again = now_ns;
    }
  }
  landing_.release();
  note_delivered();
  return again;
}

// Something may be in the queue that those who sleep do not know of.
void Channel::note_delivered() noexcept {
  if (queue_->empty()) return;
  if (head().followers_.load(std::memory_order_relaxed) > 0) changed();  // sync: follower
  ring();
}

// Without the landing side, before a receive answers that there is nothing: whoever polls sleeps while
// another thread waits in the transport. That one rings when it leaves; after one that did not wait the
// service thread looks within a tick. False: nobody waits there now, or something has come.
bool Channel::may_leave_behind_leader() noexcept {
  Descriptor* descriptor = descriptor_.load(std::memory_order_acquire);
  if (descriptor == nullptr) return true;
  descriptor->drain();
  const bool led = !landing_.try_take();
  if (!led) landing_.release();
  if (led && queue_->empty() && phase_.load() == Phase::kOpen) return true;
  ring();
  return false;
}

Status Channel::receive_queued(std::uint32_t timeout_ms, std::uint32_t limit, Message** out_messages,
                               std::uint32_t* out_count) {
  struct Following {
    std::atomic<std::uint32_t>& count;
    bool on = false;
    ~Following() {
      if (on) count.fetch_sub(1, std::memory_order_relaxed);
    }
  } following{followers_};
  std::int64_t deadline = 0;
  bool drained = false;  // the descriptor, and then something was there: more may be behind it
  for (bool first = true;; first = false) {
    const std::uint32_t seen = changes_.load(std::memory_order_acquire);  // sync: change
    Completions completions;  // gone behind the landing side's release
    bool leads = landing_.try_take();
    // What another thread lands just now comes first; one that waits in the transport is not waited for.
    while (!leads && queue_->is_bounded() && !leader_waits_.load(std::memory_order_acquire)) {
      tli::pause();
      leads = landing_.try_take();
      if (!leads) sched_yield();
    }
    // A bounded queue is what has come so far; of an unbounded one no more than is asked for, and what is
    // small need not go through it.
    const bool holds_back = leads && first && timeout_ms != 0 && receiver_.is_chasing();
    std::uint32_t taken = 0;
    if (leads && !holds_back) {
      if (!queue_->is_bounded() && queue_->empty()) taken = receiver_.take_run(limit, out_messages);
      if (taken == 0 && (queue_->is_bounded() || queue_->size() < limit))
        land_into_queue(queue_->is_bounded() ? kLandAtOnce : limit - queue_->size(), queue_->is_bounded(),
                        completions);
    }
    Status status = LWMQ_OK;
    if (taken > 0) {
      *out_count = taken;
    } else {
      status = queue_->take(limit, out_messages, out_count);
    }
    if (status != LWMQ_E_EMPTY || phase_.load() != Phase::kOpen) {
      if (leads) landing_.release();
      if (status == LWMQ_E_EMPTY) return refuse_phase();
      if (leads && followers_.load(std::memory_order_relaxed) > 0) changed();  // one of them leads
      if (deadline != 0 || drained || !queue_->empty()) ring();
      note_activity();
      return status;
    }
    if (timeout_ms != 0 && deadline == 0) deadline = deadline_of(timeout_ms);
    const std::uint32_t left = timeout_ms == 0 ? 0 : ms_left(deadline);
    lwmq_tli_transport* transport = leads ? receiver_.transport() : nullptr;
    if (transport != nullptr && !peer_gone_.load(std::memory_order_acquire) && left > 0) {
      leader_waits_.store(true, std::memory_order_release);
      status = provider_->wait(transport, LWMQ_TLI_WAIT_EXTENT, std::min(left, kWaitSliceMs));
      leader_waits_.store(false, std::memory_order_release);
      landing_.release();
      if (status != LWMQ_E_INTERRUPTED) continue;
      if (followers_.load(std::memory_order_relaxed) > 0) changed();
      ring();
      note_activity();
      return status;
    }
    if (leads) {
      const bool may_leave = left > 0 || may_leave_empty();
      landing_.release();
      if (!may_leave) {
        drained = true;
        continue;
      }
      status = transport == nullptr ? connect_failure() : LWMQ_OK;
      if (status != LWMQ_OK) return status;
    }
    if (left == 0) {
      if (!leads && !may_leave_behind_leader()) {
        drained = true;
        continue;
      }
      if (leads && followers_.load(std::memory_order_relaxed) > (following.on ? 1u : 0u)) changed();
      return timeout_ms == 0 ? LWMQ_E_EMPTY : LWMQ_E_TIMED_OUT;
    }
    if (!following.on) {
      following.on = true;
      followers_.fetch_add(1);  // sync: follower
      continue;
    }
    status = wait_for_change(
        seen, leads ? deadline : std::min(deadline, os::now_ns() + kWaitSliceMs * kMillisecond));
    if (status != LWMQ_OK && (status != LWMQ_E_TIMED_OUT || ms_left(deadline) == 0)) return status;
  }
}

}  // namespace lwmq::channel
