#include "providers/rdma/devices.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "os/unique_fd.h"
#include "providers/rdma/regions.h"
#include "sockets/ip.h"

namespace lwmq::rdma {
namespace {

// Calls `use` with the device behind an address of this host, if there is one.
template <typename Use>
void with_device_at(const Verbs& verbs, const sockets::Place& place, Use&& use) {
  rdma_cm_id* id = nullptr;
  if (verbs.rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) != 0) return;
  sockets::Place copy = place;
  if (verbs.rdma_bind_addr(id, copy.get()) == 0 && id->verbs != nullptr) use(id->verbs);
  verbs.rdma_destroy_id(id);
}

// The address from which this host reaches `place`. Nothing is sent.
bool find_source(const sockets::Place& place, sockets::Place* out_source) noexcept {
  const os::UniqueFd socket(::socket(place.address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  out_source->bytes = sizeof out_source->address;
  return socket && connect(socket.get(), place.get(), place.bytes) == 0 &&
         getsockname(socket.get(), out_source->get(), &out_source->bytes) == 0;
}

}  // namespace

Status find_device(const sockets::Address& address, const sockets::Own& own, sockets::Place* out_place) {
  const Verbs* verbs = nullptr;
  if (const Status status = open_verbs(&verbs); status != LWMQ_OK) return status;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return fail_call(LWMQ_E_SYSTEM, errno, "getifaddrs");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> kept(all, freeifaddrs);
  std::string seen;
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_LOOPBACK) != 0 || (at->ifa_flags & IFF_UP) == 0)
      continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const sockets::Place place = place_of(*at->ifa_addr);
    std::string device;
    with_device_at(*verbs, place,
                   [&](ibv_context* found) { device = verbs->ibv_get_device_name(found->device); });
    if (device.empty()) continue;
    if (own.device.empty() || own.device == device) {
      *out_place = place;
      return LWMQ_OK;
    }
    if (seen.find(device) == std::string::npos) seen += (seen.empty() ? "" : ", ") + device;
  }
  const char* text = address.text.c_str();
  if (seen.empty())
    return fail(
        LWMQ_E_ADDRESS,
        "%s: this machine has no RDMA device with an Internet address; `rdma link` lists devices, and "
        "`rdma link add rxe0 type rxe netdev eth0` makes one of software",
        text);
  return fail(LWMQ_E_ADDRESS, "%s: device=%s; there are %s", text, own.device.c_str(), seen.c_str());
}

void make_usable(const Verbs& verbs, ibv_context* device) {
  constexpr std::uint32_t kVendorOfSoftIwarp = 0x626d74;
  constexpr int kEntries = 32768;  // 1 MiB from 0, which has 0x90000 in it
  static std::mutex mutex;
  static auto* const seen = new std::set<ibv_context*>;  // librdmacm keeps a device open
  const std::lock_guard lock(mutex);
  if (!seen->insert(device).second) return;
  ibv_device_attr known{};
  if (verbs.ibv_query_device(device, &known) == 0 && known.vendor_id == kVendorOfSoftIwarp)
    verbs.ibv_create_cq(device, kEntries, nullptr, nullptr, 0);
}

void fill_limits(const sockets::Address& address, const sockets::Place& place, lwmq_limits* out_limits) {
  const Verbs* verbs = nullptr;
  if (open_verbs(&verbs) != LWMQ_OK) return;
  sockets::Place at;
  const bool is_any = sockets::ip::is_loopback(place) || address.host == "*";
  if (is_any ? find_device(address, {}, &at) != LWMQ_OK : !find_source(place, &at)) return;
  with_device_at(*verbs, with_port(at, 0), [&](ibv_context* device) {
    ibv_device_attr limits{};
    if (verbs->ibv_query_device(device, &limits) != 0) return;
    out_limits->regions_max = static_cast<std::uint64_t>(limits.max_mr);
    out_limits->registered_bytes_max = std::min<std::uint64_t>(bytes_to_lock(), limits.max_mr_size);
  });
}

sockets::Place place_of(const sockaddr& address) noexcept {
  sockets::Place place;
  place.bytes = address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(place.get(), &address, place.bytes);
  return place;
}

sockets::Place with_port(const sockets::Place& place, std::uint32_t port) noexcept {
  sockets::Place changed = place;
  const auto number = htons(static_cast<std::uint16_t>(port));
  if (place.address.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(changed.address).sin_port = number;
  } else {
    reinterpret_cast<sockaddr_in6&>(changed.address).sin6_port = number;
  }
  return changed;
}

bool have_one_host(const sockets::Place& a, const sockets::Place& b) noexcept {
  if (a.address.ss_family != b.address.ss_family) return false;
  if (a.address.ss_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(a.address).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b.address).sin_addr.s_addr;
  return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a.address).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(b.address).sin6_addr, sizeof(in6_addr)) == 0;
}

}  // namespace lwmq::rdma
