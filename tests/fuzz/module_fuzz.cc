// What stands beside a module: its signature and the file of trusted keys. Whatever it is, an error with a
// text or what its format says; nothing that was not signed with a trusted key counts.
#include <string>
#include <vector>

#include "input.h"
#include "modules/signature.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace lwmq;
  using namespace lwmq::modules;
  // A signature, a zero byte, and a trust file.
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  const std::size_t cut = std::min(text.find('\0'), text.size());
  const std::string signature_text = text.substr(0, cut);
  const std::string trust_text = cut < text.size() ? text.substr(cut + 1) : "";

  std::vector<TrustedKey> keys;
  const Status trusted = parse_trust(trust_text, &keys);
  fuzz::require(trusted == LWMQ_OK || trusted == LWMQ_E_CORRUPT, "a trust file is good or corrupt");
  for (const TrustedKey& key : keys) fuzz::require(!key.name.empty(), "each key has a name");

  ModuleSignature signature;
  const Status parsed = parse_signature(signature_text, &signature);
  fuzz::require(parsed == LWMQ_OK || parsed == LWMQ_E_CORRUPT, "a signature is good or corrupt");
  if (parsed != LWMQ_OK) return 0;
  fuzz::require(signature_text.substr(0, signature.signed_text.size()) == signature.signed_text,
                "what is signed is what stands there");
  fuzz::require(signature.name.find('/') == std::string::npos, "a module's name is no path");
  if (trusted != LWMQ_OK) return 0;
  const TrustedKey* signer = nullptr;
  const std::string module = "the bytes of a module";
  const Status checked =
      check_signature(signature, "toy.so", module.data(), module.size(), keys, 1'000'000, &signer);
  // The key of the corpus has signed these bytes under that name once, until 2,000,000: `good`.
  fuzz::require(checked != LWMQ_OK || (signer != nullptr && signer->key == signature.key &&
                                       signature.expires_s > 1'000'000 && signature.name == "toy.so"),
                "nothing counts that was not signed");
  fuzz::require(hex_of(signature.key.data(), signature.key.size()).size() == 64, "a key has 64 digits");
  return 0;
}
