#include "sockets/proof.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "os/crypto.h"

namespace lwmq::sockets {
namespace {

std::string identity_in(const Challenge& challenge) {
  std::string identity(challenge.identity,
                       std::min<std::size_t>(challenge.identity_bytes, sizeof challenge.identity));
  for (char& c : identity) c = c < ' ' || c > '~' ? '?' : c;
  return identity;
}

// As long for bytes that differ early as for those that differ late.
bool are_equal(const std::uint8_t* a, const std::uint8_t* b, std::size_t bytes) noexcept {
  unsigned differences = 0;
  for (std::size_t i = 0; i < bytes; ++i) differences |= a[i] ^ b[i];
  return differences == 0;
}

}  // namespace

Status Prover::take_own_key(const Address& address, const Own& own) {
  if (own.files.psk.empty()) {
    os::find_kept_key(address.name, &key_);
    return LWMQ_OK;
  }
  std::vector<os::TlsKey> keys;
  const Status status = os::read_keys(own.files.psk, &keys);
  if (status == LWMQ_OK) key_ = keys.front();
  return status;
}

Status Prover::find_key(const Address& address, const Own& own, const Opening& opening) {
  const std::string identity = identity_in(opening.challenge);
  std::vector<os::TlsKey> keys;
  if (!own.files.psk.empty()) {
    if (const Status status = os::read_keys(own.files.psk, &keys); status != LWMQ_OK) return status;
  } else if (os::TlsKey kept; os::find_kept_key(address.name, &kept)) {
    keys.push_back(kept);
  }
  if (keys.empty() && identity.empty()) return LWMQ_OK;
  if (keys.empty())
    return fail(LWMQ_E_DENIED, "the client has a key ('%s'), and the listener has none", identity.c_str());
  if (identity.empty())
    return fail(LWMQ_E_DENIED, "the client has no key, and the listener asks for one: psk=FILE");
  for (const os::TlsKey& key : keys) {
    if (key.identity == identity) key_ = key;
  }
  return key_.size > 0
             ? LWMQ_OK
             : fail(LWMQ_E_DENIED, "the client's key is for '%s', and the listener has none of that name",
                    identity.c_str());
}

Status Prover::challenge(Challenge* out_challenge) const {
  *out_challenge = {};
  if (getrandom(out_challenge->nonce, sizeof out_challenge->nonce, 0) != sizeof out_challenge->nonce)
    return fail_call(LWMQ_E_SYSTEM, errno, "getrandom");
  if (key_.size == 0) return LWMQ_OK;
  out_challenge->identity_bytes = static_cast<std::uint32_t>(key_.identity.size());
  std::memcpy(out_challenge->identity, key_.identity.data(), key_.identity.size());
  return LWMQ_OK;
}

Status Prover::prove(const Opening& opening, const Reply& answer, bool of_listener, Proof* out_proof) const {
  *out_proof = {};
  if (key_.size == 0) return LWMQ_OK;
  struct Said {
    char whose[8];
    Opening opening;
    Hello hello;
    Challenge challenge;
  } said{};
  std::memcpy(said.whose, of_listener ? "listener" : "client\0\0", sizeof said.whose);
  said.opening = opening;
  said.hello = answer.greeting.hello;
  said.challenge = answer.challenge;
  os::Digest mac;
  static_assert(sizeof mac == sizeof out_proof->mac);
  const Status status = os::mac_of(key_.bytes, key_.size, &said, sizeof said, &mac);
  if (status == LWMQ_OK) std::memcpy(out_proof->mac, mac.data(), sizeof mac);
  return status;
}

Status Prover::check(const Opening& opening, const Reply& answer, bool of_listener,
                     const Proof& proof) const {
  Proof right;
  if (const Status status = prove(opening, answer, of_listener, &right); status != LWMQ_OK) return status;
  if (are_equal(right.mac, proof.mac, sizeof right.mac)) return LWMQ_OK;
  const bool has_none = key_.size == 0;
  return fail(LWMQ_E_DENIED, "the %s %s", of_listener ? "listener" : "client",
              has_none ? "has a key, and this end has none" : "does not have the key that it names");
}

}  // namespace lwmq::sockets
