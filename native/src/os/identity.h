// Who this process is, and whether it is still the process that began to use the library.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lwmq/lwmq.h"

namespace lwmq::os {

// Host, boot, network namespace, process. `instance` is random and another one in a forked child.
// Never fails: what the kernel does not tell is empty or 0. The user is that of the load: who serves or shows
// himself asks geteuid, for a daemon becomes another one in between.
[[nodiscard]] const lwmq_identity& identity() noexcept;

enum class Use : std::uint32_t { kNone, kOurs, kForked };
// Written by any thread of the first process (none -> ours), and once by the fork handler of a child, while
// it has one thread (ours -> forked).
extern std::atomic<Use> use;

// True in the child of a fork whose parent had begun to use the library: threads and mappings are the
// parent's, every call answers LWMQ_E_CLOSED. To ask is to use: the first call binds the library to this
// process, so a child of a process that had only loaded it is free to begin by itself.
[[nodiscard, gnu::always_inline]] inline bool forked() noexcept {
  const Use now = use.load(std::memory_order_relaxed);
  if (now == Use::kOurs) [[likely]]
    return false;
  if (now == Use::kNone) use.store(Use::kOurs, std::memory_order_relaxed);
  return now == Use::kForked;
}

// The same the other way round, for whoever has something whose making has asked forked: before that it is
// false.
[[nodiscard, gnu::always_inline]] inline bool still_ours() noexcept {
  return use.load(std::memory_order_relaxed) == Use::kOurs;
}

// Fills `data` with random bytes of the kernel's. Waits only before the first seeding after boot.
void random_bytes(void* data, std::size_t bytes) noexcept;

}  // namespace lwmq::os
