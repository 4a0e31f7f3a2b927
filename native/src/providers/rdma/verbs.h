// What we use of libibverbs and librdmacm. The libraries are opened when an address first needs them: a
// machine without them has everything else.
#pragma once

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/status.h"

namespace lwmq::rdma {

#define LWMQ_VERBS_FUNCTIONS(X) \
  X(ibv_fork_init)              \
  X(ibv_reg_mr)                 \
  X(ibv_dereg_mr)               \
  X(ibv_create_comp_channel)    \
  X(ibv_destroy_comp_channel)   \
  X(ibv_create_cq)              \
  X(ibv_destroy_cq)             \
  X(ibv_get_cq_event)           \
  X(ibv_ack_cq_events)          \
  X(ibv_query_device)           \
  X(ibv_query_port)             \
  X(ibv_get_device_name)
#define LWMQ_RDMACM_FUNCTIONS(X) \
  X(rdma_create_event_channel)   \
  X(rdma_destroy_event_channel)  \
  X(rdma_create_id)              \
  X(rdma_destroy_id)             \
  X(rdma_migrate_id)             \
  X(rdma_bind_addr)              \
  X(rdma_resolve_addr)           \
  X(rdma_resolve_route)          \
  X(rdma_create_qp)              \
  X(rdma_destroy_qp)             \
  X(rdma_listen)                 \
  X(rdma_accept)                 \
  X(rdma_reject)                 \
  X(rdma_connect)                \
  X(rdma_disconnect)             \
  X(rdma_get_cm_event)           \
  X(rdma_ack_cm_event)

// Those behind the macros.
#undef ibv_reg_mr
#undef ibv_query_port
#define LWMQ_VERBS_MEMBER(name) decltype(&::name) name = nullptr;
struct Verbs {
  LWMQ_VERBS_FUNCTIONS(LWMQ_VERBS_MEMBER)
  LWMQ_RDMACM_FUNCTIONS(LWMQ_VERBS_MEMBER)
};
#undef LWMQ_VERBS_MEMBER

// LWMQ_E_UNSUPPORTED, with the packages that are missing.
Status open_verbs(const Verbs** out_verbs) noexcept;

// Events of a channel are read without waiting.
inline void do_not_block(int fd) noexcept { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace lwmq::rdma
