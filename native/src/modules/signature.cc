#include "modules/signature.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>

namespace lwmq::modules {
namespace {

constexpr std::string_view kFirstLine = "lwmq-module-signature 1\n";
constexpr std::size_t kNameMax = 200;

int digit_of(char c) noexcept {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The value of line `KEY VALUE\n`, which it takes off `text`. False: another line stands there.
bool take_line(std::string_view& text, std::string_view key, std::string_view* out_value) noexcept {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || text.substr(0, key.size()) != key) return false;
  const std::string_view line = text.substr(0, end);
  if (line.size() <= key.size() || line[key.size()] != ' ') return false;
  *out_value = line.substr(key.size() + 1);
  text.remove_prefix(end + 1);
  return true;
}

bool is_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= kNameMax &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f && c != '/'; });
}

}  // namespace

std::string hex_of(const std::uint8_t* data, std::size_t bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) {
    text += kDigits[data[i] >> 4];
    text += kDigits[data[i] & 15];
  }
  return text;
}

bool parse_hex(std::string_view text, std::uint8_t* out, std::size_t bytes) noexcept {
  if (text.size() != 2 * bytes) return false;
  for (std::size_t i = 0; i < bytes; ++i) {
    const int high = digit_of(text[2 * i]);
    const int low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return true;
}

Status parse_signature(std::string_view text, ModuleSignature* out_signature) {
  ModuleSignature& made = *out_signature;
  const auto wrong = [](const char* line) {
    return fail(LWMQ_E_CORRUPT, "the signature is malformed: its line '%s' is missing or wrong", line);
  };
  if (text.size() > kSignatureBytesMax)
    return fail(LWMQ_E_CORRUPT, "a signature has at most %zu bytes, not %zu", kSignatureBytesMax,
                text.size());
  std::string_view rest = text;
  std::string_view value;
  if (rest.substr(0, kFirstLine.size()) != kFirstLine) return wrong("lwmq-module-signature 1");
  rest.remove_prefix(kFirstLine.size());
  if (!take_line(rest, "name", &value) || !is_name(value)) return wrong("name");
  made.name = value;
  if (!take_line(rest, "key", &value) || !parse_hex(value, made.key.data(), made.key.size()))
    return wrong("key");
  if (!take_line(rest, "expires", &value) || value.empty() || value.size() > 18) return wrong("expires");
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), made.expires_s);
  if (error != std::errc{} || end != value.data() + value.size()) return wrong("expires");
  if (!take_line(rest, "sha512", &value) || !parse_hex(value, made.digest.data(), made.digest.size()))
    return wrong("sha512");
  made.signed_text = text.substr(0, text.size() - rest.size());
  if (!take_line(rest, "signature", &value) ||
      !parse_hex(value, made.signature.data(), made.signature.size()) || !rest.empty())
    return wrong("signature");
  return LWMQ_OK;
}

Status parse_trust(std::string_view text, std::vector<TrustedKey>* out_keys) {
  out_keys->clear();
  if (text.size() > kTrustBytesMax)
    return fail(LWMQ_E_CORRUPT, "a trust file has at most %zu bytes, not %zu", kTrustBytesMax, text.size());
  for (unsigned number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r'))
      line.remove_suffix(1);
    if (line.empty()) continue;
    constexpr std::string_view kKind = "ed25519 ";
    constexpr std::size_t kDigits = 2 * sizeof(os::PublicKey);
    TrustedKey key;
    const bool good = line.substr(0, kKind.size()) == kKind && line.size() > kKind.size() + kDigits + 1 &&
                      line[kKind.size() + kDigits] == ' ' &&
                      parse_hex(line.substr(kKind.size(), kDigits), key.key.data(), key.key.size());
    if (!good) {
      return fail(LWMQ_E_CORRUPT, "line %u of the trust file is not `ed25519 KEY NAME` (64 digits a-f0-9)",
                  number);
    }
    key.name = line.substr(kKind.size() + kDigits + 1);
    if (!is_name(key.name)) return fail(LWMQ_E_CORRUPT, "line %u of the trust file: no name", number);
    out_keys->push_back(std::move(key));
  }
  return LWMQ_OK;
}

Status make_signature(const std::string& name, const void* data, std::size_t bytes,
                      const os::SecretKey& secret, std::uint64_t expires_s, std::string* out_text) {
  if (!is_name(name))
    return fail(LWMQ_E_INVALID, "'%s': a module's name has no spaces or slashes, and at most %zu bytes",
                name.c_str(), kNameMax);
  os::PublicKey key{};
  os::Digest digest{};
  os::Signature signature{};
  Status status = os::public_key_of(secret, &key);
  if (status == LWMQ_OK) status = os::digest_of(data, bytes, &digest);
  if (status != LWMQ_OK) return status;
  std::string text(kFirstLine);
  text += "name " + name + "\nkey " + hex_of(key.data(), key.size()) + "\nexpires " +
          std::to_string(expires_s) + "\nsha512 " + hex_of(digest.data(), digest.size()) + "\n";
  status = os::sign(secret, text.data(), text.size(), &signature);
  if (status != LWMQ_OK) return status;
  *out_text = text + "signature " + hex_of(signature.data(), signature.size()) + "\n";
  return LWMQ_OK;
}

Status check_signature(const ModuleSignature& signature, const std::string& name, const void* data,
                       std::size_t bytes, const std::vector<TrustedKey>& keys, std::uint64_t now_s,
                       const TrustedKey** out_signer) {
  *out_signer = nullptr;
  for (const TrustedKey& key : keys) {
    if (key.key == signature.key) *out_signer = &key;
  }
  if (*out_signer == nullptr) {
    return fail(LWMQ_E_DENIED, "signed by key %s, which is none of the %zu in the trust file",
                hex_of(signature.key.data(), signature.key.size()).c_str(), keys.size());
  }
  Status status = os::verify(signature.key, signature.signed_text.data(), signature.signed_text.size(),
                             signature.signature);
  if (status != LWMQ_OK) return status;
  os::Digest digest{};
  status = os::digest_of(data, bytes, &digest);
  if (status != LWMQ_OK) return status;
  if (digest != signature.digest)
    return fail(LWMQ_E_DENIED, "tampered: its bytes are not those that %s has signed",
                (*out_signer)->name.c_str());
  if (name != signature.name)
    return fail(LWMQ_E_DENIED, "the signature is of %s, not of %s", signature.name.c_str(), name.c_str());
  if (now_s >= signature.expires_s)
    return fail(LWMQ_E_DENIED, "the signature has expired, %" PRIu64 " s ago", now_s - signature.expires_s);
  return LWMQ_OK;
}

}  // namespace lwmq::modules
