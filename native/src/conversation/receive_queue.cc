#include "conversation/receive_queue.h"

#include <utility>

#include "lwmq/lwmq.h"

namespace lwmq::conversation {

Message* ReceiveQueue::pop() noexcept {
  const Placed gone = first_;
  Message* message = gone.message();
  first_ = Placed::linked_to(message);
  message->next = nullptr;
  ++gone_;
  size_.store(size() - 1, std::memory_order_release);
  if (!sizes_.empty()) --sizes_[gone.place()];
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
  const Placed placed(message, place);
  if (size() == 0) {
    first_ = placed;
  } else {
    placed.link_to(last_);
  }
  last_ = message;
  size_.store(size() + 1, std::memory_order_release);
  if (!sizes_.empty()) ++sizes_[place];
  if (is_short_) [[unlikely]] {
    is_short_ = false;
    note_reports();
  }
}

void ReceiveQueue::note_reports() noexcept {
  reported_.store(first_report_ != nullptr || is_short_, std::memory_order_release);
}

void ReceiveQueue::report(std::unique_ptr<Report> report) noexcept {
  const std::lock_guard lock(mutex_);
  report->position = gone_ + size();
  std::unique_ptr<Report>& place = first_report_ == nullptr ? first_report_ : last_report_->next;
  place = std::move(report);
  last_report_ = place.get();
  note_reports();
}

void ReceiveQueue::report_shortage() noexcept {
  const std::lock_guard lock(mutex_);
  is_short_ = true;
  note_reports();
}

Status ReceiveQueue::take(Messages& into) {
  if (empty()) return LWMQ_E_EMPTY;
  const std::lock_guard lock(mutex_);
  if (first_report_ != nullptr && first_report_->position <= gone_) {
    const std::unique_ptr<Report> report = std::exchange(first_report_, std::move(first_report_->next));
    note_reports();
    return report->say();
  }
  std::uint64_t most = first_report_ != nullptr ? first_report_->position - gone_ : size();
  if (most == 0) {
    if (!std::exchange(is_short_, false)) return LWMQ_E_EMPTY;
    note_reports();
    return fail_short_of_memory();
  }
  for (; most > 0 && into.has_room(); --most) into.add(pop());
  return LWMQ_OK;
}

std::uint64_t ReceiveQueue::untold_losses() noexcept {
  const std::lock_guard lock(mutex_);
  std::uint64_t lost = 0;
  for (const Report* report = first_report_.get(); report != nullptr; report = report->next.get())
    lost += report->lost;
  return lost;
}

void ReceiveQueue::clear(Completions& completions) noexcept {
  const std::lock_guard lock(mutex_);
  while (size() > 0) completions.add(pop());
}

}  // namespace lwmq::conversation
