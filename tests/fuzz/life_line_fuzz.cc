// What a peer says behind the handshake, over the socket that stays: doorbells, window notices, bytes of any
// sort, with descriptors of any kind and number; and every call of ours that reads them, in any order.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

#include "input.h"
#include "stranger.h"

namespace lwmq::fuzz {
namespace {

ipc::Transport* meet(const Things& things, os::UniqueFd life_line) {
  ipc::Address address;
  require(ipc::parse("ipc://fuzz", &address) == LWMQ_OK, "an address");
  static const ipc::AnyMessage honest = things.hello(address);
  os::Received received;
  for (const int fd : {ipc::own_page_fd(), things.offer.side.fd.get()})
    received.fds[received.fd_count++] = os::UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  ipc::TransportParts parts;
  os::PeerCredentials credentials;
  credentials.same_user = true;
  require(ipc::accept_hello(honest.hello, &received, credentials, address, options(), &parts) == LWMQ_OK,
          "an honest hello is accepted");
  ipc::Transport* transport = things.transport_of(std::move(parts));
  transport->take_life_line(std::move(life_line));
  return transport;
}

// Found again by one byte.
void fill_id(std::uint8_t id[16], std::uint8_t with) { std::fill_n(id, 16, with); }

ipc::AnyMessage notice(Input& input) {
  ipc::AnyMessage message{};
  message.window.head = {ipc::kMagic, kProtocolVersion, ipc::kWindowNotice};
  const auto choice = input.take<std::uint8_t>();
  message.window.bytes = (choice & 1) != 0 ? input.take<std::uint64_t>() : ipc::kProcessPageBytes;
  fill_id(message.window.id, choice >> 2 & 3);
  std::memcpy(message.window.owner, os::identity().instance, sizeof message.window.owner);
  if ((choice & 2) != 0) message.window.owner[0] ^= input.take<std::uint8_t>();
  return message;
}

constexpr std::size_t kMostFds = os::kFdsMax + 1;

// By hand: ours sends no more descriptors than are taken.
void send(const Things& things, int socket, const void* data, std::size_t bytes, std::size_t fd_count,
          Input& input) {
  int fds[kMostFds];
  for (std::size_t i = 0; i < fd_count; ++i) fds[i] = things.pick(input.take<std::uint8_t>());
  iovec text{const_cast<void*>(data), bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  if (fd_count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    *header = {CMSG_LEN(fd_count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
  }
  sendmsg(socket, &message, MSG_NOSIGNAL);  // full, or nobody reads any more: as good as unsaid
}

void find(ipc::Transport* transport, std::uint8_t which) {
  std::uint8_t id[16];
  fill_id(id, which & 3);
  ipc::Window* window = nullptr;
  const Status status = transport->find_window(id, 0, &window);
  if (status != LWMQ_OK) {
    require(status == LWMQ_E_TIMED_OUT || last_error()[0] != '\0', "a refusal has a text");
    return;
  }
  require(window->info().id[0] == (which & 3), "it is the one that was asked for");
  touch(window->info().base, window->info().bytes);
  window->release();
}

void drain(int socket) {
  ipc::AnyMessage message{};
  os::Received received;
  while (os::receive_message(socket, &message, sizeof message, &received) == LWMQ_OK)
    require(message.head.magic == ipc::kMagic && received.fd_count > 0, "we send doorbells and windows");
}

}  // namespace
}  // namespace lwmq::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lwmq;
  using namespace lwmq::fuzz;
  static const Things things;
  Sockets line;
  os::UniqueFd peer = std::move(line.theirs);
  ipc::Transport* transport = meet(things, std::move(line.ours));
  Input input(data, size);
  for (int step = 0; step < 64 && !input.empty(); ++step) {
    const auto choice = input.take<std::uint8_t>();
    const auto detail = static_cast<std::uint8_t>(choice >> 4);
    switch (choice & 15) {
      case 0:
      case 1: {
        const ipc::Doorbell doorbell{{ipc::kMagic, kProtocolVersion, ipc::kDoorbell}};
        send(things, peer.get(), &doorbell, sizeof doorbell, 1, input);
        break;
      }
      case 2:
      case 3: {
        const ipc::AnyMessage message = notice(input);
        send(things, peer.get(), &message, sizeof message.window, 2, input);
        break;
      }
      case 4: {
        const std::string bytes = input.take_bytes(input.take<std::uint8_t>());
        send(things, peer.get(), bytes.data(), bytes.size(), detail % (kMostFds + 1), input);
        break;
      }
      case 5: {
        ipc::AnyMessage message = notice(input);  // a head that is known, and the wrong rest
        message.head.kind = detail % 7;
        send(things, peer.get(), &message, input.take<std::uint8_t>(), detail % 3, input);
        break;
      }
      case 6:
        find(transport, detail);
        break;
      case 7:
        transport->arm(LWMQ_TLI_WAIT_EXTENT);
        if ((detail & 1) != 0) transport->arm(0);
        break;
      case 8:
        require(transport->fd() >= 0 || last_error()[0] != '\0', "no descriptor has a text");
        break;
      case 9: {
        lwmq_tli_extent extent{};
        const Status status = transport->land(&extent);
        require(status == LWMQ_E_EMPTY || (is_failure(status) && last_error()[0] != '\0'),
                "nothing was shown");
        break;
      }
      case 10:
        transport->wait(LWMQ_TLI_WAIT_EXTENT, detail & 1);
        break;
      case 11: {
        ipc::Window* window = nullptr;
        require(ipc::create_window(4096, &window) == LWMQ_OK, "there is memory");
        transport->export_window(window);
        window->release();
        break;
      }
      case 12:
        if (peer) drain(peer.get());
        break;
      case 13:
        if (detail == 0) peer.reset();
        break;
      default:
        transport->state();
    }
  }
  transport->close(0, 0);
  return 0;
}
