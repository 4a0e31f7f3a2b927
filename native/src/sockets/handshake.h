// Two processes become the ends of a transport: each says hello, or the listener refuses and says why.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "os/unique_fd.h"
#include "sockets/address.h"
#include "sockets/proof.h"
#include "sockets/socket.h"
#include "sockets/wire.h"

namespace lwmq::sockets {

// What we say of an end with these options.
Hello hello_of(const Address& address, const lwmq_tli_options& options) noexcept;
// LWMQ_E_VERSION, LWMQ_E_CORRUPT, LWMQ_E_INVALID; a refusal comes out as its status and text.
// `from_listener`: we are the client.
Status check_greeting(const Greeting& greeting, const Address& address, const lwmq_tli_options& options,
                      bool from_listener) noexcept;
// With the text of this thread's failure.
Greeting refusal_of(Status why) noexcept;
// `place`: as a text.
void describe_peer(const Hello& hello, const std::string& place, lwmq_tli_peer* out_peer) noexcept;

// A non-blocking socket for `place`, which is one of `address`, with the options that ours have.
// LWMQ_E_SYSTEM.
Status make_socket(const Address& address, const Place& place, os::UniqueFd* out_socket) noexcept;

// Looks a name up on a thread of its own, which may outlive the meeting that asks.
struct LookUp;

// The calling end of a meeting, in steps that never wait.
struct Meeting {
  Status begin(const Family& family, const char* text, const lwmq_tli_options& asked);
  // LWMQ_OK: *out_greeting is the listener's hello. LWMQ_E_FULL: not yet, with a text that says what is
  // awaited. LWMQ_E_EMPTY: nobody listens.
  Status proceed(Greeting* out_greeting);
  [[nodiscard]] std::string place() const { return address.family->text(places[next_place - 1]); }
  // Whether the socket has to take something, or to connect, before we go on.
  [[nodiscard]] bool wants_room() noexcept { return !is_connected || socket.has_unsent(); }
  // A descriptor that becomes readable when the host's name was looked up; -1: that is over.
  [[nodiscard]] int looked_up() const noexcept;

  Address address;
  lwmq_tli_options options{};
  std::shared_ptr<LookUp> look_up;
  std::vector<Place> places;
  std::size_t next_place = 0;
  std::shared_ptr<const os::TlsCredentials> credentials;  // null: in clear
  Socket socket;
  bool is_connected = false;
  Own own;                  // what our settings say
  bool is_secure = false;   // the handshake of TLS is over
  std::uint64_t said = 0;   // bytes of our opening, and then of our proof
  std::uint64_t heard = 0;  // bytes of the answer
  Opening opening{};        // over a socket, the hello alone
  Reply answer{};           // over a socket, the greeting alone
  Prover prover;            // of a link
  Proof proof{};
  bool is_proven = false;  // the proof of the listener was right

 private:
  Status take_steps(Greeting* out_greeting);
  Status take_names();
  Status reach_next(int error = 0);
  Status finish_connecting();
  Status secure();
  Status exchange();
  Status say(const void* words, std::uint64_t bytes);
  Status hear(std::uint64_t bytes);
  Status exchange_proofs();
};

}  // namespace lwmq::sockets
