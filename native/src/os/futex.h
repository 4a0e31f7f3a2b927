// Sleeping on words of memory that processes share, and waking the sleepers.
//
// std::atomic::wait sleeps on a private futex and never wakes another process, hence our own. A waiter may
// have the word mapped read-only. Every wait may end early; the caller looks again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lwmq::os {

enum class WaitResult {
  kWoken,    // somebody woke us, or the kernel let us look again
  kChanged,  // a word was not as expected: did not sleep
  kTimedOut,
  kInterrupted  // a signal was handled (without SA_RESTART, as Python installs its handlers)
};

struct FutexWord {
  const std::atomic<std::uint32_t>* word;
  std::uint32_t expected;
};

// The most words that one futex_wait_any can wait on.
inline constexpr std::size_t kFutexWordsMax = 128;

// Sleeps while `word` is `expected`, at most `timeout_ns`; < 0: for ever.
WaitResult futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                      std::int64_t timeout_ns) noexcept;

// Sleeps while every one of `count` words is as expected. 1 <= count <= kFutexWordsMax.
// Where the kernel has no futex_waitv (before 5.16, or a filter forbids it), sleeps on the first word alone
// and looks at the others every 10 ms: correct, but such a sleeper has wake-ups.
WaitResult futex_wait_any(const FutexWord* words, std::size_t count, std::int64_t timeout_ns) noexcept;

// Wakes all who sleep on `word`. It may be mapped read-only here.
void futex_wake_all(const std::atomic<std::uint32_t>& word) noexcept;

}  // namespace lwmq::os
