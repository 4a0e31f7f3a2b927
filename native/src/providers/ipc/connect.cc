// The calling end of a meeting, in steps that never wait: reach the listener's socket, say hello, hear its
// answer, say that we have met.
#include "base/yield_point.h"
#include "providers/ipc/handshake.h"
#include "providers/ipc/listener.h"
#include "providers/ipc/transport.h"

namespace lwmq::ipc {

// What a client has before it has met its peer.
struct Transport::Meeting {
  Address address;
  lwmq_tli_options options{};
  Offer offer;
  os::UniqueFd socket;  // empty until the listener's queue has taken us
  os::PeerCredentials credentials;
  bool said_hello = false;

  Status reach();
  Status say_hello();
  Status hear_answer(TransportParts* out_parts);
};

// LWMQ_E_EMPTY: nobody listens. LWMQ_E_FULL: more clients wait there than the kernel queues.
Status Transport::Meeting::reach() {
  const Status status = os::connect_unix(address.socket, &socket);
  if (status == LWMQ_E_FULL) Listener::drive_local(address.socket);
  if (status == LWMQ_E_EMPTY) {
    const Status place = check_place(address, true);
    return place != LWMQ_OK ? place : status;
  }
  if (status != LWMQ_OK) return status;
  LWMQ_YIELD("connect.reached");
  if (const Status known = os::peer_credentials(socket.get(), &credentials); known != LWMQ_OK) return known;
  if (credentials.same_user) return LWMQ_OK;
  return fail(LWMQ_E_DENIED, "%s: user %u listens there (process %u), which is not our user",
              address.text.c_str(), credentials.uid, credentials.pid);
}

Status Transport::Meeting::say_hello() {
  if (const Status status = make_offer(options, &offer); status != LWMQ_OK) return status;
  LWMQ_YIELD("connect.hello");
  const Status status = send_hello(socket.get(), address, options, offer);
  LWMQ_YIELD("connect.hello_sent");
  said_hello = true;
  return status == LWMQ_E_PEER_LOST ? LWMQ_OK : status;  // a listener that has hung up may have said why
}

// LWMQ_E_FULL: the listener has not answered. LWMQ_E_EMPTY: it has gone.
Status Transport::Meeting::hear_answer(TransportParts* out_parts) {
  Listener::drive_local(address.socket);
  AnyMessage message{};
  os::Received received;
  Status status = os::receive_message(socket.get(), &message, sizeof message, &received);
  if (status == LWMQ_E_EMPTY) return LWMQ_E_FULL;
  if (status == LWMQ_E_PEER_LOST) return LWMQ_E_EMPTY;
  if (status != LWMQ_OK) {
    add_context(address.text.c_str());
    return status;
  }
  status = check_hello(message, received, address, options, true);
  if (status == LWMQ_OK)
    status = accept_hello(message.hello, &received, credentials, address, options, out_parts);
  LWMQ_YIELD("connect.answered");
  return status;
}

Status Transport::connect(const char* address, const lwmq_tli_options* options, Transport** out_transport) {
  auto meeting = std::make_unique<Meeting>();
  if (const Status status = parse(address, &meeting->address); status != LWMQ_OK) return status;
  if (const Status status = check_options(meeting->address, options); status != LWMQ_OK) return status;
  if (const Status status = wait_until_held(); status != LWMQ_OK) return status;
  meeting->options = *options;
  const Status status = meeting->reach();
  if (status != LWMQ_OK && status != LWMQ_E_FULL) return status;
  *out_transport = new Transport;
  (*out_transport)->meeting_ = std::move(meeting);
  return LWMQ_OK;
}

Status Transport::proceed() {
  if (meeting_ == nullptr) return LWMQ_OK;
  Meeting& meeting = *meeting_;
  Status status = LWMQ_OK;
  if (!meeting.socket) status = meeting.reach();
  if (status == LWMQ_OK && !meeting.said_hello) status = meeting.say_hello();
  TransportParts parts;
  if (status == LWMQ_OK) status = meeting.hear_answer(&parts);
  if (status != LWMQ_OK) return status;
  parts.own_side = std::move(meeting.offer.side.memory);
  if (status = begin(std::move(parts)); status != LWMQ_OK) return status;
  status = send_met(meeting.socket.get());
  if (status != LWMQ_OK) return status == LWMQ_E_PEER_LOST ? LWMQ_E_EMPTY : status;
  LWMQ_YIELD("connect.met");
  take_life_line(std::move(meeting.socket));
  meeting_.reset();
  return LWMQ_OK;
}

// Until the transport is connected, its descriptor is the socket of the handshake, or -1 while that is not
// reached.
int Transport::meeting_descriptor() const noexcept { return meeting_->socket.get(); }

Transport::Transport() noexcept = default;
Transport::~Transport() = default;

}  // namespace lwmq::ipc
