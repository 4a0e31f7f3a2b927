// tcp://host:port[/name] and tcps://, the same under TLS.
#include "providers/tcp/family.h"

#include <linux/tcp.h>
#include <netinet/in.h>

#include "sockets/ip.h"
#include "sockets/provider.h"

namespace lwmq::tcp {
namespace {

using sockets::Address;
using sockets::Answer;
using sockets::Family;
using sockets::Place;

void set(int socket, int level, int option, int value) noexcept {
  setsockopt(socket, level, option, &value, sizeof value);
}

// Where nothing is on its way to the peer, the kernel probes whether the peer's host is there: from the half
// of the time on, each tenth of it, and each second at the most.
void prepare(int socket, std::uint32_t silent_s) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, silent_s > 0 ? 1 : 0);
  if (silent_s == 0) return;
  const int all_s = static_cast<int>(silent_s), after_s = all_s / 2, every_s = std::max(all_s / 10, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, after_s);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, every_s);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, (all_s - after_s) / every_s);
}

// TCP_USER_TIMEOUT is not set, because it also ends a connection to a process that reads nothing for a while.
Answer answer_of(int socket) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
      (info.tcpi_unacked == 0 && info.tcpi_notsent_bytes == 0))
    return Answer::kNoneAwaited;
  const bool repeats = info.tcpi_retransmits > 0 || info.tcpi_probes > 0;
  return repeats && info.tcpi_last_ack_recv >= sockets::kLookMs ? Answer::kMissing : Answer::kCame;
}

}  // namespace

constinit const Family kFamily = {
    .scheme = "tcp://",
    .secure_scheme = "tcps://",
    .form = sockets::ip::kForm,
    .loopbacks = "127.0.0.1, [::1] or localhost",
    .port_max = sockets::ip::kPortMax,
    .takes_wait_all = true,
    .silent_s = 10,
    .take_host = sockets::ip::take_host,
    .resolve = sockets::ip::resolve,
    .host_for_clients = sockets::ip::host_for_clients,
    .port = sockets::ip::port_of,
    .is_loopback = sockets::ip::is_loopback,
    .text = sockets::ip::text_of,
    .explain = [](const Address&, int) -> Status { return LWMQ_OK; },
    .prepare = prepare,
    .connect = [](int socket, const Place& place) { return connect(socket, place.get(), place.bytes); },
    .answer = answer_of,
};

namespace {

constexpr const char* kSettings[] = {"auth", "engine", "silent", nullptr};
constexpr const char* kSecureSettings[] = {"psk",    "certificate", "private_key", "authority",
                                           "engine", "silent",      nullptr};
constexpr lwmq_tli_provider kTcpProvider = sockets::provider_of<kFamily, false>("tcp", kSettings);
constexpr lwmq_tli_provider kTcpsProvider = sockets::provider_of<kFamily, true>("tcps", kSecureSettings);

}  // namespace
}  // namespace lwmq::tcp

using lwmq::tcp::kTcpProvider;
using lwmq::tcp::kTcpsProvider;
LWMQ_TLI_REGISTER(kTcpProvider);
LWMQ_TLI_REGISTER(kTcpsProvider);
