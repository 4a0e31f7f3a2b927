// An unbounded queue from one producer thread to one consumer thread, without locks or read-modify-writes.
//
// Items lie in chunks of kChunkItems that form a list. Positions only grow; an item is at
// `position % kChunkItems` of its chunk. The ends meet at three points:
//
//   item-ready   producer stores tail_ (release)         ->  consumer loads tail_ (acquire)
//                the item, and the link to its chunk, are written before the store and seen after the load
//   chunk-back   consumer stores spare_tail_ (release)   ->  producer loads spare_tail_ (acquire)
//                the consumer is done with an emptied chunk before the producer fills it again
//   spare-taken  producer stores spare_head_ (release)   ->  consumer loads spare_head_ (acquire)
//                the slot of the spare ring was read before it is written again
//
// Emptied chunks go back to the producer through a ring of kSparesMax; what is above that mark is given back
// to the heap. So a queue that moves allocates nothing, and one that has grown in a burst shrinks again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "base/cache_line.h"

namespace lwmq::queue {

template <typename T, std::size_t kChunkItems = 512, std::size_t kSparesMax = 8>
class SpscList {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SpscList() noexcept = default;
  SpscList(const SpscList&) = delete;
  SpscList& operator=(const SpscList&) = delete;

  // When both threads are done with it. Items left are forgotten, not destroyed.
  ~SpscList() {
    while (first_ != nullptr) {
      Chunk* next = first_->next;
      delete first_;
      first_ = next;
    }
    for (std::uint64_t i = spare_head_.load(std::memory_order_relaxed);
         i < spare_tail_.load(std::memory_order_relaxed); ++i) {
      delete spares_[i % kSparesMax];
    }
  }

  // Producer only. Allocates when a chunk is full and none is spare; false when memory is short.
  [[nodiscard]] bool try_push(const T& item) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);  // our own
    const std::size_t slot = tail % kChunkItems;
    if (slot == 0 && !append_chunk(tail)) [[unlikely]]
      return false;
    last_->items[slot] = item;
    tail_.store(tail + 1, std::memory_order_release);  // sync: item-ready
    return true;
  }

  // Consumer only. The oldest item, where it lies until pop; null when there is none.
  [[nodiscard]] T* front() noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);  // our own
    if (head == tail_seen_) {
      tail_seen_ = tail_.load(std::memory_order_acquire);  // sync: item-ready
      if (head == tail_seen_) return nullptr;
    }
    if (head % kChunkItems == 0 && head != chunk_start_) next_chunk(head);
    return &first_->items[head % kChunkItems];
  }

  // Consumer only, after front() was not null.
  void pop() noexcept {
    head_.store(head_.load(std::memory_order_relaxed) + 1,
                std::memory_order_relaxed);  // others take it as a hint
  }

  // Any thread. A hint, but for the consumer, to whom "empty" may be old and "not empty" is true.
  [[nodiscard]] bool empty() const noexcept {
    return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_relaxed);
  }

  // Any thread; a hint.
  [[nodiscard]] std::uint64_t size() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    return tail > head ? tail - head : 0;
  }

  // Any thread; hints: how many ever came, and went.
  [[nodiscard]] std::uint64_t pushed() const noexcept { return tail_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t popped() const noexcept { return head_.load(std::memory_order_relaxed); }

  // Chunks now allocated, spare ones among them. For tests; when neither end is at work.
  [[nodiscard]] std::size_t chunk_count() const noexcept {
    std::size_t count =
        spare_tail_.load(std::memory_order_relaxed) - spare_head_.load(std::memory_order_relaxed);
    for (const Chunk* chunk = first_; chunk != nullptr; chunk = chunk->next) ++count;
    return count;
  }

 private:
  struct Chunk {
    Chunk* next = nullptr;  // written by the producer before it publishes the first item of `next`
    T items[kChunkItems];
  };

  [[gnu::noinline]] bool append_chunk(std::uint64_t tail) noexcept {
    Chunk* chunk = take_spare();
    if (chunk == nullptr) chunk = new (std::nothrow) Chunk;
    if (chunk == nullptr) return false;
    chunk->next = nullptr;
    if (tail == 0) {
      first_ = chunk;  // before any item is published: the consumer has not looked yet
    } else {
      last_->next = chunk;
    }
    last_ = chunk;
    return true;
  }

  Chunk* take_spare() noexcept {
    const std::uint64_t head = spare_head_.load(std::memory_order_relaxed);   // our own
    if (head == spare_tail_.load(std::memory_order_acquire)) return nullptr;  // sync: chunk-back
    Chunk* chunk = spares_[head % kSparesMax];
    spare_head_.store(head + 1, std::memory_order_release);  // sync: spare-taken
    return chunk;
  }

  // The item at `head` begins a chunk that we are not in yet.
  void next_chunk(std::uint64_t head) noexcept {
    Chunk* done = first_;
    first_ = done->next;
    chunk_start_ = head;
    const std::uint64_t tail = spare_tail_.load(std::memory_order_relaxed);  // our own
    if (tail - spare_head_.load(std::memory_order_acquire) < kSparesMax) {   // sync: spare-taken
      spares_[tail % kSparesMax] = done;
      spare_tail_.store(tail + 1, std::memory_order_release);  // sync: chunk-back
    } else {
      delete done;
    }
  }

  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};  // written by the producer
  Chunk* last_ = nullptr;                                   // producer's own
  std::atomic<std::uint64_t> spare_head_{0};                // written by the producer

  alignas(kCacheLine) std::atomic<std::uint64_t> head_{0};  // written by the consumer
  std::uint64_t tail_seen_ = 0;                             // consumer's own
  std::uint64_t chunk_start_ = 0;                           // consumer's own: position of first_'s first item
  Chunk* first_ = nullptr;                                  // consumer's own, but for the very first chunk
  std::atomic<std::uint64_t> spare_tail_{0};                // written by the consumer

  alignas(kCacheLine) Chunk* spares_[kSparesMax] = {};
};

}  // namespace lwmq::queue
