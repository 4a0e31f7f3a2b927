// Memory of this process that a device may read or write. Each connection registers what it uses once, and
// keeps it until it ends.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "providers/rdma/verbs.h"

namespace lwmq::rdma {

// `access`: of ibv_access_flags. LWMQ_E_NO_MEMORY, with the limit that was met. LWMQ_E_UNSUPPORTED: the
// device does not take such memory.
Status make_region(const Verbs& verbs, ibv_pd* domain, const void* memory, std::uint64_t bytes, int access,
                   ibv_mr** out_region) noexcept;
// How many bytes more this process may lock; UINT64_MAX: no limit.
std::uint64_t bytes_to_lock() noexcept;
void drop_region(const Verbs& verbs, ibv_mr* region) noexcept;

}  // namespace lwmq::rdma
