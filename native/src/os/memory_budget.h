// How much memory we may still take: asked before every segment, because shared memory that does not fit ends
// in the OOM killer, not in an error.
//
// Two limits. The *room* is what the machine has available now and what each cgroup above us still allows.
// The *budget* is what this process may hold in windows (lwmq_set_window_memory), touched or not: memory that
// a window has not touched yet is missing in the room, so it is the budget that keeps many windows together
// within bounds.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace lwmq::os {

// Where the tightest limit is, and what is left under it.
struct MemoryRoom {
  std::uint64_t free_bytes = UINT64_MAX;
  char where[192] = "";  // "MemAvailable", or the cgroup's file
};

// Reads MemAvailable and every memory limit of the cgroups (v2 and v1) above this process.
// The two roots are "/proc" and "/sys/fs/cgroup" but in tests.
MemoryRoom read_memory_room(const char* proc_root, const char* cgroup_root) noexcept;

// LWMQ_E_NO_MEMORY with both numbers when `bytes` more would not fit the room. Small requests are not looked
// up.
Status check_room(std::uint64_t bytes) noexcept;

// Counts `bytes` as held in windows. LWMQ_E_NO_MEMORY with the numbers when over the budget. Any thread.
Status reserve_window_memory(std::uint64_t bytes) noexcept;
void give_back_window_memory(std::uint64_t bytes) noexcept;
[[nodiscard]] std::uint64_t window_memory_held() noexcept;
[[nodiscard]] std::uint64_t window_memory_budget() noexcept;

// Sets the budget; 0: the default, half of the room when first asked.
void set_window_memory(std::uint64_t bytes_max) noexcept;

}  // namespace lwmq::os
