#include "scheduler/scheduler.h"

namespace lwmq::scheduler {
namespace {

constexpr std::uint32_t kFirst = 0;
constexpr std::uint32_t kLast = kGroups - 1;

constexpr std::uint32_t after(std::uint32_t turn) noexcept {
  return turn + 1 == kLast ? kFirst + 1 : turn + 1;
}

}  // namespace

void Scheduler::add(SendQueue* queue) {
  groups_[queue->priority() - 1].queues.push_back(queue);
  queue->older = newest_.load(std::memory_order_relaxed);  // the pump's own
  newest_.store(queue, std::memory_order_release);         // sync: queue-added
}

bool Scheduler::has_messages() const noexcept {
  const SendQueue* queue = newest_.load(std::memory_order_acquire);  // sync: queue-added
  for (; queue != nullptr; queue = queue->older) {
    if (!queue->empty()) return true;
  }
  return false;
}

std::uint64_t Scheduler::message_count() const noexcept {
  std::uint64_t count = 0;
  const SendQueue* queue = newest_.load(std::memory_order_acquire);  // sync: queue-added
  for (; queue != nullptr; queue = queue->older) count += queue->size();
  return count;
}

std::uint64_t Scheduler::posted() const noexcept {
  std::uint64_t count = 0;
  const SendQueue* queue = newest_.load(std::memory_order_acquire);  // sync: queue-added
  for (; queue != nullptr; queue = queue->older) count += queue->posted();
  return count;
}

// Takes the first queue of the group with a message, from the one whose turn it is.
bool Scheduler::choose_in(std::uint32_t index) noexcept {
  PriorityGroup& group = groups_[index];
  const std::size_t count = group.queues.size();
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t at = group.next + i;
    if (at >= count) at -= count;
    if (group.queues[at]->front() == nullptr) continue;
    group.next = at;
    chosen_ = group.queues[at];
    chosen_group_ = index;
    return true;
  }
  return false;
}

bool Scheduler::choose() noexcept {
  if (choose_in(kFirst)) return true;
  for (std::uint32_t i = kFirst + 1; i < kLast; ++i) {
    if (left_in_turn_ > 0 && choose_in(turn_)) return true;
    turn_ = after(turn_);
    left_in_turn_ = kWeights[turn_];
  }
  // Once more the group that we began with: its turn may have been over, and every other is empty.
  return choose_in(turn_) || choose_in(kLast);
}

Message* Scheduler::front() noexcept {
  if (chosen_ == nullptr && !choose()) return nullptr;
  return chosen_->front();
}

Message* Scheduler::take() noexcept {
  Message* message = chosen_->front();
  chosen_->pop();
  PriorityGroup& group = groups_[chosen_group_];
  if (++group.next == group.queues.size()) group.next = 0;
  if (chosen_group_ == turn_ && left_in_turn_ > 0) --left_in_turn_;
  chosen_ = nullptr;
  return message;
}

}  // namespace lwmq::scheduler
