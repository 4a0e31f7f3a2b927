// Where the application posts: one producer thread, any number of messages.
//
// The consumer is whoever holds the channel's pump. Further kinds of queue become alternatives of `list`,
// chosen once when the queue is made; the scheduler asks front and pop of all of them.
#pragma once

#include <atomic>
#include <cstdint>

#include "message/message.h"
#include "queue/spsc_list.h"

namespace lwmq {

class SendQueue {
 public:
  SendQueue(std::uint32_t kind, std::uint32_t priority) noexcept : kind_(kind), priority_(priority) {}

  // When neither the producer nor the pump is at work.
  ~SendQueue() {
    while (Message* message = front()) {
      pop();
      Message::destroy(message);
    }
  }

  [[nodiscard]] std::uint32_t kind() const noexcept { return kind_; }
  [[nodiscard]] std::uint32_t priority() const noexcept { return priority_; }

  // Producer only. Takes the message; false when memory is short, and then it is still the caller's.
  [[nodiscard]] bool push(Message* message) noexcept { return list_.try_push(message); }

  // Pump only.
  [[nodiscard]] Message* front() noexcept {
    Message** item = list_.front();
    return item == nullptr ? nullptr : *item;
  }
  void pop() noexcept { list_.pop(); }

  // Any thread; see SpscList::empty.
  [[nodiscard]] bool empty() const noexcept { return list_.empty(); }
  [[nodiscard]] std::uint64_t size() const noexcept { return list_.size(); }

  SendQueue* older = nullptr;  // the scheduler's list; never changes after the queue was added

  // Messages that went through post. Written by the producer, read by statistics.
  void count_posted() noexcept {
    posted_.store(posted_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // our own
  }
  [[nodiscard]] std::uint64_t posted() const noexcept { return posted_.load(std::memory_order_relaxed); }

 private:
  const std::uint32_t kind_;
  const std::uint32_t priority_;
  std::atomic<std::uint64_t> posted_{0};
  queue::SpscList<Message*> list_;
};

}  // namespace lwmq
