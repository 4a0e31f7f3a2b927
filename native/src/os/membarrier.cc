#include "os/membarrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lwmq::os {
namespace {

long membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0); }

bool register_process() noexcept {
  const long commands = membarrier(MEMBARRIER_CMD_QUERY);
  constexpr long kNeeded = MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
  if (commands < 0 || (commands & kNeeded) != kNeeded) return false;
  return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

bool register_threads() noexcept {
  const long commands = membarrier(MEMBARRIER_CMD_QUERY);
  constexpr long kNeeded = MEMBARRIER_CMD_PRIVATE_EXPEDITED | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
  if (commands < 0 || (commands & kNeeded) != kNeeded) return false;
  return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

}  // namespace

bool membarrier_available() noexcept {
  static const bool available = register_process();
  return available;
}

void heavy_barrier() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (membarrier_available()) membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void heavy_barrier_within() noexcept {
  static const bool registered = register_threads();
  // A forked child is not registered: the wider barrier asks for nothing.
  if (!registered || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0) heavy_barrier();
}

}  // namespace lwmq::os
