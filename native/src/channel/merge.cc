#include "channel/merge.h"

#include <algorithm>
#include <bit>

#include "base/limits.h"
#include "os/identity.h"

namespace lwmq::channel {

Numbering::Numbering() noexcept : next{0, 1} { os::random_bytes(&next.queue, sizeof next.queue); }

Merge::~Merge() {
  for (std::size_t way = 0; way < held_.size(); ++way) {
    if (holds(way)) Message::destroy(held_[way].message);
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
  return held_[way].message;
}

// Whether what `way` holds is ahead of its turn, and another one may still bring what is missing.
bool Merge::waits(std::size_t way, std::uint64_t sources, std::int64_t now_ns) const noexcept {
  const Held& held = held_[way];
  if (held.place <= held.queue->last + 1 || now_ns >= held.since_ns + kGapWaitNs) return false;
  for (std::uint64_t left = sources & ~(std::uint64_t{1} << way); left != 0; left &= left - 1) {
    if (held.queue->may_bring(static_cast<std::size_t>(std::countr_zero(left)), held.place)) return true;
  }
  return false;
}

Message* Merge::take(std::uint64_t sources, std::int64_t now_ns) noexcept {
  for (std::size_t way = 0; way < held_.size(); ++way) {
    if (!holds(way) || waits(way, sources, now_ns)) continue;
    if (Message* message = release(way); message != nullptr) return message;
  }
  return nullptr;
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
  for (std::size_t way = 0; way < held_.size(); ++way) {
    if (holds(way)) until = std::min(until, held_[way].since_ns + kGapWaitNs);
  }
  return until;
}

}  // namespace lwmq::channel
