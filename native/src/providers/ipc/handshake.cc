#include "providers/ipc/handshake.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "os/identity.h"
#include "tli/purpose.h"

namespace lwmq::ipc {
namespace {

constexpr std::size_t kHelloFds = 2;  // page, side

Status check_refusal(const Refusal& refusal, const Address& address) noexcept {
  char text[sizeof refusal.text];
  std::memcpy(text, refusal.text, sizeof text);
  text[sizeof text - 1] = '\0';
  return fail(told_failure(refusal.status), "%s: the listener refused: %s", address.text.c_str(), text);
}

// `ready`: 0 for any number.
Status check_ready(const char* text, std::uint32_t sends, std::uint32_t ready) noexcept {
  if (ready == 0 || sends <= ready) return LWMQ_OK;
  return fail(
      LWMQ_E_INVALID,
      "%s: one side sends with %u buffers, the other is ready for %u; give both the same `buffers`, or "
      "the other one `buffers_send` alone",
      text, sends, ready);
}

Status check_counts(const Hello& hello, const Address& address, const lwmq_tli_options& options) noexcept {
  const char* text = address.text.c_str();
  if (hello.buffers == 0 || hello.buffers > kBuffersMax || hello.buffer_bytes < kBufferBytesMin ||
      hello.buffer_bytes > kBufferBytesMax) {
    return fail(LWMQ_E_CORRUPT, "%s: the peer has %u buffers of %" PRIu64 " bytes", text, hello.buffers,
                hello.buffer_bytes);
  }
  if (hello.side_bytes != lane::SideLayout::of(hello.buffers, hello.buffer_bytes).bytes) {
    return fail(LWMQ_E_CORRUPT, "%s: %" PRIu64 " bytes for %u buffers of %" PRIu64, text, hello.side_bytes,
                hello.buffers, hello.buffer_bytes);
  }
  if (hello.buffers + options.buffers_send > kBuffersMax) {
    return fail(LWMQ_E_INVALID,
                "%s: %u buffers of one side and %u of the other are %u; a transport has at most %u", text,
                options.buffers_send, hello.buffers, hello.buffers + options.buffers_send, kBuffersMax);
  }
  if (const Status status = check_ready(text, hello.buffers, options.buffers_receive); status != LWMQ_OK)
    return status;
  return check_ready(text, options.buffers_send, hello.buffers_receive);
}

std::uint64_t side_bytes(const lwmq_tli_options& options) noexcept {
  return lane::SideLayout::of(options.buffers_send, options.buffer_bytes).bytes;
}

}  // namespace

Status make_offer(const lwmq_tli_options& options, Offer* out_offer) noexcept {
  out_offer->death_word = next_death_word();
  return os::create_segment("lwmq-side", side_bytes(options), &out_offer->side);
}

Status send_hello(int socket, const Address& address, const lwmq_tli_options& options,
                  const Offer& offer) noexcept {
  Hello hello{};
  hello.head = {kMagic, kProtocolVersion, kHello};
  hello.purpose = options.purpose;
  hello.buffer_bytes = options.buffer_bytes;
  hello.side_bytes = side_bytes(options);
  hello.buffers = options.buffers_send;
  hello.buffers_receive = options.buffers_receive;
  std::memcpy(hello.instance, os::identity().instance, sizeof hello.instance);
  hello.pid = os::identity().pid;
  hello.channel = options.channel;
  hello.death_word = offer.death_word;
  hello.name_bytes = static_cast<std::uint32_t>(address.name.size());
  std::memcpy(hello.name, address.name.data(), std::min(address.name.size(), sizeof hello.name));
  const int fds[] = {own_page_fd(), offer.side.fd.get()};
  const Status status = os::send_message(socket, &hello, sizeof hello, fds, kHelloFds);
  if (status != LWMQ_E_FULL) return status;
  return fail(
      LWMQ_E_SYSTEM,
      "%s: the kernel takes no hello: user %u has as many descriptors on their way as its processes may "
      "open (ulimit -n)",
      address.text.c_str(), static_cast<unsigned>(geteuid()));
}

void send_refusal(int socket, Status why) noexcept {
  Refusal refusal{};
  refusal.head = {kMagic, kProtocolVersion, kRefusal};
  refusal.status = why;
  std::strncpy(refusal.text, last_error(), sizeof refusal.text - 1);
  os::send_message(socket, &refusal, sizeof refusal, nullptr, 0);  // a client that has left needs no reason
}

Status send_met(int socket) noexcept {
  const Met met{{kMagic, kProtocolVersion, kMet}};
  return os::send_message(socket, &met, sizeof met, nullptr, 0);
}

Status check_met(const AnyMessage& message, const os::Received& received, const Address& address) noexcept {
  const Head& head = message.head;
  if (received.bytes == sizeof(Met) && received.fd_count == 0 && head.magic == kMagic &&
      head.version == kProtocolVersion && head.kind == kMet) {
    return LWMQ_OK;
  }
  return fail(LWMQ_E_CORRUPT, "%s: a message of %zu bytes, kind %u, with %zu descriptors ends no handshake",
              address.text.c_str(), received.bytes, head.kind, received.fd_count);
}

Status check_hello(const AnyMessage& message, const os::Received& received, const Address& address,
                   const lwmq_tli_options& options, bool from_listener) noexcept {
  const char* text = address.text.c_str();
  if (received.bytes < sizeof(Head) || message.head.magic != kMagic) {
    return fail(LWMQ_E_CORRUPT, "%s: a hello of %zu bytes that begins with %#x", text, received.bytes,
                message.head.magic);
  }
  if (message.head.version != kProtocolVersion) {
    return fail(LWMQ_E_VERSION, "%s: the %s speaks version %u of the protocol, the %s %u", text,
                from_listener ? "listener" : "client", message.head.version,
                from_listener ? "client" : "listener", kProtocolVersion);
  }
  if (from_listener && message.head.kind == kRefusal && received.bytes == sizeof(Refusal)) {
    return check_refusal(message.refusal, address);
  }
  const Hello& hello = message.hello;
  if (hello.head.kind != kHello || received.bytes != sizeof hello || received.fd_count != kHelloFds ||
      hello.name_bytes > sizeof hello.name || hello.death_word >= kDeathWords) {
    return fail(LWMQ_E_CORRUPT, "%s: a hello of kind %u, %zu bytes, %zu descriptors, name of %u bytes", text,
                hello.head.kind, received.bytes, received.fd_count, hello.name_bytes);
  }
  if (std::string_view(hello.name, hello.name_bytes) != address.name) {
    return fail(LWMQ_E_ADDRESS, "%s: the other side is at ipc://%.*s: two names with one hash", text,
                static_cast<int>(hello.name_bytes), hello.name);
  }
  const Status status = from_listener ? tli::check_purposes(text, options.purpose, hello.purpose)
                                      : tli::check_purposes(text, hello.purpose, options.purpose);
  return status == LWMQ_OK ? check_counts(hello, address, options) : status;
}

Status accept_hello(const Hello& hello, os::Received* received, const os::PeerCredentials& credentials,
                    const Address& address, const lwmq_tli_options& options, TransportParts* out_parts) {
  TransportParts& parts = *out_parts;
  parts.address = address.text;
  parts.options = options;
  std::memcpy(parts.peer.instance, hello.instance, sizeof parts.peer.instance);
  parts.peer.pid = credentials.pid != 0 ? credentials.pid : hello.pid;
  std::snprintf(parts.peer.name, sizeof parts.peer.name, "process %u", parts.peer.pid);
  parts.peer.uid = credentials.uid;
  parts.peer.buffer_bytes = hello.buffer_bytes;
  parts.peer.buffers = hello.buffers;
  parts.peer.channel = hello.channel;
  parts.death_word = hello.death_word;
  if (const Status status = meet_process(std::move(received->fds[0]), hello.instance, &parts.process);
      status != LWMQ_OK) {
    return status;
  }
  if (!os::is_held(parts.process->death_word(hello.death_word))) {
    return fail(LWMQ_E_PEER_LOST, "%s: process %u died during the handshake", address.text.c_str(),
                parts.peer.pid);
  }
  return os::map_foreign_segment(received->fds[1].get(), hello.side_bytes, os::Populate::kNo,
                                 &parts.peer_side);
}

}  // namespace lwmq::ipc
