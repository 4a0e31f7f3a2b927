#include "providers/ipc/connect.h"

#include <memory>
#include <new>
#include <utility>

#include "base/yield_point.h"
#include "os/clock.h"
#include "os/identity.h"
#include "providers/ipc/listener.h"
#include "providers/ipc/process.h"

namespace lwmq::ipc {

Status Attempt::begin(const char* address, const lwmq_tli_options* options, Attempt** out_attempt) {
  Address parsed;
  if (const Status status = parse(address, &parsed); status != LWMQ_OK) return status;
  if (const Status status = check_options(parsed, options); status != LWMQ_OK) return status;
  const std::int64_t held_until = os::now_ns() + kServiceStartNs;
  Status status = check_held(held_until);
  if (status != LWMQ_OK && status != LWMQ_E_TIMED_OUT) return status;
  auto* made = new (std::nothrow) Attempt(std::move(parsed), *options, held_until);
  if (made == nullptr) return fail(LWMQ_E_NO_MEMORY, "%s: no memory for an attempt to connect", address);
  status = made->reach();
  if (status != LWMQ_OK && status != LWMQ_E_TIMED_OUT) {
    delete made;
    return status;
  }
  *out_attempt = made;
  return LWMQ_OK;
}

Status Attempt::advance(Transport** out_transport) {
  const Status status = step(out_transport);
  if (status != LWMQ_E_TIMED_OUT) cancel();  // the listener sees the socket close, where we still have it
  return status;
}

void Attempt::cancel() noexcept {
  if (!os::forked()) delete this;  // the memory is the parent's
}

Status Attempt::step(Transport** out_transport) {
  if (const Status status = check_held(held_until_ns_); status != LWMQ_OK) return status;
  if (!socket_) {
    Listener::drive_local(address_.socket);
    if (const Status status = reach(); status != LWMQ_OK) return status;
  }
  if (!has_said_hello_) {
    if (const Status status = say_hello(); status != LWMQ_OK) return status;
    is_local_ = Listener::drive_local(address_.socket);
  } else if (is_local_) {
    Listener::drive_local(address_.socket);
  }
  return hear(out_transport);
}

Status Attempt::reach() {
  const Status status = os::connect_unix(address_.socket, &socket_);
  if (status == LWMQ_OK) LWMQ_YIELD("connect.reached");
  if (status == LWMQ_E_FULL) return LWMQ_E_TIMED_OUT;
  if (status != LWMQ_E_EMPTY) return status;
  const Status place = check_place(address_, true);
  return place != LWMQ_OK ? place : status;
}

Status Attempt::say_hello() {
  if (const Status status = os::peer_credentials(socket_.get(), &credentials_); status != LWMQ_OK)
    return status;
  if (!credentials_.same_user) {
    return fail(LWMQ_E_DENIED, "%s: user %u listens there (process %u), which is not our user",
                address_.text.c_str(), credentials_.uid, credentials_.pid);
  }
  if (const Status status = make_offer(options_, &offer_); status != LWMQ_OK) return status;
  LWMQ_YIELD("connect.hello");
  const Status status = send_hello(socket_.get(), address_, options_, offer_);
  LWMQ_YIELD("connect.hello_sent");
  has_said_hello_ = true;
  offer_.side.fd.reset();                                // whoever waits long holds no more than the socket
  return status == LWMQ_E_PEER_LOST ? LWMQ_OK : status;  // who has hung up may have said before why
}

// The listener's answer, and our last word. LWMQ_E_EMPTY: it has gone away in between.
Status Attempt::hear(Transport** out_transport) {
  AnyMessage message{};
  os::Received received;
  Status status = os::receive_message(socket_.get(), &message, sizeof message, &received);
  if (status == LWMQ_E_EMPTY) return LWMQ_E_TIMED_OUT;
  if (status == LWMQ_E_PEER_LOST) return LWMQ_E_EMPTY;
  if (status != LWMQ_OK) add_context(address_.text.c_str());
  TransportParts parts;
  if (status == LWMQ_OK) status = check_hello(message, received, address_, options_, true);
  if (status == LWMQ_OK)
    status = accept_hello(message.hello, &received, credentials_, address_, options_, &parts);
  LWMQ_YIELD("connect.answered");
  if (status != LWMQ_OK) return status;
  parts.own_side = std::move(offer_.side.memory);
  Transport* transport = nullptr;
  status = Transport::create(std::move(parts), &transport);
  if (status != LWMQ_OK) return status;
  status = send_met(socket_.get());
  if (status != LWMQ_OK) {
    transport->close(0, 0);
    return status == LWMQ_E_PEER_LOST ? LWMQ_E_EMPTY : status;
  }
  LWMQ_YIELD("connect.met");
  transport->take_life_line(std::move(socket_));
  *out_transport = transport;
  return LWMQ_OK;
}

}  // namespace lwmq::ipc
