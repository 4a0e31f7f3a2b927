// The first message of a stranger, with descriptors of any kind: both ends' checks, and what follows from a
// hello that they let pass. Either bytes of any sort, or a hello as it is really sent, with some fields
// changed: past its checks no fuzzer comes by bytes alone.
#include <algorithm>
#include <cstddef>

#include "input.h"
#include "stranger.h"

namespace lwmq::fuzz {
namespace {

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
  require(parts.peer_side.bytes() == lane::SideLayout::of(hello.buffers, hello.buffer_bytes).bytes,
          "sizes agree");
  // What follows: the lanes over a side that nobody has written.
  ipc::Transport* transport = things.transport_of(std::move(parts));
  lwmq_tli_extent extent{};
  require(transport->land(&extent) != LWMQ_OK, "nothing was shown");
  transport->close(0, 0);
  return 0;
}
