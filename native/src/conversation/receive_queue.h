// The receive queue of a channel from which several threads receive, or that discards messages when it is
// full.
//
// The thread that lands also delivers: one thread per transport, the holder of its landing side. Any number
// of threads take, and each message goes to one of them. A lock guards the list; it is held for a few stores.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/cache_line.h"
#include "base/status.h"
#include "conversation/arrivals.h"
#include "conversation/completions.h"
#include "message/message.h"

namespace lwmq::conversation {

class ReceiveQueue {
 public:
  static constexpr std::size_t kPlacesMax = kCacheLine;

  // `kind` is LWMQ_QUEUE_*; `capacity` is 0 where it is unbounded.
  ReceiveQueue(std::uint32_t kind, std::uint64_t capacity) noexcept : kind_(kind), capacity_(capacity) {}
  ReceiveQueue(const ReceiveQueue&) = delete;
  ReceiveQueue& operator=(const ReceiveQueue&) = delete;
  ~ReceiveQueue() {
    Completions completions;
    clear(completions);
  }

  [[nodiscard]] bool is_bounded() const noexcept { return capacity_ != 0; }

  // Before anything is delivered: from now on size_of answers for each of `places`.
  void tell_apart(std::size_t places) { sizes_.resize(places); }

  // For the holder of a landing side.
  // Takes the message, which `place` has landed. A message that the kind discards goes to `completions`.
  void deliver(Message* message, std::size_t place, Completions& completions) noexcept;
  // Whether deliver would discard the next message: then it need not be made.
  [[nodiscard]] bool refuses() const noexcept;
  void count_refused() noexcept { discarded_.fetch_add(1, std::memory_order_relaxed); }
  // Puts an outcome after the messages that were delivered. One taker gets it.
  void report(std::unique_ptr<Report> report) noexcept;
  // There is no memory for the next message. A taker that finds nothing hears of that, unless the message was
  // delivered meanwhile.
  void report_shortage() noexcept;

  // Any thread.
  // 1 to `limit` messages, up to the next report. LWMQ_E_EMPTY, or a report that is due, with its text.
  Status take(std::uint32_t limit, Message** out_messages, std::uint32_t* out_count);
  // Neither a message nor a report is there.
  [[nodiscard]] bool empty() const noexcept {
    return size() == 0 && !reported_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  // How many messages of `place` are there.
  [[nodiscard]] std::uint64_t size_of(std::size_t place) noexcept;
  [[nodiscard]] std::uint64_t discarded() const noexcept {
    return discarded_.load(std::memory_order_relaxed);
  }
  // How many messages were lost with the peers whose end was reported and not taken.
  [[nodiscard]] std::uint64_t untold_losses() noexcept;
  // Drops everything.
  void clear(Completions& completions) noexcept;

 private:
  // A message, with the place that landed it in its low bits: messages are aligned to cache lines. This needs
  // no memory.
  class Placed {
   public:
    Placed() = default;
    Placed(Message* message, std::size_t place) noexcept
        : word_(reinterpret_cast<std::uintptr_t>(message) | place) {}
    // As the message before links to it, in Message::next.
    static Placed linked_to(const Message* before) noexcept {
      Placed placed;
      placed.word_ = reinterpret_cast<std::uintptr_t>(before->next);
      return placed;
    }
    void link_to(Message* before) const noexcept { before->next = reinterpret_cast<Message*>(word_); }
    [[nodiscard]] Message* message() const noexcept {
      return reinterpret_cast<Message*>(word_ & ~std::uintptr_t{kPlacesMax - 1});
    }
    [[nodiscard]] std::size_t place() const noexcept { return word_ & (kPlacesMax - 1); }

   private:
    std::uintptr_t word_ = 0;
  };

  Message* pop() noexcept;
  void note_reports() noexcept;

  const std::uint32_t kind_;
  const std::uint64_t capacity_;
  std::mutex mutex_;  // guards what follows; counters are written under it and read by anybody
  Placed first_;      // valid where size_ is not 0, like last_
  Message* last_ = nullptr;
  std::uint64_t gone_ = 0;  // messages that were taken or discarded
  std::unique_ptr<Report> first_report_;
  Report* last_report_ = nullptr;
  bool is_short_ = false;             // memory was short for the next message
  std::vector<std::uint64_t> sizes_;  // by place; empty unless tell_apart was called
  std::atomic<bool> reported_{false};
  std::atomic<std::uint64_t> size_{0};
  std::atomic<std::uint64_t> discarded_{0};
};

}  // namespace lwmq::conversation
