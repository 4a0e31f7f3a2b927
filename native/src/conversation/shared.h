// What the conversations of one channel have in common, and what whoever waits for any of them sleeps on. It
// outlives them.
//
// Threads meet here at these points:
//
//   change       a thread that changes what others wait for adds to `changes` (release), then wakes; a waiter
//                loads it (acquire) before it looks, and sleeps on that value
//   caller       a waiting thread counts itself in `callers`, then looks at the phase; destroy closes, then
//                waits until nobody is counted (all sequentially consistent except the leave, a release). A
//                thread that holds the landing side meanwhile need not do this: a close takes that first
//   follower     who will sleep counts itself in `followers`, then looks at the receive queue (its lock); who
//                delivers puts a message there (the lock), then loads `followers`: one sees the other
//   leave        who will sleep loads `leaves`, counts itself in `followers`, finds the landing side taken,
//                and sleeps on that value. Who releases it adds to `leaves` if `followers` shows some
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/cache_line.h"
#include "conversation/descriptor.h"
#include "conversation/peers.h"
#include "conversation/receive_queue.h"
#include "conversation/settings.h"
#include "os/futex.h"
#include "reliability/merge.h"

namespace lwmq::conversation {

class Shared {
 public:
  // Around a call that waits: destroy waits until it has left. Begun before a look at the phase, or with what
  // a close needs in hand.
  class Inside {
   public:
    explicit Inside(Shared& shared) noexcept : callers_(shared.callers) { callers_.fetch_add(1); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside() { callers_.fetch_sub(1, std::memory_order_release); }  // sync: caller

   private:
    std::atomic<std::uint32_t>& callers_;
  };

  explicit Shared(const Settings& settings)
      : queue(settings.receive_queue == LWMQ_QUEUE_MONO_UNBOUNDED
                  ? nullptr
                  : std::make_unique<ReceiveQueue>(settings.receive_queue, settings.receive_capacity)) {}

  void changed() noexcept {
    changes.fetch_add(1, std::memory_order_release);  // sync: change
    os::futex_wake_all(changes, os::Sleepers::kOfThisProcess);
    if (queue == nullptr) return;
    leaves.fetch_add(1, std::memory_order_release);  // sync: leave
    os::futex_wake_all(leaves, os::Sleepers::kOfThisProcess);
  }
  // At due_ns. Returns when to call again, INT64_MAX: never.
  std::int64_t ring_when_due(std::int64_t now_ns) noexcept {
    const std::int64_t due = due_ns.load(std::memory_order_relaxed);
    if (due == INT64_MAX || now_ns < due) return due;
    due_ns.store(INT64_MAX, std::memory_order_relaxed);
    ring();
    return INT64_MAX;
  }
  void ring() noexcept {
    if (Descriptor* known = descriptor.load(std::memory_order_acquire); known != nullptr) known->ring();
  }
  // Also for those who poll: a receive has something to say.
  void announce() noexcept {
    changed();
    ring();
  }

  // Fixed before open.
  const std::unique_ptr<ReceiveQueue> queue;  // null: what is received lands when it is asked for
  bool is_alone = true;                       // one conversation
  const reliability::Merge* merge = nullptr;  // where they are ways to one peer: its messages have numbers

  std::unique_ptr<Descriptor> descriptor_owner;  // of the first conversation's landing side
  std::atomic<Descriptor*> descriptor{nullptr};  // written once
  Peers peers;

  alignas(kCacheLine) std::atomic<std::uint32_t> changes{0};  // futex
  std::atomic<std::uint32_t> callers{0};                      // threads in calls that wait
  std::atomic<std::uint32_t> followers{0};                    // threads that wait for what another one lands
  std::atomic<std::uint32_t> leaves{0};                       // futex: as changes, and whoever leads leaves
  std::atomic<bool> called{false};                            // one of them, and it has not come yet
  std::atomic<bool> leader_waits{false};        // in the transport, with the landing side in hand
  std::atomic<std::uint64_t> ends{0};           // of peers, of all transports
  std::atomic<std::int64_t> due_ns{INT64_MAX};  // then a receive has something by the mere passing of time
};

}  // namespace lwmq::conversation
