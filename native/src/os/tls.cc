#include "os/tls.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/erase.h"
#include "os/openssl.h"

namespace lwmq::os {
namespace {

// Numbers of OpenSSL's interface.
constexpr int kWantRead = 2, kWantWrite = 3, kErrorSyscall = 5, kZeroReturn = 6;
constexpr int kUnexpectedEnd = 294;
constexpr int kAlertReasons = 1000;  // the reason of an alert that came: this and the alert's number
constexpr int kAlertHandshakeFailure = 40, kAlertIllegalParameter = 47, kAlertUnknownIdentity = 115;
constexpr int kRetryRead = 0x01 | 0x08, kRetryWrite = 0x02 | 0x08, kRetryAll = 0x0f;
constexpr int kBioFlush = 11;

// AES-GCM may encrypt some 2^24 records under one key (RFC 8446, 5.5); we change it earlier.
constexpr std::uint64_t kBytesUnderKeyMax = std::uint64_t{64} << 30;
constexpr int kUpdateNotRequested = 0;

int reason_of(unsigned long error) noexcept { return static_cast<int>(error & 0x7fffff); }

}  // namespace

Status Tls::make(std::shared_ptr<const TlsCredentials> credentials, int socket, const char* host,
                 std::unique_ptr<Tls>* out_tls) noexcept {
  const OpenSsl& ssl = *openssl();
  const bool has_certificate = credentials->files_.have_certificate();
  std::unique_ptr<Tls> made(new (std::nothrow) Tls(std::move(credentials), socket, host == nullptr));
  if (made != nullptr) {
    made->out_.reset(new (std::nothrow) std::uint8_t[kOutBytes]);
    made->record_.reset(new (std::nothrow) std::uint8_t[kRecordBytes]);
    made->ssl_ = ssl.SSL_new(made->credentials_->context_);
  }
  void* bio = made != nullptr ? ssl.BIO_new(bio_method()) : nullptr;
  if (bio == nullptr || !made->out_ || !made->record_ || made->ssl_ == nullptr)
    return fail(LWMQ_E_NO_MEMORY, "no memory for a TLS connection");
  ssl.BIO_set_data(bio, made.get());
  ssl.BIO_set_init(bio, 1);
  ssl.SSL_set_bio(made->ssl_, bio, bio);
  ssl.SSL_set_ex_data(made->ssl_, 0, made.get());
  if (host == nullptr) {
    ssl.SSL_set_accept_state(made->ssl_);
  } else {
    ssl.SSL_set_connect_state(made->ssl_);
    if (has_certificate && ssl.SSL_set1_host(made->ssl_, host) != 1)
      return fail(LWMQ_E_NO_MEMORY, "no memory for a TLS connection");
  }
  *out_tls = std::move(made);
  return LWMQ_OK;
}

Tls::~Tls() {
  if (ssl_ != nullptr && !openssl_is_over()) openssl()->SSL_free(ssl_);
  if (record_ != nullptr) erase(record_.get(), kRecordBytes);
}

// ---- Between OpenSSL and the socket ------------------------------------------------------------------

const void* Tls::bio_method() noexcept {
  static const void* method = [] {
    const OpenSsl& ssl = *openssl();
    void* made = ssl.BIO_meth_new(ssl.BIO_get_new_index() | 0x0400, "lwmq");  // BIO_TYPE_SOURCE_SINK
    if (made != nullptr) {
      ssl.BIO_meth_set_read(made, bio_read);
      ssl.BIO_meth_set_write(made, bio_write);
      ssl.BIO_meth_set_ctrl(made, bio_ctrl);
    }
    return made;
  }();
  return method;
}

int Tls::bio_read(void* bio, char* out, int bytes) noexcept {
  const OpenSsl& ssl = *openssl();
  Tls& tls = *static_cast<Tls*>(ssl.BIO_get_data(bio));
  ssl.BIO_clear_flags(bio, kRetryAll);
  ssize_t got = -1;
  errno = EAGAIN;
  if (tls.looks_) {
    do {
      got = recv(tls.socket_, out, static_cast<std::size_t>(bytes), MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
  }
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    ssl.BIO_set_flags(bio, kRetryRead);
    return -1;
  }
  if (got <= 0) return 0;
  const auto first = std::min(static_cast<std::uint32_t>(got), 4 - tls.first_bytes_);
  std::memcpy(reinterpret_cast<char*>(&tls.first_word_) + tls.first_bytes_, out, first);
  tls.first_bytes_ += first;
  return static_cast<int>(got);
}

int Tls::bio_write(void* bio, const char* data, int bytes) noexcept {
  const OpenSsl& ssl = *openssl();
  Tls& tls = *static_cast<Tls*>(ssl.BIO_get_data(bio));
  ssl.BIO_clear_flags(bio, kRetryAll);
  const std::size_t taken = std::min(static_cast<std::size_t>(bytes), kOutBytes - tls.out_end_);
  if (taken == 0) {
    ssl.BIO_set_flags(bio, kRetryWrite);
    return -1;
  }
  std::memcpy(&tls.out_[tls.out_end_], data, taken);
  tls.out_end_ += taken;
  return static_cast<int>(taken);
}

long Tls::bio_ctrl(void*, int command, long, void*) noexcept { return command == kBioFlush ? 1 : 0; }

// Sends what is encrypted. False: the socket takes no more now, or never again (errno).
bool Tls::send_out() noexcept {
  while (out_begin_ < out_end_) {
    const ssize_t sent = send(socket_, &out_[out_begin_], out_end_ - out_begin_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    out_begin_ += static_cast<std::size_t>(sent);
  }
  out_begin_ = out_end_ = 0;
  return true;
}

// ---- The handshake -----------------------------------------------------------------------------------

Status Tls::shake_hands() noexcept {
  const std::lock_guard lock(mutex_);
  const OpenSsl& ssl = *openssl();
  for (;;) {
    ssl.ERR_clear_error();
    const int done = ssl.SSL_do_handshake(ssl_);
    const int error = done == 1 ? 0 : ssl.SSL_get_error(ssl_, done);
    const Status status = error == 0 || error == kWantRead || error == kWantWrite ? LWMQ_OK : explain(error);
    const bool is_sent = send_out();  // an alert, too
    if (status != LWMQ_OK) return status;
    if (error == kWantWrite && is_sent) continue;
    // Where the other end has gone, it may have said why: that is read next.
    if (error != 0 || (!is_sent && (errno == EAGAIN || errno == ENOBUFS))) return LWMQ_E_FULL;
    // OpenSSL has checked that the peer has the key. Trust in a key rests on this line alone.
    if (credentials_->files_.have_certificate() || ssl.SSL_session_reused(ssl_) == 1) return LWMQ_OK;
    return fail(LWMQ_E_DENIED, "the handshake went on without the key");
  }
}

// Why the last call of OpenSSL has failed.
Status Tls::explain(int error) noexcept {
  const OpenSsl& ssl = *openssl();
  const unsigned long code = ssl.ERR_peek_error();
  const char* said = code != 0 ? ssl.ERR_reason_error_string(code) : nullptr;
  ssl.ERR_clear_error();
  if (error == kErrorSyscall || error == kZeroReturn || reason_of(code) == kUnexpectedEnd)
    return LWMQ_E_EMPTY;
  const std::string reason = said == nullptr ? "error " + std::to_string(code) : said;
  const TlsFiles& files = credentials_->files_;
  is_refused_ = true;
  if (const int alert = reason_of(code) - kAlertReasons; alert >= 0 && alert < 256) {
    why_ = "the other end refused the TLS handshake: " + reason;
    if (!files.have_certificate() && !serves_) {
      if (alert == kAlertHandshakeFailure || alert == kAlertUnknownIdentity)
        why_ += "; it has no key of identity '" + credentials_->keys_.front().identity +
                "', or wants a certificate";
      if (alert == kAlertIllegalParameter)
        why_ += "; it has another key of identity '" + credentials_->keys_.front().identity + "'";
    }
    if (files.have_certificate() && !serves_ && alert == kAlertHandshakeFailure)
      why_ += "; perhaps it wants a key (psk)";
    return refusal();
  }
  const long verified = ssl.SSL_get_verify_result(ssl_);
  why_ = "the TLS handshake failed: " + reason;
  if (!unknown_identity_.empty())
    why_ = "there is no key of identity '" + unknown_identity_ + "' in " +
           (files.psk.empty() ? "this process" : files.psk);
  else if (files.have_certificate() && verified != 0)
    why_ = std::string("the other end's certificate: ") + ssl.X509_verify_cert_error_string(verified);
  return refusal();
}

Status Tls::refusal() const noexcept {
  return is_refused_ ? fail(LWMQ_E_DENIED, "%s", why_.c_str()) : LWMQ_OK;
}

// ---- What is said ------------------------------------------------------------------------------------

bool Tls::write_record(const void* bytes, std::size_t size) noexcept {
  const OpenSsl& ssl = *openssl();
  if ((bytes_under_key_ += size) > kBytesUnderKeyMax) {
    bytes_under_key_ = 0;
    ssl.SSL_key_update(ssl_, kUpdateNotRequested);
  }
  ssl.ERR_clear_error();
  std::size_t written = 0;
  return ssl.SSL_write_ex(ssl_, bytes, size, &written) == 1 && written == size;
}

ssize_t Tls::write(const iovec* pieces, std::size_t count) noexcept {
  const std::lock_guard lock(mutex_);
  if (openssl_is_over()) return errno = EPIPE, -1;
  std::size_t taken = 0;
  std::size_t at = 0;  // in the first piece
  while (count > 0 && kOutBytes - out_end_ >= kRecordRoom) {
    // A record that lies in one piece is encrypted from there; others are gathered first.
    const auto* first = static_cast<const std::uint8_t*>(pieces->iov_base) + at;
    std::size_t size = std::min(pieces->iov_len - at, kRecordBytes);
    const bool is_whole = size == kRecordBytes;
    if (is_whole) {
      at += size;
    } else {
      for (size = 0; count > 0 && size < kRecordBytes;) {
        const std::size_t part = std::min(pieces->iov_len - at, kRecordBytes - size);
        std::memcpy(&record_[size], static_cast<const std::uint8_t*>(pieces->iov_base) + at, part);
        size += part;
        at += part;
        if (at < pieces->iov_len) break;
        ++pieces;
        --count;
        at = 0;
      }
      first = record_.get();
    }
    if (is_whole && at == pieces->iov_len) {
      ++pieces;
      --count;
      at = 0;
    }
    const bool is_written = size == 0 || write_record(first, size);
    if (!is_whole) erase(record_.get(), size);
    if (!is_written) return errno = EPIPE, -1;
    taken += size;
  }
  const bool is_sent = send_out();
  if (taken > 0) return static_cast<ssize_t>(taken);
  if (is_sent && count == 0) return 0;
  if (is_sent) errno = EAGAIN;  // there is room by now
  return -1;
}

bool Tls::has_unsent() noexcept {
  const std::lock_guard lock(mutex_);
  return out_begin_ < out_end_;
}

bool Tls::say_goodbye() noexcept {
  const std::lock_guard lock(mutex_);
  if (openssl_is_over()) return true;
  if (!has_said_goodbye_ && kOutBytes - out_end_ < kRecordRoom && !send_out()) return false;
  if (!has_said_goodbye_) {
    has_said_goodbye_ = true;
    openssl()->ERR_clear_error();
    openssl()->SSL_shutdown(ssl_);
  }
  return send_out() || (errno != EAGAIN && errno != ENOBUFS);
}

// ---- What is heard -----------------------------------------------------------------------------------

ssize_t Tls::read(const iovec* room, std::size_t count, bool looks) noexcept {
  const OpenSsl& ssl = *openssl();
  std::size_t all = 0;
  for (; count > 0; ++room, --count) {
    for (std::size_t at = 0; at < room->iov_len;) {
      std::size_t got = 0;
      const std::lock_guard lock(mutex_);
      if (openssl_is_over()) return errno = EAGAIN, -1;
      looks_ = looks;
      ssl.ERR_clear_error();
      const int done =
          ssl.SSL_read_ex(ssl_, static_cast<std::uint8_t*>(room->iov_base) + at, room->iov_len - at, &got);
      at += got;
      all += got;
      if (done == 1) continue;
      if (all > 0) return static_cast<ssize_t>(all);  // the next call tells the end
      const int error = ssl.SSL_get_error(ssl_, done);
      if (error == kWantRead) return errno = EAGAIN, -1;
      explain(error);
      send_out();  // an alert
      return 0;
    }
  }
  return static_cast<ssize_t>(all);
}

}  // namespace lwmq::os
