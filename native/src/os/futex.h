// Sleeping on words, of memory that processes share or of our own, and waking the sleepers.
//
// std::atomic::wait sleeps on a private futex and never wakes another process; nor does it know signals. A
// waiter may have the word mapped read-only. Every wait may end early; the caller looks again.
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

// Where those are who sleep on a word; the same for all who wait and wake. Of one process the kernel need not
// look for the page: a wake costs half.
enum class Sleepers : std::uint8_t { kOfAnyProcess, kOfThisProcess };

struct FutexWord {
  const std::atomic<std::uint32_t>* word;
  std::uint32_t expected;
};

// The most words that one futex_wait_any can wait on.
inline constexpr std::size_t kFutexWordsMax = 128;

// Sleeps while `word` is `expected`, at most `timeout_ns`; < 0: for ever.
WaitResult futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::int64_t timeout_ns,
                      Sleepers sleepers = Sleepers::kOfAnyProcess) noexcept;

// Sleeps while every one of `count` words is as expected. 1 <= count <= kFutexWordsMax.
// Where the kernel has no futex_waitv (before 5.16, or a filter forbids it), sleeps on the first word alone
// and looks at the others every 10 ms: correct, but such a sleeper has wake-ups.
WaitResult futex_wait_any(const FutexWord* words, std::size_t count, std::int64_t timeout_ns) noexcept;

// Wakes all who sleep on `word`. It may be mapped read-only here.
void futex_wake_all(const std::atomic<std::uint32_t>& word,
                    Sleepers sleepers = Sleepers::kOfAnyProcess) noexcept;
// Wakes one of them, if there is one.
void futex_wake_one(const std::atomic<std::uint32_t>& word, Sleepers sleepers) noexcept;

}  // namespace lwmq::os
