// RDMA devices by the Internet addresses of their networks, as rdma_cm knows them.
#pragma once

#include "base/status.h"
#include "lwmq/lwmq.h"
#include "providers/rdma/verbs.h"
#include "sockets/address.h"
#include "sockets/family.h"

namespace lwmq::rdma {

// An address of the device that the settings name, or of the first device that there is. LWMQ_E_ADDRESS:
// there is none. LWMQ_E_UNSUPPORTED: the libraries are missing.
Status find_device(const sockets::Address& address, const sockets::Own& own, sockets::Place* out_place);
// What the device by which this host reaches `place` lets this process register. Leaves it alone where there
// is none.
void fill_limits(const sockets::Address& address, const sockets::Place& place, lwmq_limits* out_limits);
// Before the first queue of a device in this process. It concerns soft-iWARP alone: its library refuses the
// queue whose memory the kernel offers at 0x90000 (SIW_INVAL_UOBJ_KEY of rdma/siw-abi.h), which is where the
// twentieth connection may find its own. A queue that nobody uses takes that place.
void make_usable(const Verbs& verbs, ibv_context* device);
// An address of IPv4 or IPv6.
sockets::Place place_of(const sockaddr& address) noexcept;
sockets::Place with_port(const sockets::Place& place, std::uint32_t port) noexcept;
bool have_one_host(const sockets::Place& a, const sockets::Place& b) noexcept;

}  // namespace lwmq::rdma
