#include "scheduler/scheduler.h"

#include "os/membarrier.h"

namespace lwmq::scheduler {
namespace {

constexpr std::uint32_t kFirst = 0;
constexpr std::uint32_t kLast = kGroups - 1;
// The barrier that sends queues to rest costs some microseconds, a look some nanoseconds.
constexpr std::uint32_t kLooksInVainMax = 4096;

constexpr std::uint32_t after(std::uint32_t turn) noexcept {
  return turn + 1 == kLast ? kFirst + 1 : turn + 1;
}

}  // namespace

// ---- Queues and their rings -------------------------------------------------------------------------------

void Scheduler::add(SendQueue* queue) noexcept {
  enter(queue);
  const std::uint32_t count = queue_count_.load(std::memory_order_relaxed);  // the pump's own
  queue_count_.store(count + 1, std::memory_order_relaxed);
  if (count > 0 || !queue->is_mono()) several_posters_.store(true, std::memory_order_relaxed);
  queue->older = newest_.load(std::memory_order_relaxed);  // the pump's own
  newest_.store(queue, std::memory_order_release);         // sync: queue-added
}

// At the end of the group's round.
void Scheduler::enter(SendQueue* queue) noexcept {
  PriorityGroup& group = group_of(queue);
  ++in_rings_;
  if (group.next == nullptr) {
    group.next = queue->next_in_group = queue->before_in_group = queue;
    return;
  }
  queue->next_in_group = group.next;
  queue->before_in_group = group.next->before_in_group;
  queue->before_in_group->next_in_group = queue;
  queue->next_in_group->before_in_group = queue;
}

void Scheduler::leave(SendQueue* queue) noexcept {
  PriorityGroup& group = group_of(queue);
  --in_rings_;
  if (group.next == queue) group.next = queue->next_in_group != queue ? queue->next_in_group : nullptr;
  queue->next_in_group->before_in_group = queue->before_in_group;
  queue->before_in_group->next_in_group = queue->next_in_group;
  queue->next_in_group = nullptr;
}

void Scheduler::set_priority(SendQueue* queue, std::uint32_t priority) noexcept {
  if (queue->priority() == priority) return;
  const bool in_ring = queue->next_in_group != nullptr;
  if (in_ring) leave(queue);
  queue->set_priority(priority);
  if (in_ring) enter(queue);
}

void Scheduler::set_weights(const std::array<std::uint32_t, kWeightedGroups>& weights) noexcept {
  for (std::uint32_t i = 0; i < kWeightedGroups; ++i) groups_[kFirst + 1 + i].weight = weights[i];
  turn_ = kFirst + 1;
  left_in_turn_ = groups_[turn_].weight;
}

void Scheduler::activate(SendQueue* queue) noexcept {
  if (queue->is_active.exchange(true, std::memory_order_acq_rel)) return;  // sync: rest; another was quicker
  SendQueue* before = activated_.load(std::memory_order_relaxed);
  do {
    queue->next_activated = before;
  } while (!activated_.compare_exchange_weak(before, queue, std::memory_order_release,
                                             std::memory_order_relaxed));  // sync: activated
  std::atomic_thread_fence(std::memory_order_seq_cst);  // the caller looks at the pump next
}

void Scheduler::collect_activated() noexcept {
  SendQueue* queue = activated_.exchange(nullptr, std::memory_order_acquire);  // sync: activated
  while (queue != nullptr) {
    SendQueue* next = queue->next_activated;  // first: it is in the ring from the next line on
    enter(queue);
    queue = next;
  }
}

void Scheduler::rest_empty_queues() noexcept {
  looked_in_vain_ = 0;
  if (in_rings_ <= kQueuesAwake) return;
  SendQueue* resting = nullptr;  // linked by before_in_group
  codec::Encoding ignored;
  for (PriorityGroup& group : groups_) {
    SendQueue* queue = group.next;
    if (queue == nullptr) continue;
    SendQueue* const last = queue->before_in_group;
    for (bool more = true; more;) {
      SendQueue* const following = queue->next_in_group;
      more = queue != last;
      if (!queue->front(&ignored)) {
        leave(queue);
        queue->before_in_group = resting;
        resting = queue;
      }
      queue = following;
    }
  }
  if (resting == nullptr) return;
  for (SendQueue* queue = resting; queue != nullptr; queue = queue->before_in_group) {
    queue->is_active.store(false,
                           std::memory_order_release);  // its links are the next activation's; sync: rest
  }
  os::heavy_barrier_within();  // sync: rest
  while (resting != nullptr) {
    SendQueue* const queue = resting;
    resting = queue->before_in_group;
    if (!queue->empty() && !queue->is_active.exchange(true, std::memory_order_acq_rel)) enter(queue);
  }
}

// ---- Choosing -----------------------------------------------------------------------------------------

// The first queue of the group with a message, from the one whose turn it is.
bool Scheduler::choose_in(std::uint32_t index, codec::Encoding* out_encoding) noexcept {
  PriorityGroup& group = groups_[index];
  SendQueue* queue = group.next;
  if (queue == nullptr) return false;
  do {
    if (queue->front(out_encoding)) {
      group.next = queue;
      chosen_ = queue;
      chosen_group_ = index;
      return true;
    }
    ++looked_in_vain_;
    queue = queue->next_in_group;
  } while (queue != group.next);
  return false;
}

bool Scheduler::choose(codec::Encoding* out_encoding) noexcept {
  if (choose_in(kFirst, out_encoding)) return true;
  for (std::uint32_t i = 0; i < kWeightedGroups; ++i) {
    if (left_in_turn_ > 0 && choose_in(turn_, out_encoding)) return true;
    turn_ = after(turn_);
    left_in_turn_ = groups_[turn_].weight;
  }
  // Once more the group that we began with: its turn may have been over, and every other is empty.
  if (left_in_turn_ > 0 && choose_in(turn_, out_encoding)) return true;
  for (std::uint32_t i = kFirst + 1; i < kLast; ++i) {
    if (groups_[i].weight == 0 && choose_in(i, out_encoding)) return true;
  }
  return choose_in(kLast, out_encoding);
}

bool Scheduler::front(codec::Encoding* out_encoding) noexcept {
  if (activated_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
    collect_activated();
  if (looked_in_vain_ > kLooksInVainMax) [[unlikely]]
    rest_empty_queues();
  return choose(out_encoding);
}

void Scheduler::done() noexcept {
  chosen_->done();
  groups_[chosen_group_].next = chosen_->next_in_group;
  if (chosen_group_ == turn_ && left_in_turn_ > 0) --left_in_turn_;
}

// ---- Figures ------------------------------------------------------------------------------------------

std::uint64_t Scheduler::message_count() const noexcept {
  std::uint64_t count = 0;
  for_each([&](const SendQueue* queue) { count += queue->size(); });
  return count;
}

std::uint64_t Scheduler::posted() const noexcept {
  std::uint64_t count = 0;
  for_each([&](const SendQueue* queue) { count += queue->posted(); });
  return count;
}

}  // namespace lwmq::scheduler
