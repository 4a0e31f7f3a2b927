// The first words over a connection over sockets, as either end hears them, and what follows from a hello
// that is accepted: bytes of any sort over a socket, in pieces of any size, beside memory that the peer may
// write.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <iterator>

#include "base/crc32c.h"
#include "filters/filtered.h"
#include "input.h"
#include "lane/mirror_head.h"
#include "os/unique_fd.h"
#include "providers/tcp/family.h"
#include "raw_options.h"
#include "service/provider_services.h"
#include "sockets/handshake.h"
#include "sockets/poll.h"
#include "sockets/transport.h"

namespace lwmq::fuzz {
namespace {

constexpr std::size_t kStepsMax = 100;

struct Field {
  std::size_t at, bytes;
};
#define LWMQ_FIELD(name) \
  Field { offsetof(sockets::Hello, name), sizeof(sockets::Hello::name) }
constexpr Field kFields[] = {LWMQ_FIELD(magic),        LWMQ_FIELD(version), LWMQ_FIELD(kind),
                             LWMQ_FIELD(purpose),      LWMQ_FIELD(buffers), LWMQ_FIELD(buffers_receive),
                             LWMQ_FIELD(buffer_bytes), LWMQ_FIELD(channel), LWMQ_FIELD(name_bytes),
                             LWMQ_FIELD(instance),     LWMQ_FIELD(boot),    LWMQ_FIELD(name)};
#undef LWMQ_FIELD

// Lands everything, and gives it back.
void land(sockets::Transport& transport) {
  lwmq_tli_extent extents[8] = {};
  lwmq_tli_landing landing{};
  while (transport.land(8, LWMQ_TLI_LAND_NOW, extents, &landing) == LWMQ_OK) {
    for (std::uint32_t i = 0; i < landing.count; ++i) touch(extents[i].data, extents[i].bytes);
    transport.release(landing, landing.count);
  }
}

// A piece that the peer makes up, near to what is right, and its checksum.
void say_piece(int socket, Input& input) {
  lane::MirrorHead head{};
  head.kind = input.take<std::uint8_t>() % 7;
  head.buffer = input.take<std::uint8_t>() % 5;
  head.lap = input.take<std::uint8_t>();
  head.at = input.take<std::uint16_t>();
  head.word = input.take<std::uint32_t>();
  head.bytes = input.take<std::uint16_t>();
  const std::string body = input.take_bytes(head.bytes);
  head.bytes = input.take<std::uint8_t>() % 8 == 0 ? input.take<std::uint64_t>() : body.size();
  send(socket, &head, sizeof head, MSG_NOSIGNAL | MSG_DONTWAIT);
  send(socket, body.data(), body.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  const std::uint32_t crc = crc32c(crc32c(0, &head, sizeof head), body.data(), body.size());
  send(socket, &crc, sizeof crc, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace
}  // namespace lwmq::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lwmq;
  using namespace lwmq::fuzz;
  static const std::shared_ptr<sockets::Poll> door = [] {
    const lwmq_tli_provider* provider = nullptr;
    require(filters::find("tcp://127.0.0.1:1/any", &provider) == LWMQ_OK &&
                service::start_service(*provider) == LWMQ_OK,
            "tcp is linked, and its thread ends what was closed");
    auto made = std::make_shared<sockets::Poll>();
    require(made->open() == LWMQ_OK, "a poll");
    return made;
  }();
  static const sockets::Address address = [] {
    sockets::Address parsed;
    require(sockets::parse(tcp::kFamily, "tcp://127.0.0.1:1/fuzz", &parsed) == LWMQ_OK, "an address");
    return parsed;
  }();
  Input input(data, size);
  const auto flags = input.take<std::uint8_t>();
  sockets::Greeting greeting{};
  greeting.hello = sockets::hello_of(address, raw_options());
  if ((flags & 1) != 0) {
    const std::string bytes = input.take_bytes(sizeof greeting);
    std::memcpy(&greeting, bytes.data(), bytes.size());
  } else {
    for (int changes = flags >> 2 & 3; changes > 0; --changes) {
      const Field& field = kFields[input.take<std::uint8_t>() % std::size(kFields)];
      const std::string value = input.take_bytes(std::min<std::size_t>(field.bytes, 8));
      std::memcpy(reinterpret_cast<std::uint8_t*>(&greeting) + field.at, value.data(), value.size());
    }
  }
  const Status status = sockets::check_greeting(greeting, address, raw_options(), (flags & 2) != 0);
  if (status != LWMQ_OK) {
    require(status == LWMQ_E_EMPTY || (is_failure(status) && last_error()[0] != '\0'),
            "a refusal has a text");
    return 0;
  }
  require(greeting.hello.buffers >= 1 && greeting.hello.buffers + raw_options().buffers_send <= kBuffersMax,
          "counts are within limits");
  int ends[2];
  while (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    require(errno == EMFILE, "a pair of sockets");  // the thread has yet to end some
    usleep(1000);
  }
  const os::UniqueFd peer(ends[1]);
  sockets::Transport* transport = nullptr;
  sockets::Socket socket((os::UniqueFd(ends[0])));
  const Status served = sockets::Transport::serve(&socket, address, raw_options(), greeting.hello,
                                                  sockets::Place{}, door, &transport);
  if (served != LWMQ_OK) return 0;  // no memory for what it asks
  std::string granted(256, '\0');
  lwmq_tli_grant grant{};
  require(transport->grant(granted.data(), granted.size(), &grant) == LWMQ_OK, "memory is granted");
  for (std::size_t step = 0; step < kStepsMax && !input.empty(); ++step) {
    const auto how = input.take<std::uint8_t>();
    if (how < 96) {
      say_piece(peer.get(), input);
    } else if (how < 192) {
      const std::string bytes = input.take_bytes(how - 96U);
      send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    } else if (how < 208) {
      transport->revoke(grant);
    } else {
      char answer[4096];
      while (recv(peer.get(), answer, sizeof answer, MSG_DONTWAIT) > 0) {
      }
    }
    land(*transport);
  }
  transport->close(0, 0);
  return 0;
}
