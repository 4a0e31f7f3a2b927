#include "reliability/merge.h"

#include <algorithm>
#include <bit>
#include <new>

#include "base/limits.h"
#include "os/identity.h"

namespace lwmq::reliability {

Numbering::Numbering() noexcept : next{0, 1} { os::random_bytes(&next.queue, sizeof next.queue); }

Merge::~Merge() {
  for_each_held([this](std::size_t way) { Message::destroy(held_[way].message); });
}

void Merge::put(std::size_t way, Message* message, std::int64_t now_ns) noexcept {
  held_[way] = {message, message->take_number(), nullptr, now_ns};
  holding_.fetch_or(std::uint64_t{1} << way, std::memory_order_relaxed);
  find_queue(way);
}

// False: there is no memory for it.
bool Merge::find_queue(std::size_t way) noexcept {
  Held& held = held_[way];
  if (held.queue != nullptr) return true;
  try {
    Queue& queue = queue_of(held.number.queue);
    if (way >= queue.places.size()) queue.places.resize(way + 1);
    queue.places[way] = held.number.place;
    held.queue = &queue;
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

Merge::Queue& Merge::queue_of(std::uint64_t id) {
  if (const auto known = queues_.find(id); known != queues_.end()) return known->second;
  order_.push_back(id);
  try {
    queues_.try_emplace(id);
  } catch (const std::bad_alloc&) {
    order_.pop_back();
    throw;
  }
  if (order_.size() > kNumberedQueuesMax) forget_oldest();
  return queues_.find(id)->second;
}

bool Merge::is_short() const noexcept {
  bool is_so = false;
  for_each_held([&](std::size_t way) { is_so = is_so || held_[way].queue == nullptr; });
  return is_so;
}

void Merge::forget_oldest() noexcept {
  const std::uint64_t id = order_.front();
  Queue* const queue = &queues_[id];
  order_.pop_front();
  for_each_held([this, queue](std::size_t way) {
    if (held_[way].queue == queue) Message::destroy(let_go(way));
  });
  queues_.erase(id);
}

Message* Merge::let_go(std::size_t way) noexcept {
  holding_.fetch_and(~(std::uint64_t{1} << way), std::memory_order_relaxed);
  return held_[way].message;
}

// Whether what `way` holds is ahead of its turn, and another one may still bring what is missing.
bool Merge::waits(std::size_t way, std::uint64_t sources, std::int64_t now_ns) const noexcept {
  const Held& held = held_[way];
  const std::uint64_t place = held.number.place;
  if (place <= held.queue->last + 1 || now_ns >= held.since_ns + kGapWaitNs) return false;
  for (std::uint64_t left = sources & ~(std::uint64_t{1} << way); left != 0; left &= left - 1) {
    if (held.queue->may_bring(static_cast<std::size_t>(std::countr_zero(left)), place)) return true;
  }
  return false;
}

Message* Merge::take(std::uint64_t sources, std::int64_t now_ns) noexcept {
  Message* taken = nullptr;
  for_each_held([&](std::size_t way) {
    if (taken != nullptr || !holds(way)) return;  // finding a queue may forget another one, and what it held
    if (find_queue(way) && !waits(way, sources, now_ns)) taken = release(way);
  });
  return taken;
}

Message* Merge::release(std::size_t way) noexcept {
  const Held& held = held_[way];
  Message* message = let_go(way);
  if (held.number.place > held.queue->last) {
    held.queue->last = held.number.place;
    return message;
  }
  Message::destroy(message);
  duplicates_.store(duplicates() + 1, std::memory_order_relaxed);
  return nullptr;
}

std::int64_t Merge::holds_until() const noexcept {
  std::int64_t until = INT64_MAX;
  for_each_held([&](std::size_t way) { until = std::min(until, held_[way].since_ns + kGapWaitNs); });
  return until;
}

}  // namespace lwmq::reliability
