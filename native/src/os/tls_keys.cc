#include "os/tls_keys.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>

#include "base/erase.h"
#include "os/openssl.h"

namespace lwmq::os {
namespace {

constexpr int kTls13 = 0x0304;
constexpr unsigned char kAes128Sha256[] = {0x13, 0x01};
constexpr char kDefaultIdentity[] = "lwmq";
constexpr std::size_t kKeyFileBytesMax = 64 * 1024;

int digit_of(char c) noexcept {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

// The keys of this process. Never destroyed: threads may outlive main.
struct Kept {
  std::mutex mutex;
  std::map<std::string, TlsKey> by_name;
};

Kept& kept() noexcept {
  static auto* instance = new Kept;
  return *instance;
}

}  // namespace

TlsKey::~TlsKey() { erase(bytes, sizeof bytes); }

Status TlsKey::parse(std::string_view line, const std::string& what) {
  const std::size_t colon = line.rfind(':');
  const bool has_identity = colon != std::string_view::npos;
  identity = has_identity ? line.substr(0, colon) : kDefaultIdentity;
  const std::string_view digits = has_identity ? line.substr(colon + 1) : line;
  bool is_right = !identity.empty() && identity.size() <= kIdentityBytesMax && digits.size() % 2 == 0 &&
                  digits.size() >= 2 * kKeyBytesMin && digits.size() <= 2 * kKeyBytesMax;
  for (size = 0; is_right && size < digits.size() / 2; ++size) {
    const int high = digit_of(digits[2 * size]);
    const int low = digit_of(digits[2 * size + 1]);
    is_right = high >= 0 && low >= 0;
    bytes[size] = static_cast<unsigned char>(high << 4 | low);
  }
  if (is_right) return LWMQ_OK;
  return fail(
      LWMQ_E_INVALID,
      "%s is not identity:key, with a key of %zu to %zu bytes in hexadecimal and an identity of at most "
      "%zu characters",
      what.c_str(), kKeyBytesMin, kKeyBytesMax, kIdentityBytesMax);
}

void* TlsKey::session(void* ssl) const noexcept {
  const OpenSsl& api = *openssl();
  void* made = api.SSL_SESSION_new();
  if (made != nullptr && api.SSL_SESSION_set1_master_key(made, bytes, size) == 1 &&
      api.SSL_SESSION_set1_id_context(made, kAnyContext, sizeof kAnyContext) == 1 &&
      api.SSL_SESSION_set_cipher(made, api.SSL_CIPHER_find(ssl, kAes128Sha256)) == 1 &&
      api.SSL_SESSION_set_protocol_version(made, kTls13) == 1)
    return made;
  if (made != nullptr) api.SSL_SESSION_free(made);
  return nullptr;
}

Status keep_key(const std::string& name, std::string_view line) {
  TlsKey key;
  if (const Status status = key.parse(line, "the key for '" + name + "'"); status != LWMQ_OK) return status;
  const std::lock_guard lock(kept().mutex);
  kept().by_name[name] = key;
  return LWMQ_OK;
}

bool find_kept_key(const std::string& name, TlsKey* out_key) {
  const std::lock_guard lock(kept().mutex);
  const auto found = kept().by_name.find(name);
  if (found != kept().by_name.end()) *out_key = found->second;
  return found != kept().by_name.end();
}

bool find_kept_key_of(const std::string& identity, std::string* out_name, TlsKey* out_key) {
  const std::lock_guard lock(kept().mutex);
  for (const auto& [name, key] : kept().by_name) {
    if (key.identity != identity) continue;
    *out_name = name;
    *out_key = key;
    return true;
  }
  return false;
}

Status open_secret(const std::string& path, UniqueFd* out_file) noexcept {
  *out_file = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found {};
  if (!*out_file || fstat(out_file->get(), &found) != 0)
    return fail_errno(LWMQ_E_DENIED, errno, "%s", path.c_str());
  if (!S_ISREG(found.st_mode)) return fail(LWMQ_E_INVALID, "%s: no regular file", path.c_str());
  if ((found.st_mode & 077) != 0) {
    return fail(LWMQ_E_DENIED, "%s: group or others have access to the secret (mode %03o): chmod 600 it",
                path.c_str(), found.st_mode & 0777);
  }
  if (found.st_uid != geteuid() && found.st_uid != 0) {
    return fail(LWMQ_E_DENIED, "%s: belongs to user %u, and this process is user %u's", path.c_str(),
                found.st_uid, geteuid());
  }
  return LWMQ_OK;
}

Status read_keys(const std::string& file_name, std::vector<TlsKey>* out_keys) noexcept {
  const char* path = file_name.c_str();
  UniqueFd file;
  if (const Status status = open_secret(file_name, &file); status != LWMQ_OK) return status;
  const std::unique_ptr<char[]> text(new (std::nothrow) char[kKeyFileBytesMax]);
  if (text == nullptr) return fail(LWMQ_E_NO_MEMORY, "%s: no memory", path);
  std::size_t bytes = 0;
  ssize_t got = 0;
  while (bytes < kKeyFileBytesMax && (got = ::read(file.get(), &text[bytes], kKeyFileBytesMax - bytes)) > 0)
    bytes += static_cast<std::size_t>(got);
  Status status = bytes < kKeyFileBytesMax
                      ? LWMQ_OK
                      : fail(LWMQ_E_TOO_BIG, "%s: %zu bytes or more of keys", path, kKeyFileBytesMax);
  int number = 0;
  for (std::size_t at = 0; at < bytes && status == LWMQ_OK;) {
    const void* end = std::memchr(&text[at], '\n', bytes - at);
    const std::size_t next =
        end == nullptr ? bytes : static_cast<std::size_t>(static_cast<const char*>(end) - text.get());
    std::size_t length = next - at;
    while (length > 0 && static_cast<unsigned char>(text[at + length - 1]) <= ' ') --length;
    ++number;
    TlsKey key;
    if (length > 0 && text[at] != '#') {
      status = key.parse({&text[at], length}, file_name + ": line " + std::to_string(number));
      if (status == LWMQ_OK) out_keys->push_back(key);
    }
    at = next + 1;
  }
  erase(text.get(), bytes);
  if (status == LWMQ_OK && out_keys->empty())
    return fail(LWMQ_E_INVALID, "%s: no key; write a line identity:key", path);
  return status;
}

}  // namespace lwmq::os
