// The calling end: one attempt to become the peer of whoever listens, in steps of which none waits. See the
// table in lwmq_tli.h.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "os/unix_socket.h"
#include "providers/ipc/address.h"
#include "providers/ipc/handshake.h"
#include "providers/ipc/transport.h"

namespace lwmq::ipc {

class Attempt {
 public:
  static Status begin(const char* address, const lwmq_tli_options* options, Attempt** out_attempt);
  Status advance(Transport** out_transport);
  // The socket, once there is an answer to wait for. None where our own process listens: its threads may need
  // our help.
  [[nodiscard]] int fd() const noexcept { return has_said_hello_ && !is_local_ ? socket_.get() : -1; }
  void cancel() noexcept;

 private:
  Attempt(Address address, const lwmq_tli_options& options, std::int64_t held_until) noexcept
      : address_(std::move(address)), options_(options), held_until_ns_(held_until) {}
  ~Attempt() = default;

  // Each of them: LWMQ_OK, it is done; LWMQ_E_TIMED_OUT, not yet; else how the attempt ends.
  Status step(Transport** out_transport);
  Status reach();
  Status say_hello();
  Status hear(Transport** out_transport);

  const Address address_;
  const lwmq_tli_options options_;
  const std::int64_t held_until_ns_;  // our own service thread has that long to begin
  os::UniqueFd socket_;               // connected; none while too many wait to be accepted
  os::PeerCredentials credentials_;
  Offer offer_;
  bool has_said_hello_ = false;
  bool is_local_ = false;  // behind the hello: our own process listens
};

}  // namespace lwmq::ipc
