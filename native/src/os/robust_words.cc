#include "os/robust_words.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/yield_point.h"
#include "os/futex.h"

namespace lwmq::os {
namespace {

// The list is private memory: shared memory carries no pointers. Written by the holding thread, read by the
// kernel.
struct Hold {
  robust_list_head head;
  robust_list nodes[kRobustSlotsMax];
  RobustSlot* slots;
  std::size_t count;
};
static_assert(sizeof(robust_list) == sizeof(RobustSlot));

Hold hold;

}  // namespace

Status hold_robust_words(RobustSlot* slots, std::size_t count) noexcept {
  if (count == 0 || count > kRobustSlotsMax) {
    return fail(LWMQ_E_INVALID, "%zu robust words; 1 to %zu are possible", count, kRobustSlotsMax);
  }
  const auto tid = static_cast<std::uint32_t>(syscall(SYS_gettid));
  hold.slots = slots;
  hold.count = count;
  for (std::size_t i = 0; i < count; ++i) {
    hold.nodes[i].next = i + 1 < count ? &hold.nodes[i + 1] : &hold.head.list;
  }
  hold.head.list.next = &hold.nodes[0];
  hold.head.futex_offset = static_cast<long>(reinterpret_cast<std::uintptr_t>(slots) -
                                             reinterpret_cast<std::uintptr_t>(hold.nodes));
  hold.head.list_op_pending = nullptr;
  // The words before the list: a thread that dies in between leaves words that nobody has been shown yet.
  // FUTEX_WAITERS from the start, because peers cannot set it: they map the words read-only.
  for (std::size_t i = 0; i < count; ++i) slots[i].word.store(tid | FUTEX_WAITERS, std::memory_order_release);
  LWMQ_YIELD("words.stored");
  if (syscall(SYS_set_robust_list, &hold.head, sizeof hold.head) != 0) {
    return fail_call(LWMQ_E_UNSUPPORTED, errno, "set_robust_list");
  }
  return LWMQ_OK;
}

void drop_robust_words() noexcept {
  hold.head.list.next = &hold.head.list;
  for (std::size_t i = 0; i < hold.count; ++i) {
    hold.slots[i].word.store(FUTEX_OWNER_DIED, std::memory_order_release);
    futex_wake_all(hold.slots[i].word);
  }
}

}  // namespace lwmq::os
