#include "os/unique_fd.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace lwmq::os {
namespace {

// One bit per descriptor number that a UniqueFd holds. Set and cleared by any thread, read by a child at
// birth. A fork between a system call that makes a descriptor and its mark leaks that one into the child:
// rare, and CLOEXEC or the child's end repair it. Numbers past the end are not tracked.
constexpr int kTracked = 65536;
std::atomic<std::uint64_t> marks[kTracked / 64];

std::uint64_t bit_of(int fd) noexcept { return std::uint64_t{1} << (fd % 64); }

// System calls and plain stores only: the child of a process with threads may do no more.
void close_marked_in_child() noexcept {
  for (int word = 0; word < kTracked / 64; ++word) {
    std::uint64_t bits = marks[word].exchange(0, std::memory_order_relaxed);
    for (; bits != 0; bits &= bits - 1) close(word * 64 + __builtin_ctzll(bits));
  }
}

__attribute__((constructor)) void install() noexcept {
  pthread_atfork(nullptr, nullptr, close_marked_in_child);
}

}  // namespace

UniqueFd::UniqueFd(int fd) noexcept : fd_(fd) {
  if (fd >= 0 && fd < kTracked) marks[fd / 64].fetch_or(bit_of(fd), std::memory_order_relaxed);
}

void UniqueFd::reset() noexcept {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0) return;
  if (fd < kTracked) {
    const std::uint64_t before = marks[fd / 64].fetch_and(~bit_of(fd), std::memory_order_relaxed);
    if ((before & bit_of(fd)) == 0)
      return;  // we are a forked child: the number may be somebody else's by now
  }
  close(fd);
}

}  // namespace lwmq::os
