// Which message is next: priority groups, round robin over the queues of a group, order inside a queue.
//
// The first group is strict: while it has messages no other is served. The last is strict the other way: it
// is served when every other is empty. The five between share by weighted round robin: in a turn a group
// gives up to `weight` messages, then the next group has its turn, so that none with a message waits for
// ever. Priority belongs to the queue.
//
// Everything here is for the holder of the channel's pump, but what says otherwise. One meeting:
//
//   queue-added   add stores newest_ (release)  ->  any thread loads newest_ (acquire)
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "scheduler/send_queue.h"

namespace lwmq::scheduler {

inline constexpr std::uint32_t kGroups = 7;
inline constexpr std::array<std::uint32_t, kGroups> kWeights = {0, 16, 8, 4, 2, 1, 0};  // 0: strict

// Send queues of one priority.
struct PriorityGroup {
  std::vector<SendQueue*> queues;
  std::size_t next = 0;  // whose turn it is
};

class Scheduler {
 public:
  // Keeps the queue, which outlives it. `priority` is 1 to kGroups.
  void add(SendQueue* queue);

  // The next message, which stays where it is until take; null when every queue is empty. Asking again
  // without take gives the same one, so that a message that finds no room keeps its turn.
  [[nodiscard]] Message* front() noexcept;

  // Removes what front showed and moves the turns on.
  Message* take() noexcept;

  // Any thread, also while a queue is added: whether some queue has a message, and how many all have. Hints.
  [[nodiscard]] bool has_messages() const noexcept;
  [[nodiscard]] std::uint64_t message_count() const noexcept;
  // Any thread: how many were ever posted.
  [[nodiscard]] std::uint64_t posted() const noexcept;
  // Any thread: each queue, the newest first.
  template <typename Visit>
  void each(Visit&& visit) const noexcept {
    for (const SendQueue* q = newest_.load(std::memory_order_acquire); q != nullptr; q = q->older) visit(*q);
  }
  [[nodiscard]] bool has_several_queues() const noexcept {
    const SendQueue* newest =
        newest_.load(std::memory_order_relaxed);  // a queue added just now is seen by its poster
    return newest != nullptr && newest->older != nullptr;
  }

 private:
  bool choose_in(std::uint32_t group) noexcept;
  bool choose() noexcept;

  std::array<PriorityGroup, kGroups> groups_;
  std::atomic<SendQueue*> newest_{nullptr};  // all queues, linked by `older`; written under the pump
  SendQueue* chosen_ = nullptr;              // by front
  std::uint32_t chosen_group_ = 0;
  std::uint32_t turn_ = 1;  // the group between the strict ends that is served
  std::uint32_t left_in_turn_ = kWeights[1];
};

}  // namespace lwmq::scheduler
