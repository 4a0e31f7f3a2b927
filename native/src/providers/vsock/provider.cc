// vsock://cid:port[/name] and vsocks://, the same under TLS: between a virtual machine and its host, without
// a network.
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "os/unique_fd.h"
#include "sockets/address.h"
#include "sockets/provider.h"

namespace lwmq::vsock {
namespace {

using sockets::Address;
using sockets::Family;
using sockets::Place;

constexpr std::uint32_t kPortMax = VMADDR_PORT_ANY - 1;
constexpr std::size_t kDigitsMax = 10;

const sockaddr_vm& as_vm(const Place& place) noexcept {
  return reinterpret_cast<const sockaddr_vm&>(place.address);
}

bool is_loopback(const Place& place) { return as_vm(place).svm_cid == VMADDR_CID_LOCAL; }

const char* take_host(std::string_view* rest, std::string* out_host) {
  constexpr const char* kWrong = "the CID is neither '*' nor a number of 1 to 4294967294";
  const std::size_t end = std::min(rest->find_first_of(":/"), rest->size());
  const std::string_view host = rest->substr(0, end);
  if (host.empty()) return "the CID is missing";
  if (host != "*") {
    const bool is_number = host.size() <= kDigitsMax && host.front() != '0' &&
                           std::all_of(host.begin(), host.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number || std::stoull(std::string(host)) >= VMADDR_CID_ANY) return kWrong;
  }
  *out_host = host;
  rest->remove_prefix(end);
  return nullptr;
}

std::uint32_t cid_of(const Address& address) {
  return address.host == "*" ? VMADDR_CID_ANY : static_cast<std::uint32_t>(std::stoull(address.host));
}

Status resolve(const Address& address, bool /*may_wait*/, std::vector<Place>* out_places) {
  Place place;
  auto& at = reinterpret_cast<sockaddr_vm&>(place.address);
  at.svm_family = AF_VSOCK;
  at.svm_cid = cid_of(address);
  at.svm_port = address.port != 0 ? address.port : VMADDR_PORT_ANY;
  place.bytes = sizeof at;
  out_places->push_back(place);
  return LWMQ_OK;
}

// The CID of this machine, or that of loopback if the machine has no other.
std::uint32_t own_cid() {
  const os::UniqueFd device(open("/dev/vsock", O_RDONLY | O_CLOEXEC));
  std::uint32_t cid = VMADDR_CID_ANY;
  if (!device || ioctl(device.get(), IOCTL_VM_SOCKETS_GET_LOCAL_CID, &cid) != 0 || cid == VMADDR_CID_ANY)
    return VMADDR_CID_LOCAL;
  return cid;
}

std::string host_for_clients(const Address& address) {
  return address.host == "*" ? std::to_string(own_cid()) : address.host;
}

// Without loopback a guest's kernel sends what is for CID 1 to the host, which does not answer. So the socket
// is bound to CID 1 first: that fails at once where there is no loopback.
int connect_to(int socket, const Place& place) {
  sockaddr_vm local{};
  local.svm_family = AF_VSOCK;
  local.svm_cid = VMADDR_CID_LOCAL;
  local.svm_port = VMADDR_PORT_ANY;
  if (is_loopback(place) && bind(socket, reinterpret_cast<sockaddr*>(&local), sizeof local) != 0) return -1;
  return connect(socket, place.get(), place.bytes);
}

// The kernel finds a CID by the modules that are loaded: the errors of bind and connect differ between its
// versions.
Status explain(const Address& address, int error) {
  const char* text = address.text.c_str();
  if (error == EAFNOSUPPORT)
    return fail(LWMQ_E_SYSTEM, "%s: this kernel has no vsock; load its module: modprobe vsock", text);
  if (error != EADDRNOTAVAIL && error != ENODEV && error != ENETUNREACH) return LWMQ_OK;
  const std::uint32_t cid = cid_of(address);
  if (cid == VMADDR_CID_LOCAL || cid == own_cid())
    return fail(LWMQ_E_ADDRESS,
                "%s: this kernel has no vsock loopback; load its module: modprobe vsock_loopback", text);
  if (cid == VMADDR_CID_HOST)
    return fail(LWMQ_E_ADDRESS,
                "%s: CID 2 is the host of a guest; this machine serves no guests and reaches no host", text);
  if (error == ENODEV && access("/dev/vhost-vsock", F_OK) == 0) return LWMQ_E_EMPTY;  // a guest to be started
  return fail(LWMQ_E_ADDRESS,
              "%s: this machine neither is nor reaches CID %u; a host of guests loads its module: modprobe "
              "vhost_vsock",
              text, cid);
}

constexpr Family kFamily = {
    .scheme = "vsock://",
    .secure_scheme = "vsocks://",
    .form = "as host a CID: 1 is this machine, 2 the host of this guest",
    .loopbacks = "CID 1",
    .port_max = kPortMax,
    .takes_wait_all = false,  // the kernel refuses it for more bytes than the socket buffers: ENOMEM
    .silent_s = 0,
    .take_host = take_host,
    .resolve = resolve,
    .host_for_clients = host_for_clients,
    .port = [](const Place& place) { return std::uint32_t{as_vm(place).svm_port}; },
    .is_loopback = is_loopback,
    .text =
        [](const Place& place) {
          return "CID " + std::to_string(as_vm(place).svm_cid) + ", port " +
                 std::to_string(as_vm(place).svm_port);
        },
    .explain = explain,
    .prepare = [](int, std::uint32_t) {},
    .connect = connect_to,
    .answer = nullptr,  // the kernel resets the connections of a virtual machine that ends
};

constexpr const char* kSettings[] = {"auth", "engine", nullptr};
constexpr const char* kSecureSettings[] = {"psk",       "certificate", "private_key",
                                           "authority", "engine",      nullptr};
constexpr lwmq_tli_provider kVsockProvider = sockets::provider_of<kFamily, false>("vsock", kSettings);
constexpr lwmq_tli_provider kVsocksProvider = sockets::provider_of<kFamily, true>("vsocks", kSecureSettings);

}  // namespace
}  // namespace lwmq::vsock

using lwmq::vsock::kVsockProvider;
using lwmq::vsock::kVsocksProvider;
LWMQ_TLI_REGISTER(kVsockProvider);
LWMQ_TLI_REGISTER(kVsocksProvider);
