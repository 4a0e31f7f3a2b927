#include "os/membarrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lwmq::os {
namespace {

long membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0); }

bool registered_for(long command, long registration) noexcept {
  const long commands = membarrier(MEMBARRIER_CMD_QUERY);
  const long needed = command | registration;
  return commands >= 0 && (commands & needed) == needed && membarrier(static_cast<int>(registration)) == 0;
}

}  // namespace

bool membarrier_available() noexcept {
  static const bool available =
      registered_for(MEMBARRIER_CMD_GLOBAL_EXPEDITED, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
  return available;
}

void heavy_barrier() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (membarrier_available()) membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void heavy_barrier_within() noexcept {
  static const bool registered =
      membarrier_available() &&
      registered_for(MEMBARRIER_CMD_PRIVATE_EXPEDITED, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // A forked child is not registered: the wider barrier asks for nothing.
  if (!registered || membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0) heavy_barrier();
}

}  // namespace lwmq::os
