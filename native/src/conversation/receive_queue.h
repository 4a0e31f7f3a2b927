// The receive queue of a channel whose application may be busy: several threads take from it, and where it is
// bounded the rule says what goes.
//
// Whoever lands, delivers: for each transport one thread at a time, the holder of its landing side. Any
// number take, each message goes to one. A lock guards the list; it is held for a few stores.
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
#include "conversation/take.h"
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

  // Before anything is delivered: that is to be known of each of `places`.
  void tell_apart(std::size_t places) { sizes_.resize(places); }

  // The landing side's.
  // Takes the message, which `place` has landed. What the kind discards goes to `completions`.
  void deliver(Message* message, std::size_t place, Completions& completions) noexcept;
  // Whether deliver would discard what it is given: it need not be made.
  [[nodiscard]] bool refuses() const noexcept;
  void count_refused() noexcept { discarded_.fetch_add(1, std::memory_order_relaxed); }
  // Puts an outcome behind what was delivered: one taker hears it.
  void report(std::unique_ptr<Report> report) noexcept;
  // There is no memory for what comes next: a taker that finds nothing hears of that, unless it was delivered
  // meanwhile.
  void report_shortage() noexcept;

  // Any thread.
  // One or more messages, up to the next report. LWMQ_E_EMPTY, or a report that is due, with its text.
  Status take(Messages& into);
  // Messages and reports.
  [[nodiscard]] bool empty() const noexcept {
    return size() == 0 && !reported_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_.load(std::memory_order_acquire); }
  // Of what `place` has landed.
  [[nodiscard]] std::uint64_t size_of(std::size_t place) noexcept;
  [[nodiscard]] std::uint64_t discarded() const noexcept {
    return discarded_.load(std::memory_order_relaxed);
  }
  // Of what was reported and not taken: how many messages were lost.
  [[nodiscard]] std::uint64_t untold_losses() noexcept;
  // Drops everything.
  void clear(Completions& completions) noexcept;

 private:
  // A message, and in its low bits who has landed it: messages lie at cache lines, and what has come needs no
  // memory.
  class Placed {
   public:
    Placed() = default;
    Placed(Message* message, std::size_t place) noexcept
        : word_(reinterpret_cast<std::uintptr_t>(message) | place) {}
    // As it is linked: the word lies in Message::next.
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
  Placed first_;      // where size_ is not 0, like the last
  Message* last_ = nullptr;
  std::uint64_t gone_ = 0;  // messages that have left
  std::unique_ptr<Report> first_report_;
  Report* last_report_ = nullptr;
  bool is_short_ = false;             // of memory
  std::vector<std::uint64_t> sizes_;  // by place, only where they are told apart
  std::atomic<bool> reported_{false};
  std::atomic<std::uint64_t> size_{0};
  std::atomic<std::uint64_t> discarded_{0};
};

}  // namespace lwmq::conversation
