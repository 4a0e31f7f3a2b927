#include "channel/receive_queue.h"

#include "lwmq/lwmq.h"

namespace lwmq::channel {

Message* ReceiveQueue::pop() noexcept {
  Message* message = first_;
  first_ = message->next;
  message->next = nullptr;
  ++gone_;
  size_.store(size() - 1, std::memory_order_release);
  if (!sizes_.empty()) {
    --sizes_[places_.front()];
    places_.pop_front();
  }
  return message;
}

bool ReceiveQueue::refuses() const noexcept {
  // A taker may make room just now: then this message came before it did.
  return kind_ == LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST && size() >= capacity_;
}

std::uint64_t ReceiveQueue::size_of(std::size_t place) noexcept {
  const std::lock_guard lock(mutex_);
  return sizes_.empty() ? size() : sizes_[place];
}

void ReceiveQueue::deliver(Message* message, std::size_t place, Completions& completions) noexcept {
  const std::lock_guard lock(mutex_);
  if (is_bounded() && size() >= capacity_) {
    discarded_.fetch_add(1, std::memory_order_relaxed);
    if (kind_ == LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST) return completions.add(message);
    completions.add(pop());
  }
  message->next = nullptr;
  (size() == 0 ? first_ : last_->next) = message;
  last_ = message;
  size_.store(size() + 1, std::memory_order_release);
  if (!sizes_.empty()) {
    ++sizes_[place];
    places_.push_back(static_cast<std::uint8_t>(place));
  }
}

void ReceiveQueue::report(Status status, const char* text) {
  const std::lock_guard lock(mutex_);
  reports_.push_back({gone_ + size(), status, text});
  reported_.store(true, std::memory_order_release);
}

Status ReceiveQueue::take(std::uint32_t limit, Message** out_messages, std::uint32_t* out_count) {
  if (empty()) return LWMQ_E_EMPTY;
  const std::lock_guard lock(mutex_);
  if (!reports_.empty() && reports_.front().position <= gone_) {
    const Report report = std::move(reports_.front());
    reports_.pop_front();
    reported_.store(!reports_.empty(), std::memory_order_release);
    return fail(report.status, "%s", report.text.c_str());
  }
  std::uint64_t most = size();
  if (!reports_.empty()) most = reports_.front().position - gone_;
  std::uint32_t count = 0;
  while (count < limit && count < most) out_messages[count++] = pop();
  if (count == 0) return LWMQ_E_EMPTY;
  *out_count = count;
  return LWMQ_OK;
}

void ReceiveQueue::clear(Completions& completions) noexcept {
  const std::lock_guard lock(mutex_);
  while (size() > 0) completions.add(pop());
}

}  // namespace lwmq::channel
