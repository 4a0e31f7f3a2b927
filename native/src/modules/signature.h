// Who has signed a module, and whether that counts: texts from outside, checked and taken apart. Knows no
// files.
//
// A signature, NAME.so.sig:
//
//     lwmq-module-signature 1
//     name NAME.so
//     key 64 hexadecimal digits
//     expires seconds since 1970
//     sha512 128 hexadecimal digits, of the bytes of the module
//     signature 128 hexadecimal digits: Ed25519, of the five lines above with their line ends
//
// The name stands in it so that a signed module cannot be put in the place of another one; the trust file is
// in lwmq.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "os/crypto.h"

namespace lwmq::modules {

inline constexpr std::size_t kSignatureBytesMax = 4096;
inline constexpr std::size_t kTrustBytesMax = 1 << 20;

struct ModuleSignature {
  std::string signed_text;  // the lines that the signature is of
  std::string name;
  os::PublicKey key{};
  std::uint64_t expires_s = 0;
  os::Digest digest{};
  os::Signature signature{};
};

struct TrustedKey {
  os::PublicKey key{};
  std::string name;
};

// LWMQ_E_CORRUPT with a text that names the line.
Status parse_signature(std::string_view text, ModuleSignature* out_signature);
Status parse_trust(std::string_view text, std::vector<TrustedKey>* out_keys);

// The text of a signature of `bytes` bytes at `data` under that name.
Status make_signature(const std::string& name, const void* data, std::size_t bytes,
                      const os::SecretKey& secret, std::uint64_t expires_s, std::string* out_text);

// Whether `signature` is of these bytes and this name, by one of `keys`, and has not expired at `now_s`.
// LWMQ_E_DENIED with a text; LWMQ_E_UNSUPPORTED without libcrypto. *out_signer: the key, where it is trusted.
Status check_signature(const ModuleSignature& signature, const std::string& name, const void* data,
                       std::size_t bytes, const std::vector<TrustedKey>& keys, std::uint64_t now_s,
                       const TrustedKey** out_signer);

std::string hex_of(const std::uint8_t* data, std::size_t bytes);
bool parse_hex(std::string_view text, std::uint8_t* out, std::size_t bytes) noexcept;

}  // namespace lwmq::modules
