// The first message of a stranger, with descriptors of any kind: both ends' checks, and what follows from a
// hello that they let pass. Either bytes of any sort, or a hello as it is really sent, with some fields
// changed: past its checks no fuzzer comes by bytes alone.
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

#include "input.h"
#include "os/identity.h"
#include "os/segment.h"
#include "os/thread.h"
#include "providers/ipc/handshake.h"
#include "tli/registry.h"

namespace lwmq::fuzz {
namespace {

lwmq_tli_options options() {
  lwmq_tli_options made{};
  made.size = sizeof made;
  made.buffer_bytes = 4096;
  made.buffers_send = 4;
  made.purpose = LWMQ_TLI_FOR_RAW;
  return made;
}

// Descriptors that a stranger might send. Made once; each input gets duplicates.
struct Things {
  Things() {
    const lwmq_tli_provider* provider = nullptr;
    require(tli::find("ipc://any", &provider) == LWMQ_OK, "ipc is linked");
    static const volatile std::uint32_t never = 0;
    pthread_t thread{};
    os::start_thread(
        "lwmq-service", [](void* table) { static_cast<const lwmq_tli_provider*>(table)->service(&never); },
        const_cast<lwmq_tli_provider*>(provider), &thread);
    pthread_detach(thread);
    require(ipc::wait_until_held() == LWMQ_OK, "the service thread has begun");
    require(ipc::make_offer(options(), &offer) == LWMQ_OK, "there is memory");
    require(os::create_segment("fuzz-page", ipc::kProcessPageBytes, &page) == LWMQ_OK, "there is memory");
    unsealed = os::UniqueFd(memfd_create("fuzz-unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    event = os::UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    null = os::UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC));
    require(ftruncate(unsealed.get(), static_cast<off_t>(offer.side.memory.bytes())) == 0, "there is memory");
  }
  [[nodiscard]] int pick(std::uint8_t which) const noexcept {
    const int all[] = {ipc::own_page_fd(), offer.side.fd.get(), event.get(),
                       page.fd.get(),      unsealed.get(),      null.get()};
    return all[which % std::size(all)];
  }

  // What send_hello really sends, received.
  [[nodiscard]] ipc::AnyMessage hello(const ipc::Address& address) const {
    int ends[2];
    require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
    const os::UniqueFd mine(ends[0]), theirs(ends[1]);
    ipc::AnyMessage message{};
    os::Received received;
    require(ipc::send_hello(mine.get(), address, options(), offer) == LWMQ_OK, "there is room");
    require(os::receive_message(theirs.get(), &message, sizeof message, &received) == LWMQ_OK &&
                received.bytes == sizeof(ipc::Hello),
            "a hello comes as it was sent");
    return message;
  }

  ipc::Offer offer;
  os::Segment page;  // of the right size, and its content is the fuzzer's
  os::UniqueFd unsealed, event, null;
};

struct Field {
  std::size_t at, bytes;
};

#define LWMQ_FIELD(name) \
  Field { offsetof(ipc::Hello, name), sizeof(ipc::Hello::name) }
constexpr Field kFields[] = {{0, 4},
                             {4, 4},
                             {8, 4},  // magic, version, kind
                             LWMQ_FIELD(purpose),
                             LWMQ_FIELD(buffer_bytes),
                             LWMQ_FIELD(side_bytes),
                             LWMQ_FIELD(buffers),
                             LWMQ_FIELD(buffers_receive),
                             LWMQ_FIELD(instance),
                             LWMQ_FIELD(pid),
                             LWMQ_FIELD(death_word),
                             LWMQ_FIELD(name_bytes),
                             LWMQ_FIELD(name)};
#undef LWMQ_FIELD

void change_fields(ipc::Hello& hello, Input& input) {
  while (!input.empty()) {
    const Field& field = kFields[input.take<std::uint8_t>() % std::size(kFields)];
    const std::string value = input.take_bytes(std::min<std::size_t>(field.bytes, 8));
    std::memcpy(reinterpret_cast<std::uint8_t*>(&hello) + field.at, value.data(), value.size());
  }
}

}  // namespace
}  // namespace lwmq::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lwmq;
  using namespace lwmq::fuzz;
  static const Things things;
  Input input(data, size);
  const auto flags = input.take<std::uint8_t>();
  const bool from_listener = (flags & 1) != 0;
  os::Received received;
  received.fd_count = flags >> 4 & 7;
  received.fd_count = std::min(received.fd_count, os::kFdsMax);
  for (std::size_t i = 0; i < received.fd_count; ++i) {
    received.fds[i] = os::UniqueFd(fcntl(things.pick(input.take<std::uint8_t>()), F_DUPFD_CLOEXEC, 0));
  }
  const std::string page = input.take_bytes((flags & 8) != 0 ? 64 : 0);
  std::memset(things.page.memory.data(), 0, things.page.memory.bytes());
  std::memcpy(things.page.memory.data(), page.data(), page.size());
  ipc::Address address;
  require(ipc::parse("ipc://fuzz", &address) == LWMQ_OK, "an address");
  ipc::AnyMessage message{};
  if ((flags & 4) != 0) {
    static const ipc::AnyMessage honest = things.hello(address);
    message = honest;
    received.bytes = sizeof message.hello;
    change_fields(message.hello, input);
  } else {
    const std::string bytes = input.rest();
    received.bytes = std::min(bytes.size(), sizeof message);
    std::memcpy(&message, bytes.data(), received.bytes);
  }
  if ((flags & 2) != 0)
    std::memcpy(message.hello.instance, os::identity().instance, 16);  // no fuzzer guesses that
  const Status status = ipc::check_hello(message, received, address, options(), from_listener);
  if (status != LWMQ_OK) {
    require(is_failure(status) && last_error()[0] != '\0', "a refusal has a text");
    return 0;
  }
  const ipc::Hello& hello = message.hello;
  require(hello.buffers >= 1 && hello.buffers + options().buffers_send <= kBuffersMax,
          "counts are within limits");
  ipc::TransportParts parts;
  os::PeerCredentials credentials;
  credentials.same_user = true;
  if (ipc::accept_hello(hello, &received, credentials, address, options(), &parts) != LWMQ_OK) return 0;
  require(parts.peer_side.bytes() == tli::SideLayout::of(hello.buffers, hello.buffer_bytes).bytes,
          "sizes agree");
  // What follows: the lanes over a side that nobody has written.
  os::Segment own;
  require(os::create_segment("fuzz-side", things.offer.side.memory.bytes(), &own) == LWMQ_OK,
          "there is memory");
  parts.own_side = std::move(own.memory);
  ipc::Transport* transport = nullptr;
  if (ipc::Transport::create(std::move(parts), &transport) != LWMQ_OK) return 0;
  lwmq_tli_extent extent{};
  require(transport->land(&extent) != LWMQ_OK, "nothing was shown");
  transport->close();
  return 0;
}
