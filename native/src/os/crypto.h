// Ed25519 signatures and HMACs by OpenSSL's libcrypto, which is opened when it is first asked for: a machine
// without it has everything else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace lwmq::os {

using PublicKey = std::array<std::uint8_t, 32>;
using SecretKey = std::array<std::uint8_t, 32>;
using Signature = std::array<std::uint8_t, 64>;
using Digest = std::array<std::uint8_t, 64>;  // SHA-512

// All: LWMQ_E_UNSUPPORTED where there is no libcrypto, with a text that says which package brings it.
Status digest_of(const void* data, std::size_t bytes, Digest* out_digest) noexcept;
// HMAC-SHA-512 (RFC 2104).
Status mac_of(const void* key, std::size_t key_bytes, const void* data, std::size_t bytes,
              Digest* out_mac) noexcept;
Status public_key_of(const SecretKey& secret, PublicKey* out_key) noexcept;
Status sign(const SecretKey& secret, const void* data, std::size_t bytes, Signature* out_signature) noexcept;
// LWMQ_E_DENIED: the signature is not of this key and these bytes.
Status verify(const PublicKey& key, const void* data, std::size_t bytes, const Signature& signature) noexcept;

}  // namespace lwmq::os
