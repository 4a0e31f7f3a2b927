#include "os/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

#include "os/clock.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

namespace lwmq::os {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// The kernel's struct futex_waitv; ours, because older headers lack it.
struct KernelWaiter {
  std::uint64_t value;
  std::uint64_t address;
  std::uint32_t flags;
  std::uint32_t reserved;
};
static_assert(sizeof(KernelWaiter) == 24);

constexpr std::uint32_t kSize32Shared = 2;  // FUTEX_32 without FUTEX_PRIVATE_FLAG
constexpr std::int64_t kFallbackSliceNs = 10'000'000;
// Waiting without end sleeps a day at a time: with a timeout the kernel reports EINTR after every handler,
// without one it would go on after those that were installed with SA_RESTART.
constexpr std::int64_t kForeverNs = 86'400'000'000'000;

int operation(int of_any_process, Sleepers sleepers) noexcept {
  return sleepers == Sleepers::kOfThisProcess ? of_any_process | FUTEX_PRIVATE_FLAG : of_any_process;
}

timespec to_timespec(std::int64_t ns) noexcept {
  timespec time{};
  time.tv_sec = ns / 1'000'000'000;
  time.tv_nsec = ns % 1'000'000'000;
  return time;
}

WaitResult result_of_errno() noexcept {
  switch (errno) {
    case EAGAIN:
      return WaitResult::kChanged;
    case ETIMEDOUT:
      return WaitResult::kTimedOut;
    case EINTR:
      return WaitResult::kInterrupted;
    default:
      return WaitResult::kWoken;  // a caller that looks again is right in any case
  }
}

// Whether the kernel has futex_waitv: 1 until it has refused. A stale value costs one more refusal.
std::atomic<bool> waitv_works{true};

WaitResult wait_any_by_slices(const FutexWord* words, std::size_t count, std::int64_t timeout_ns) noexcept {
  const std::int64_t deadline = timeout_ns < 0 ? INT64_MAX : now_ns() + timeout_ns;
  for (;;) {
    for (std::size_t i = 1; i < count; ++i) {
      if (words[i].word->load(std::memory_order_acquire) != words[i].expected) return WaitResult::kChanged;
    }
    const std::int64_t left = deadline - now_ns();
    const std::int64_t slice = std::min(std::max<std::int64_t>(left, 0), kFallbackSliceNs);
    const WaitResult result = futex_wait(*words[0].word, words[0].expected, slice);
    if (result != WaitResult::kTimedOut || left <= kFallbackSliceNs) return result;
  }
}

}  // namespace

WaitResult futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::int64_t timeout_ns,
                      Sleepers sleepers) noexcept {
  const bool forever = timeout_ns < 0 || timeout_ns > kForeverNs;
  const timespec timeout = to_timespec(forever ? kForeverNs : timeout_ns);
  if (syscall(SYS_futex, &word, operation(FUTEX_WAIT, sleepers), expected, &timeout, nullptr, 0) == 0)
    return WaitResult::kWoken;
  const WaitResult result = result_of_errno();
  return forever && result == WaitResult::kTimedOut ? WaitResult::kWoken : result;
}

WaitResult futex_wait_any(const FutexWord* words, std::size_t count, std::int64_t timeout_ns) noexcept {
  if (count == 1) return futex_wait(*words[0].word, words[0].expected, timeout_ns);
  if (!waitv_works.load(std::memory_order_relaxed)) return wait_any_by_slices(words, count, timeout_ns);
  KernelWaiter waiters[kFutexWordsMax];
  count = std::min(count, kFutexWordsMax);
  for (std::size_t i = 0; i < count; ++i) {
    waiters[i] = {words[i].expected, reinterpret_cast<std::uintptr_t>(words[i].word), kSize32Shared, 0};
  }
  const bool forever = timeout_ns < 0 || timeout_ns > kForeverNs;
  const timespec deadline = to_timespec(now_ns() + (forever ? kForeverNs : timeout_ns));
  if (syscall(SYS_futex_waitv, waiters, count, 0, &deadline, CLOCK_MONOTONIC) >= 0) return WaitResult::kWoken;
  if (errno == ENOSYS || errno == EPERM) {  // EPERM: a seccomp filter that does not know the call
    waitv_works.store(false, std::memory_order_relaxed);
    return wait_any_by_slices(words, count, timeout_ns);
  }
  const WaitResult result = result_of_errno();
  return forever && result == WaitResult::kTimedOut ? WaitResult::kWoken : result;
}

void futex_wake_all(const std::atomic<std::uint32_t>& word, Sleepers sleepers) noexcept {
  syscall(SYS_futex, &word, operation(FUTEX_WAKE, sleepers), INT_MAX, nullptr, nullptr, 0);
}

void futex_wake_one(const std::atomic<std::uint32_t>& word, Sleepers sleepers) noexcept {
  syscall(SYS_futex, &word, operation(FUTEX_WAKE, sleepers), 1, nullptr, nullptr, 0);
}

}  // namespace lwmq::os
