#include "providers/rdma/regions.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <fstream>
#include <string>

#include "base/limits.h"
#include "providers/rdma/counters.h"

namespace lwmq::rdma {
namespace {

Status explain(ibv_pd* domain, std::uint64_t bytes, int error, const Verbs& verbs) noexcept {
  const char* device = verbs.ibv_get_device_name(domain->context->device);
  rlimit locked{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  const std::uint64_t regions = counters().regions.load(std::memory_order_relaxed);
  if (error == ENOMEM && locked.rlim_cur != RLIM_INFINITY)
    return fail(
        LWMQ_E_NO_MEMORY,
        "%s: registering %" PRIu64 " bytes: this process may lock %" PRIu64 " KiB of memory and has %" PRIu64
        " regions; raise the limit (ulimit -l, LimitMEMLOCK= of systemd, --ulimit memlock of a container)",
        device, bytes, static_cast<std::uint64_t>(locked.rlim_cur) / kKiB, regions);
  ibv_device_attr limits{};
  verbs.ibv_query_device(domain->context, &limits);
  return fail_call(LWMQ_E_NO_MEMORY, error,
                   "%s: registering %" PRIu64 " bytes beside %" PRIu64
                   " regions of this process; the device has at most %d, of %" PRIu64 " bytes each",
                   device, bytes, regions, limits.max_mr, static_cast<std::uint64_t>(limits.max_mr_size));
}

bool may_lock_everything() noexcept {
  __user_cap_header_struct who{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct may[_LINUX_CAPABILITY_U32S_3] = {};
  return syscall(SYS_capget, &who, may) == 0 && (may[0].effective & 1u << CAP_IPC_LOCK) != 0;
}

}  // namespace

// The kernel counts what devices use, by pages, apart from what mlock has locked.
std::uint64_t bytes_to_lock() noexcept {
  rlimit locked{};
  if (may_lock_everything() || getrlimit(RLIMIT_MEMLOCK, &locked) != 0 || locked.rlim_cur == RLIM_INFINITY)
    return UINT64_MAX;
  std::uint64_t pinned_kib = 0;
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name; status.ignore(kKiB, '\n')) {
    if (name == "VmPin:") status >> pinned_kib;
  }
  const auto page = static_cast<std::uint64_t>(getpagesize());
  const std::uint64_t pinned = pinned_kib * kKiB, limit = locked.rlim_cur / page * page;
  return limit - std::min(limit, pinned);
}

Status make_region(const Verbs& verbs, ibv_pd* domain, const void* memory, std::uint64_t bytes, int access,
                   ibv_mr** out_region) noexcept {
  *out_region = verbs.ibv_reg_mr(domain, const_cast<void*>(memory), bytes, access);
  if (*out_region == nullptr && errno == EFAULT)
    return fail_call(LWMQ_E_UNSUPPORTED, errno, "%s: registering %" PRIu64 " bytes",
                     verbs.ibv_get_device_name(domain->context->device), bytes);
  if (*out_region == nullptr) return explain(domain, bytes, errno, verbs);
  counters().registrations.fetch_add(1, std::memory_order_relaxed);
  counters().regions.fetch_add(1, std::memory_order_relaxed);
  return LWMQ_OK;
}

void drop_region(const Verbs& verbs, ibv_mr* region) noexcept {
  verbs.ibv_dereg_mr(region);
  counters().regions.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace lwmq::rdma
