#include <algorithm>
#include <new>

#include "os/openssl.h"
#include "os/tls.h"
#include "os/tls_keys.h"
#include "os/unique_fd.h"

namespace lwmq::os {
namespace {

// Numbers of OpenSSL's interface.
constexpr int kSetReadAhead = 41, kSetSessionCache = 44, kSetLeastVersion = 123, kPem = 1;
constexpr int kTls13 = 0x0304;
constexpr int kVerifyPeer = 1, kRefuseWithoutCertificate = 2;
constexpr std::uint64_t kCleansePlaintext = 1u << 1, kNoTicket = 1u << 14;
// A key is bound to a digest, SHA-256; certificates are not.
constexpr char kSuitesOfKeys[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr char kSuites[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

constexpr std::size_t kReadAheadBytes = 64 * 1024;

// An encrypted private key cannot be used: nobody is there to type its password.
int no_password(char*, int, int, void*) noexcept { return -1; }

Status unusable(const OpenSsl& ssl, const std::string& path, const char* what) noexcept {
  const char* reason = ssl.ERR_reason_error_string(ssl.ERR_peek_error());
  return fail(LWMQ_E_INVALID, "%s: %s: %s", path.c_str(), what, reason == nullptr ? "unknown" : reason);
}

}  // namespace

Status TlsCredentials::load(const TlsFiles& files, const char* name,
                            std::shared_ptr<const TlsCredentials>* out_credentials) {
  const OpenSsl* ssl = openssl();
  if (ssl == nullptr) return openssl_missing();
  const std::shared_ptr<TlsCredentials> made(new (std::nothrow) TlsCredentials(files));
  if (made == nullptr || (made->context_ = ssl->SSL_CTX_new(ssl->TLS_method())) == nullptr)
    return fail(LWMQ_E_NO_MEMORY, "no memory for credentials");
  void* context = made->context_;
  ssl->ERR_clear_error();
  ssl->SSL_CTX_ctrl(context, kSetLeastVersion, kTls13, nullptr);
  ssl->SSL_CTX_ctrl(context, kSetSessionCache, 0, nullptr);
  ssl->SSL_CTX_ctrl(context, kSetReadAhead, 1, nullptr);
  ssl->SSL_CTX_set_default_read_buffer_len(context, kReadAheadBytes);
  ssl->SSL_CTX_set_num_tickets(context, 0);
  ssl->SSL_CTX_set_session_id_context(context, kAnyContext, sizeof kAnyContext);
  ssl->SSL_CTX_set_options(context, kCleansePlaintext | kNoTicket);
  ssl->SSL_CTX_set_default_passwd_cb(context, no_password);
  // Also with a key: a peer that falls back to a certificate is refused, because no authority is known.
  ssl->SSL_CTX_set_verify(context, kVerifyPeer | kRefuseWithoutCertificate, nullptr);
  ssl->SSL_CTX_set_ciphersuites(context, files.have_certificate() ? kSuites : kSuitesOfKeys);
  const Status status = files.have_certificate() ? made->use_certificate()
                        : files.psk.empty()      ? made->use_kept_key(name)
                                                 : read_keys(files.psk, &made->keys_);
  if (!files.have_certificate()) {
    ssl->SSL_CTX_set_psk_use_session_callback(context, offer_key);
    ssl->SSL_CTX_set_psk_find_session_callback(context, find_key);
  }
  if (status == LWMQ_OK) *out_credentials = made;
  ssl->ERR_clear_error();
  return status;
}

TlsCredentials::~TlsCredentials() {
  if (openssl_is_over()) return;
  openssl()->SSL_CTX_free(context_);
}

Status TlsCredentials::use_certificate() noexcept {
  const OpenSsl& ssl = *openssl();
  UniqueFd secret;
  if (const Status status = open_secret(files_.private_key, &secret); status != LWMQ_OK) return status;
  if (ssl.SSL_CTX_use_certificate_chain_file(context_, files_.certificate.c_str()) != 1)
    return unusable(ssl, files_.certificate, "no certificate in PEM");
  if (ssl.SSL_CTX_use_PrivateKey_file(context_, files_.private_key.c_str(), kPem) != 1)
    return unusable(ssl, files_.private_key, "no private key in PEM without a password");
  if (ssl.SSL_CTX_check_private_key(context_) != 1)
    return unusable(ssl, files_.private_key, "not the key of the certificate");
  if (ssl.SSL_CTX_load_verify_locations(context_, files_.authority.c_str(), nullptr) != 1)
    return unusable(ssl, files_.authority, "no certificates in PEM");
  return LWMQ_OK;
}

// ---- Keys --------------------------------------------------------------------------------------------

// A client offers the key of the listener that it asks for. A port looks for the key when a client offers
// one.
Status TlsCredentials::use_kept_key(const char* name) {
  if (name == nullptr) return LWMQ_OK;
  TlsKey key;
  if (!find_kept_key(name, &key)) return fail(LWMQ_E_INVALID, "this process has no key for '%s'", name);
  keys_.push_back(key);
  return LWMQ_OK;
}

int TlsCredentials::offer_key(void* ssl, const void*, const unsigned char** out_identity,
                              std::size_t* out_bytes, void** out_session) noexcept {
  const auto& ours = *static_cast<const Tls*>(openssl()->SSL_get_ex_data(ssl, 0))->credentials_;
  const TlsKey& key = ours.keys_.front();
  *out_identity = reinterpret_cast<const unsigned char*>(key.identity.data());
  *out_bytes = key.identity.size();
  *out_session = key.session(ssl);
  return *out_session != nullptr ? 1 : 0;
}

int TlsCredentials::find_key(void* ssl, const unsigned char* identity, std::size_t bytes,
                             void** out_session) noexcept {
  auto& tls = *static_cast<Tls*>(openssl()->SSL_get_ex_data(ssl, 0));
  const std::string asked(reinterpret_cast<const char*>(identity), std::min(bytes, kIdentityBytesMax + 1));
  *out_session = nullptr;
  TlsKey found;
  for (const TlsKey& key : tls.credentials_->keys_) {
    if (key.identity == asked) found = key;
  }
  if (tls.credentials_->files_.psk.empty() && find_kept_key_of(asked, &tls.key_is_for_, &found))
    tls.has_kept_key_ = true;
  if (found.size > 0) {
    *out_session = found.session(ssl);
    return *out_session != nullptr ? 1 : 0;
  }
  tls.unknown_identity_ = asked.substr(0, kIdentityBytesMax);
  for (char& c : tls.unknown_identity_) c = c < ' ' || c > '~' ? '?' : c;
  return 1;  // OpenSSL ends the handshake, because there is no other way to go on
}

}  // namespace lwmq::os
