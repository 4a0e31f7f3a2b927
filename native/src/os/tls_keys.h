// Keys that both ends of a TLS connection share, and those that this process was given in place of a file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "os/unique_fd.h"

namespace lwmq::os {

inline constexpr std::size_t kKeyBytesMin = 16, kKeyBytesMax = 64;
inline constexpr std::size_t kIdentityBytesMax = 160;
inline constexpr unsigned char kAnyContext[] = {'l', 'w', 'm', 'q'};  // an end that verifies must have one

struct TlsKey {
  std::string identity;
  unsigned char bytes[kKeyBytesMax] = {};
  std::size_t size = 0;

  ~TlsKey();
  // Reads `line`: identity:key, the key in hexadecimal; without an identity that is "lwmq". LWMQ_E_INVALID;
  // the text names `what` the line is, and shows nothing of it.
  Status parse(std::string_view line, const std::string& what);
  // An SSL_SESSION for the handshake of `ssl`. The caller frees it. Null: OpenSSL refuses.
  [[nodiscard]] void* session(void* ssl) const noexcept;
};

// Keeps the key of `line` for the listener `name`, in place of the one before. LWMQ_E_INVALID. Any thread.
Status keep_key(const std::string& name, std::string_view line);
// False: there is none.
bool find_kept_key(const std::string& name, TlsKey* out_key);
// The key of that identity, and the listener that it is for.
bool find_kept_key_of(const std::string& identity, std::string* out_name, TlsKey* out_key);

// Opens a file that only its owner, who is this user, may read. LWMQ_E_DENIED: it cannot be read, or others
// may read it. LWMQ_E_INVALID: it is no file.
Status open_secret(const std::string& path, UniqueFd* out_file) noexcept;
// Appends the keys of such a file, one of each line that is neither empty nor begins with '#'; at least one.
// LWMQ_E_INVALID: it has none, or a line that is none; and as open_secret.
Status read_keys(const std::string& path, std::vector<TlsKey>* out_keys) noexcept;

}  // namespace lwmq::os
