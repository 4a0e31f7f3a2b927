#include "channel/merge.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "os/identity.h"

namespace lwmq::channel {

Numbering::Numbering() noexcept : next{0, 1} { os::random_bytes(&next.queue, sizeof next.queue); }

Merge::~Merge() {
  for (const Held& held : held_) {
    if (held.message != nullptr) Message::destroy(held.message);
  }
}

void Merge::put(std::size_t way, Message* message, std::int64_t now_ns) noexcept {
  const wire::Number number = message->take_number();
  if (way >= held_.size()) held_.resize(way + 1);
  Queue& queue = queue_of(number.queue);
  if (way >= queue.places.size()) queue.places.resize(way + 1);
  queue.places[way] = number.place;
  held_[way] = {message, number.place, &queue, now_ns};
  holding_.fetch_or(std::uint64_t{1} << way, std::memory_order_relaxed);
}

Merge::Queue& Merge::queue_of(std::uint64_t id) noexcept {
  const auto [place, is_new] = queues_.try_emplace(id);
  if (is_new) {
    order_.push_back(id);
    if (order_.size() > kNumberedQueuesMax) forget_oldest();
  }
  return place->second;
}

void Merge::forget_oldest() noexcept {
  const std::uint64_t id = order_.front();
  Queue* const queue = &queues_[id];
  order_.pop_front();
  for (std::size_t way = 0; way < held_.size(); ++way) {
    if (holds(way) && held_[way].queue == queue) Message::destroy(let_go(way));
  }
  queues_.erase(id);
}

Message* Merge::let_go(std::size_t way) noexcept {
  holding_.fetch_and(~(std::uint64_t{1} << way), std::memory_order_relaxed);
  return std::exchange(held_[way].message, nullptr);
}

Message* Merge::release(std::size_t way) noexcept {
  const Held& held = held_[way];
  Message* message = let_go(way);
  if (held.place > held.queue->last) {
    held.queue->last = held.place;
    return message;
  }
  Message::destroy(message);
  duplicates_.store(duplicates() + 1, std::memory_order_relaxed);
  return nullptr;
}

std::int64_t Merge::holds_until() const noexcept {
  std::int64_t until = INT64_MAX;
  for (const Held& held : held_) {
    if (held.message != nullptr) until = std::min(until, held.since_ns + kGapWaitNs);
  }
  return until;
}

}  // namespace lwmq::channel
