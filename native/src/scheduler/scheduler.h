// Chooses the next message: priority groups, round robin over the queues of a group, order inside a queue.
//
// The first group is strict: while it has messages, no other is served. The last group is served only when
// every other is empty. The five in between share by weighted round robin: in its turn a group gives up to
// `weight` messages, then the next group has its turn, so that no group with a message waits forever. A group
// of weight 0 is served when those with a weight are empty, the higher one first. Priority belongs to the
// queue.
//
// A choice looks at each empty queue in the group's ring. If a channel has many queues, empty ones therefore
// leave the ring: a queue found empty goes to rest, and the next post to it activates it again.
//
// Unless stated otherwise, only the holder of the channel's pump calls this. Threads meet at these points:
//
//   queue-added   add stores newest_ (release)  ->  any thread loads newest_ (acquire)
//   rest          a poster pushes, then (light barrier) loads is_active; the pump clears is_active, then
//                 (heavy barrier) looks whether the queue has a message: one of the two sees the other
//   activated     activate swaps activated_ (release)  ->  the pump exchanges it (acquire)
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "scheduler/send_queue.h"

namespace lwmq::scheduler {

inline constexpr std::uint32_t kGroups = 7;
inline constexpr std::uint32_t kWeightedGroups = kGroups - 2;  // between the strict ends
inline constexpr std::array<std::uint32_t, kWeightedGroups> kWeights = {16, 8, 4, 2, 1};
// So many queues of a channel stay in their rings whatever happens: to look at them costs less than to wake
// them.
inline constexpr std::uint32_t kQueuesAwake = 16;

// Send queues of one priority, in a ring.
struct PriorityGroup {
  SendQueue* next = nullptr;  // whose turn it is
  std::uint32_t weight = 0;
};

class Scheduler {
 public:
  Scheduler() noexcept { set_weights(kWeights); }

  // Keeps the queue, which outlives it. `priority` is 1 to kGroups.
  void add(SendQueue* queue) noexcept;
  // Moves a queue, with all its messages, to the end of another group's round.
  void set_priority(SendQueue* queue, std::uint32_t priority) noexcept;
  void set_weights(const std::array<std::uint32_t, kWeightedGroups>& weights) noexcept;

  // How the next message will lie in a buffer; false when every queue is empty. Asking again without
  // taking something gives the same one, unless one came meanwhile that goes before it.
  [[nodiscard]] bool front(codec::Encoding* out_encoding) noexcept;
  // After front, as SendQueue's: claim a message, then say whether it left. done moves the turns on.
  [[nodiscard]] Message* claim(std::uint64_t room, codec::Encoding* encoding) noexcept {
    return chosen_->claim(room, encoding);
  }
  void done() noexcept;
  [[nodiscard]] Message* put_back(Message* message) noexcept { return chosen_->put_back(message); }

  // Any thread, after it has pushed into the queue and passed a light barrier: see `rest`.
  void note_pushed(SendQueue* queue) noexcept {
    if (!queue->is_active.load(std::memory_order_relaxed)) [[unlikely]]
      activate(queue);
  }

  // Any thread, also while a queue is added: how many messages all queues have (a hint), and how many were
  // ever posted.
  [[nodiscard]] std::uint64_t message_count() const noexcept;
  [[nodiscard]] std::uint64_t posted() const noexcept;
  [[nodiscard]] std::uint32_t queue_count() const noexcept {
    return queue_count_.load(std::memory_order_relaxed);
  }
  // Whether somebody else than the poster who asks may push: a queue added just now is seen by its poster.
  [[nodiscard]] bool has_several_posters() const noexcept {
    return several_posters_.load(std::memory_order_relaxed);
  }
  template <typename Do>
  void for_each(Do&& act) const noexcept {
    SendQueue* queue = newest_.load(std::memory_order_acquire);  // sync: queue-added
    for (; queue != nullptr; queue = queue->older) act(queue);
  }
  // Queues that are looked at now. For tests.
  [[nodiscard]] std::uint32_t ring_count() const noexcept { return in_rings_; }

 private:
  bool choose(codec::Encoding* out_encoding) noexcept;
  bool choose_in(std::uint32_t group, codec::Encoding* out_encoding) noexcept;
  PriorityGroup& group_of(const SendQueue* queue) noexcept { return groups_[queue->priority() - 1]; }
  void enter(SendQueue* queue) noexcept;
  void leave(SendQueue* queue) noexcept;
  void activate(SendQueue* queue) noexcept;
  void collect_activated() noexcept;
  void rest_empty_queues() noexcept;

  std::array<PriorityGroup, kGroups> groups_{};
  std::atomic<SendQueue*> newest_{nullptr};  // all queues, linked by `older`; written under the pump
  std::atomic<std::uint32_t> queue_count_{0};
  std::atomic<bool> several_posters_{false};
  std::atomic<SendQueue*> activated_{nullptr};  // written by posters and the pump
  SendQueue* chosen_ = nullptr;                 // by front
  std::uint32_t chosen_group_ = 0;
  std::uint32_t turn_ = 1;  // the group between the strict ends that is served
  std::uint32_t left_in_turn_ = 0;
  std::uint32_t in_rings_ = 0;
  std::uint32_t looked_in_vain_ = 0;  // since queues were last sent to rest
};

}  // namespace lwmq::scheduler
