// Two strangers become the ends of a transport: hello, hello, met; or a refusal that says why.
//
// Both sides check the same things, each from its own copy: version, name, purpose, user, counts and sizes,
// and that the segments are sealed. Nothing is mapped before. The listening side answers first with its
// verdict, so a client learns the reason in words.
#pragma once

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "os/unix_socket.h"
#include "providers/ipc/address.h"
#include "providers/ipc/layout.h"
#include "providers/ipc/transport.h"

namespace lwmq::ipc {

// What we bring: our side, made and sealed.
struct Offer {
  os::Segment side;
  std::uint32_t death_word = 0;
};
Status make_offer(const lwmq_tli_options& options, Offer* out_offer) noexcept;

Status send_hello(int socket, const Address& address, const lwmq_tli_options& options,
                  const Offer& offer) noexcept;

// Says why not, as well as it goes, for the caller to close the socket. Uses the text of this thread.
void send_refusal(int socket, Status why) noexcept;

// The client's last word: it has our answer, and the transport may be used.
Status send_met(int socket) noexcept;
// LWMQ_E_CORRUPT.
Status check_met(const AnyMessage& message, const os::Received& received, const Address& address) noexcept;

// What the other side said, checked against what we are. `from_listener`: we are the client.
// A refusal comes out as its status and text. LWMQ_E_VERSION, LWMQ_E_CORRUPT, LWMQ_E_INVALID, LWMQ_E_ADDRESS.
Status check_hello(const AnyMessage& message, const os::Received& received, const Address& address,
                   const lwmq_tli_options& options, bool from_listener) noexcept;

// Meets the peer's process and maps its side, as a checked hello says. Takes the descriptors. What the peer
// does not bring (our side, the socket) is still missing in *out_parts.
Status accept_hello(const Hello& hello, os::Received* received, const os::PeerCredentials& credentials,
                    const Address& address, const lwmq_tli_options& options, TransportParts* out_parts);

}  // namespace lwmq::ipc
