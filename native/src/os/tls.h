// TLS 1.3 over a connected, non-blocking socket. Both ends prove themselves: by a key that they share (an
// external PSK, always with an ephemeral key exchange), or by certificates. There is neither resumption nor
// early data. No call waits.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "os/tls_keys.h"

namespace lwmq::os {

// Where credentials lie: a key that both ends share, or the other three. None: keys that this process was
// given (os/tls_keys.h).
struct TlsFiles {
  std::string psk;          // lines of identity:key, the key in hexadecimal; or the key alone
  std::string certificate;  // PEM: ours, and those that lead from it to the authority
  std::string private_key;  // PEM: of the certificate
  std::string authority;    // PEM: who signs for the other end

  [[nodiscard]] bool have_certificate() const noexcept { return !certificate.empty(); }
  [[nodiscard]] bool operator==(const TlsFiles&) const = default;
};

// What one end proves itself with. Secrets stay in memory that is wiped. Any thread.
class TlsCredentials {
 public:
  // LWMQ_E_UNSUPPORTED: there is no OpenSSL 3. LWMQ_E_DENIED: a file cannot be read, or is a secret that
  // others may read. LWMQ_E_INVALID: a file does not have what it is there for.
  // `name`: of the listener that a client asks for; null: this end serves.
  static Status load(const TlsFiles& files, const char* name,
                     std::shared_ptr<const TlsCredentials>* out_credentials);
  ~TlsCredentials();
  TlsCredentials(const TlsCredentials&) = delete;
  TlsCredentials& operator=(const TlsCredentials&) = delete;

 private:
  friend class Tls;
  explicit TlsCredentials(const TlsFiles& files) noexcept : files_(files) {}
  Status use_kept_key(const char* name);
  Status use_certificate() noexcept;
  // OpenSSL's calls of us.
  static int offer_key(void* ssl, const void* digest, const unsigned char** out_identity,
                       std::size_t* out_bytes, void** out_session) noexcept;
  static int find_key(void* ssl, const unsigned char* identity, std::size_t bytes,
                      void** out_session) noexcept;

  const TlsFiles files_;
  void* context_ = nullptr;  // SSL_CTX
  std::vector<TlsKey> keys_;
};

// One end of a connection. Two threads may read and write at the same time; one waits for the other's record.
class Tls {
 public:
  // Keeps the credentials, and lends the socket for its life. `host`: the client's, which the other end's
  // certificate must name; null: we serve. LWMQ_E_NO_MEMORY.
  static Status make(std::shared_ptr<const TlsCredentials> credentials, int socket, const char* host,
                     std::unique_ptr<Tls>* out_tls) noexcept;
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  // The next steps of the handshake. LWMQ_E_FULL: not yet. LWMQ_E_EMPTY: the other end has gone.
  // LWMQ_E_DENIED: one end has refused the other, for the reason in the text.
  Status shake_hands() noexcept;

  // As sendmsg and readv of a non-blocking socket. What was written and the socket did not take is unsent:
  // write goes on with it, without any pieces too. A read that `looks` no more takes what has come before.
  ssize_t write(const iovec* pieces, std::size_t count) noexcept;
  ssize_t read(const iovec* room, std::size_t count, bool looks) noexcept;
  [[nodiscard]] bool has_unsent() noexcept;
  // Tells the other end that nothing follows. False: part of that is unsent.
  bool say_goodbye() noexcept;

  // LWMQ_E_DENIED, with the reason: the other end has refused us although our handshake was done. LWMQ_OK: it
  // has not.
  Status refusal() const noexcept;
  // Whether the key of the other end is good for the listener `name`: a key of a file is good for all.
  [[nodiscard]] bool is_good_for(std::string_view name) const noexcept {
    return !has_kept_key_ || key_is_for_ == name;
  }
  [[nodiscard]] const std::string& key_is_for() const noexcept { return key_is_for_; }
  // The first bytes that came, in the order of memory: they tell what is no TLS at all. 0: fewer than four.
  [[nodiscard]] std::uint32_t first_word() const noexcept { return first_bytes_ < 4 ? 0 : first_word_; }

 private:
  friend class TlsCredentials;
  static constexpr std::size_t kRecordBytes = 16 * 1024;  // of the largest, as it is before it is encrypted
  static constexpr std::size_t kRecordRoom = kRecordBytes + 512;  // as it is behind
  static constexpr std::size_t kOutBytes = 4 * kRecordRoom;

  Tls(std::shared_ptr<const TlsCredentials> credentials, int socket, bool serves) noexcept
      : credentials_(std::move(credentials)), socket_(socket), serves_(serves) {}

  // With mutex_.
  bool send_out() noexcept;
  bool write_record(const void* bytes, std::size_t size) noexcept;
  Status explain(int error) noexcept;
  // OpenSSL's calls of us, with mutex_.
  static int bio_read(void* bio, char* out, int bytes) noexcept;
  static int bio_write(void* bio, const char* data, int bytes) noexcept;
  static long bio_ctrl(void* bio, int command, long number, void* pointer) noexcept;
  static const void* bio_method() noexcept;

  const std::shared_ptr<const TlsCredentials> credentials_;
  const int socket_;
  const bool serves_;

  std::mutex mutex_;  // guards what follows
  void* ssl_ = nullptr;
  bool looks_ = true;
  bool has_said_goodbye_ = false;
  bool is_refused_ = false;
  std::unique_ptr<std::uint8_t[]> out_;  // encrypted
  std::size_t out_begin_ = 0, out_end_ = 0;
  std::unique_ptr<std::uint8_t[]> record_;  // small pieces that make one record
  std::uint64_t bytes_under_key_ = 0;
  std::uint32_t first_word_ = 0, first_bytes_ = 0;
  std::string unknown_identity_;
  bool has_kept_key_ = false;  // of the other end; then also:
  std::string key_is_for_;
  std::string why_;
};

}  // namespace lwmq::os
