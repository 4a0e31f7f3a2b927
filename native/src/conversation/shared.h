// What the conversations of one channel share. The channel owns it, and it outlives them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "conversation/peers.h"
#include "os/futex.h"
#include "reliability/merge.h"

namespace lwmq::conversation {

struct Shared {
  Peers peers;
  std::atomic<std::uint64_t> ends{0};     // how many peers have ended, over all transports
  std::atomic<std::uint32_t> callers{0};  // threads in calls that wait; see `caller` in conversation.h
  std::int64_t lingered_ns = 0;           // in closes that a signal has ended

  // Fixed when the channel opens.
  bool several = false;                       // there is more than one conversation
  bool redundant = false;                     // and all of them lead to one peer: messages have numbers
  std::unique_ptr<reliability::Merge> merge;  // where they are redundant

  // Used only where there are several.
  std::atomic<std::uint32_t> changes{0};        // futex: the changes of all conversations
  std::atomic<std::uint32_t> followers{0};      // threads that wait for messages in the common receive queue
  std::atomic<std::int64_t> merge_until_ns{0};  // when merge has a message even if nothing comes; 0: never

  void changed() noexcept {
    changes.fetch_add(1, std::memory_order_release);  // sync: change
    os::futex_wake_all(changes, os::Sleepers::kOfThisProcess);
  }
};

// Around a call that waits: the destruction of the channel waits until that call has left. It begins before
// the call looks at the phase, or while the call holds what a close needs.
class Inside {
 public:
  explicit Inside(Shared& shared) noexcept : callers_(shared.callers) { callers_.fetch_add(1); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { callers_.fetch_sub(1, std::memory_order_release); }  // sync: caller

 private:
  std::atomic<std::uint32_t>& callers_;
};

}  // namespace lwmq::conversation
