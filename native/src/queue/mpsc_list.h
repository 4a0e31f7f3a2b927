// An unbounded queue from any number of producer threads to one consumer thread, without locks.
//
// Intrusive: an item brings the link itself (`T* next`), so that the queue allocates nothing and keeps
// nothing. Producers put items on a stack by one compare-and-swap; the consumer takes the whole stack by one
// exchange and turns it round. There is no moment at which an item is claimed and not yet there: a
// producer that loses its core in the middle of a push stands in nobody's way. Two meetings:
//
//   item-ready   producer swaps newest_ (release)            ->  consumer exchanges newest_ (acquire)
//                the item and its link are written before the swap and seen after the exchange
//   (none)       the way back: the consumer never gives a producer anything, and an address that comes again
//                does no harm, because a producer only puts its item before whatever is there
#pragma once

#include <atomic>
#include <cstdint>

#include "base/cache_line.h"

namespace lwmq::queue {

template <typename T>
class MpscList {
 public:
  MpscList() noexcept = default;
  MpscList(const MpscList&) = delete;
  MpscList& operator=(const MpscList&) = delete;

  // Any thread. Takes the item.
  void push(T* item) noexcept { push_chain(item, item, 1); }

  // Any thread. Takes `count` items that are linked from the newest to the oldest: one swap for all of them.
  void push_chain(T* newest, T* oldest, std::uint64_t count) noexcept {
    T* before = newest_.load(std::memory_order_relaxed);
    do {
      oldest->next = before;
    } while (!newest_.compare_exchange_weak(before, newest, std::memory_order_release,
                                            std::memory_order_relaxed));  // sync: item-ready
    pushed_.fetch_add(count, std::memory_order_relaxed);
  }

  // Consumer only. The oldest item, which stays until pop; null when there is none.
  [[nodiscard]] T* front() noexcept {
    T* oldest = oldest_.load(std::memory_order_relaxed);  // our own
    return oldest != nullptr ? oldest : take_all();
  }

  // Consumer only, after front() was not null.
  void pop() noexcept {
    oldest_.store(oldest_.load(std::memory_order_relaxed)->next, std::memory_order_relaxed);
    popped_.store(popped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  // Any thread. A hint, but for the consumer, to whom "empty" may be old (though its own pushes are seen).
  [[nodiscard]] bool empty() const noexcept {
    return newest_.load(std::memory_order_relaxed) == nullptr &&
           oldest_.load(std::memory_order_relaxed) == nullptr;
  }

  // Any thread; hints.
  [[nodiscard]] std::uint64_t pushed() const noexcept { return pushed_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t popped() const noexcept { return popped_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t size() const noexcept {
    const std::uint64_t out = popped();
    const std::uint64_t in = pushed();
    return in > out ? in - out : 0;
  }

 private:
  T* take_all() noexcept {
    if (newest_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    T* item = newest_.exchange(nullptr, std::memory_order_acquire);  // sync: item-ready
    T* oldest = nullptr;
    while (item != nullptr) {
      T* older = item->next;
      item->next = oldest;
      oldest = item;
      item = older;
    }
    oldest_.store(oldest, std::memory_order_relaxed);
    return oldest;
  }

  alignas(kCacheLine) std::atomic<T*> newest_{nullptr};  // written by all
  std::atomic<std::uint64_t> pushed_{0};                 // written by producers

  alignas(kCacheLine) std::atomic<T*> oldest_{nullptr};  // written by the consumer
  std::atomic<std::uint64_t> popped_{0};                 // written by the consumer
};

}  // namespace lwmq::queue
