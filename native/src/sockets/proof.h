// How the ends of a link, which has no TLS, prove to each other that they have the same key. Nothing of the
// key travels.
//
//    client                                    listener
//      | hello, challenge                         |
//      |----------------------------------------->|   looks for the key of that identity
//      |           hello, challenge, its proof    |
//      |<-----------------------------------------|
//      | its proof                                |   checks
//      |----------------------------------------->|
//
// A proof is an HMAC-SHA-512 under the key, over a word that says whose it is, and over everything that both
// have said before. Both challenges hold random bytes, so a proof is good for this one meeting. Where neither
// end has a key, proofs are zeros. Memory of an end is not shown to the other before the proofs are right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/tls_keys.h"
#include "sockets/address.h"
#include "sockets/wire.h"

namespace lwmq::sockets {

struct Challenge {
  std::uint8_t nonce[32];
  std::uint32_t identity_bytes;  // 0: this end has no key
  std::uint32_t reserved;
  char identity[os::kIdentityBytesMax];  // of the key; the listener repeats the client's
};
static_assert(sizeof(Challenge) == 200);

struct Proof {
  std::uint8_t mac[64];
};

// The first words of a client over a link, and the answer of a listener that does not refuse.
struct Opening {
  Hello hello;
  Challenge challenge;
};
struct Reply {
  Greeting greeting;
  Challenge challenge;
  Proof proof;
};

// What one end knows of a meeting.
class Prover {
 public:
  // The client's key for the listener of that name. LWMQ_E_INVALID, LWMQ_E_DENIED: of its file.
  Status take_own_key(const Address& address, const Own& own);
  // The listener's, that the client has named. LWMQ_E_DENIED: there is none, the client has none, or its key
  // is for another listener.
  Status find_key(const Address& address, const Own& own, const Opening& opening);
  // LWMQ_E_SYSTEM: the kernel has no random bytes.
  Status challenge(Challenge* out_challenge) const;
  // With `of_listener`, the listener's; else the client's.
  Status prove(const Opening& opening, const Reply& answer, bool of_listener, Proof* out_proof) const;
  // LWMQ_E_DENIED: the peer does not have the key.
  Status check(const Opening& opening, const Reply& answer, bool of_listener, const Proof& proof) const;

 private:
  os::TlsKey key_;  // size 0: none
};

}  // namespace lwmq::sockets
