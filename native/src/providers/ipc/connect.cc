// The calling end: one attempt to become the peer of whoever listens.
#include <time.h>

#include <algorithm>

#include "base/yield_point.h"
#include "os/clock.h"
#include "providers/ipc/handshake.h"
#include "providers/ipc/listener.h"

namespace lwmq::ipc {
namespace {

constexpr std::int64_t kCrowdedNs = 1'000'000;  // between two attempts while the listener's queue is full
constexpr int kLocalSliceMs = 1;                // our own process listens: its threads may need our help
constexpr int kSliceMs = 1000;

// Connects the socket. LWMQ_E_EMPTY: nobody listens.
Status reach(const Address& address, std::int64_t deadline, os::UniqueFd* out_socket) {
  for (;;) {
    const Status status = os::connect_unix(address.socket, out_socket);
    if (status != LWMQ_E_FULL) return status;
    if (os::now_ns() >= deadline) return LWMQ_E_TIMED_OUT;
    Listener::drive_local(address.socket);
    timespec pause{0, kCrowdedNs};
    nanosleep(&pause, nullptr);
  }
}

// The listener's answer. LWMQ_E_EMPTY: it has gone away in between.
Status await_answer(int socket, const Address& address, std::int64_t deadline, AnyMessage* out_message,
                    os::Received* out_received) {
  for (;;) {
    const bool is_local = Listener::drive_local(address.socket);
    const Status status = os::receive_message(socket, out_message, sizeof *out_message, out_received);
    if (status == LWMQ_E_PEER_LOST) return LWMQ_E_EMPTY;
    if (status != LWMQ_OK && status != LWMQ_E_EMPTY) add_context(address.text.c_str());
    if (status != LWMQ_E_EMPTY) return status;
    const std::int64_t left_ms = (deadline - os::now_ns() + 999'999) / 1'000'000;
    if (left_ms <= 0) return LWMQ_E_TIMED_OUT;
    const auto slice = static_cast<int>(std::min<std::int64_t>(left_ms, is_local ? kLocalSliceMs : kSliceMs));
    os::poll_socket(socket, false, slice);  // a signal ends no handshake
  }
}

}  // namespace

Status connect(const char* address, const lwmq_tli_options* options, std::uint32_t timeout_ms,
               Transport** out_transport) {
  Address parsed;
  if (const Status status = parse(address, &parsed); status != LWMQ_OK) return status;
  if (const Status status = check_options(parsed, options); status != LWMQ_OK) return status;
  if (const Status status = wait_until_held(); status != LWMQ_OK) return status;
  const std::int64_t deadline = os::now_ns() + std::int64_t{timeout_ms} * 1'000'000;
  os::UniqueFd socket;
  if (const Status status = reach(parsed, deadline, &socket); status != LWMQ_OK) {
    const Status place = status == LWMQ_E_EMPTY ? check_place(parsed, true) : LWMQ_OK;
    return place != LWMQ_OK ? place : status;
  }
  LWMQ_YIELD("connect.reached");
  os::PeerCredentials credentials;
  if (const Status status = os::peer_credentials(socket.get(), &credentials); status != LWMQ_OK)
    return status;
  if (!credentials.same_user) {
    return fail(LWMQ_E_DENIED, "%s: user %u listens there (process %u), which is not our user", address,
                credentials.uid, credentials.pid);
  }
  Offer offer;
  if (const Status status = make_offer(*options, &offer); status != LWMQ_OK) return status;
  LWMQ_YIELD("connect.hello");
  Status status = send_hello(socket.get(), parsed, *options, offer);
  LWMQ_YIELD("connect.hello_sent");
  AnyMessage message{};
  os::Received received;
  TransportParts parts;
  // Who has hung up may have said before why.
  if (status == LWMQ_OK || status == LWMQ_E_PEER_LOST)
    status = await_answer(socket.get(), parsed, deadline, &message, &received);
  if (status == LWMQ_OK) status = check_hello(message, received, parsed, *options, true);
  if (status == LWMQ_OK)
    status = accept_hello(message.hello, &received, credentials, parsed, *options, &parts);
  LWMQ_YIELD("connect.answered");
  Transport* transport = nullptr;
  if (status == LWMQ_OK) {
    parts.own_side = std::move(offer.side.memory);
    status = Transport::create(std::move(parts), &transport);
  }
  if (status != LWMQ_OK) return status;  // the listener sees the socket close, and forgets us
  status = send_met(socket.get());
  if (status != LWMQ_OK) {
    transport->close(0, 0);
    return status == LWMQ_E_PEER_LOST ? LWMQ_E_EMPTY : status;  // lost: it has gone in between
  }
  LWMQ_YIELD("connect.met");
  transport->take_life_line(std::move(socket));
  *out_transport = transport;
  return LWMQ_OK;
}

}  // namespace lwmq::ipc
