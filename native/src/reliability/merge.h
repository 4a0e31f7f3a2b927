// One stream of what comes over redundant transports: several ways to one peer, of which any may fail.
//
// Each message that is posted to a channel with redundant transports gets a number, which travels behind its
// frames (wire::Number): the queue that it was posted to, and its place there. Every way keeps the order of a
// queue, so that what has a place behind the last one is a duplicate. What is ahead of its turn came over a
// way that has lost or discarded what is missing: it is held as long as another way may
// bring that, and at most kGapWaitNs (as SMPTE ST 2022-7 does for packets); then the stream goes on behind
// the gap.
//
// For whoever holds `receiving`, but what is said to be for any thread.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "message/message.h"
#include "wire/message_header.h"

namespace lwmq::reliability {

// Of one send queue: who posts holds the mutex until every way has the message, so that all have one order.
struct Numbering {
  Numbering() noexcept;

  std::mutex mutex;
  wire::Number next;  // guarded by mutex
};

class Merge {
 public:
  static constexpr std::int64_t kGapWaitNs = 250'000'000;
  static constexpr std::size_t kWaysMax = 64;

  Merge() = default;
  Merge(const Merge&) = delete;
  Merge& operator=(const Merge&) = delete;
  ~Merge();

  std::mutex receiving;

  // Takes a numbered message that came over `way`, which holds none, and its number off it. Below kWaysMax.
  void put(std::size_t way, Message* message, std::int64_t now_ns) noexcept;
  // What may be received now, or null: also where is_short. `sources`: a bit per way that may bring more.
  Message* take(std::uint64_t sources, std::int64_t now_ns) noexcept;
  // Something is held that there was no memory to find the place of; take tries again.
  [[nodiscard]] bool is_short() const noexcept;
  // Until when what is held waits at most; INT64_MAX: nothing is.
  [[nodiscard]] std::int64_t holds_until() const noexcept;

  // Any thread.
  [[nodiscard]] bool holds(std::size_t way) const noexcept {
    return (holding_.load(std::memory_order_relaxed) >> way & 1) != 0;
  }
  [[nodiscard]] std::uint64_t duplicates() const noexcept {
    return duplicates_.load(std::memory_order_relaxed);
  }

 private:
  struct Queue {
    std::uint64_t last = 0;             // place
    std::vector<std::uint64_t> places;  // by way: the last that came over it

    [[nodiscard]] bool may_bring(std::size_t way, std::uint64_t place) const noexcept {
      return way >= places.size() || places[way] < place;
    }
  };
  struct Held {
    Message* message = nullptr;
    wire::Number number{};
    Queue* queue = nullptr;  // null: not known yet
    std::int64_t since_ns = 0;
  };

  // By way, of those that hold something when this begins.
  template <typename Call>
  void for_each_held(Call&& call) const {
    for (std::uint64_t left = holding_.load(std::memory_order_relaxed); left != 0; left &= left - 1)
      call(static_cast<std::size_t>(std::countr_zero(left)));
  }
  bool find_queue(std::size_t way) noexcept;
  Queue& queue_of(std::uint64_t id);
  void forget_oldest() noexcept;
  Message* let_go(std::size_t way) noexcept;
  [[nodiscard]] bool waits(std::size_t way, std::uint64_t sources, std::int64_t now_ns) const noexcept;
  Message* release(std::size_t way) noexcept;

  std::array<Held, kWaysMax> held_;                  // where holding_ says so
  std::unordered_map<std::uint64_t, Queue> queues_;  // by what its sender calls it
  std::deque<std::uint64_t> order_;  // of queues_, oldest first: beyond kNumberedQueuesMax they are forgotten
  std::atomic<std::uint64_t> duplicates_{0};
  std::atomic<std::uint64_t> holding_{0};  // a bit per way
};

}  // namespace lwmq::reliability
