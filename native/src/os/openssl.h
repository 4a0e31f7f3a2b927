// What we use of OpenSSL 3's libssl, as its headers declare it. Its structures are opaque to us. The library
// is opened when TLS is first asked for: a machine without it has everything else.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace lwmq::os {

// name, result, arguments
#define LWMQ_OPENSSL_FUNCTIONS(X)                                                      \
  X(OPENSSL_init_ssl, int, (std::uint64_t, const void*))                               \
  X(ERR_clear_error, void, ())                                                         \
  X(ERR_peek_error, unsigned long, ())                                                 \
  X(ERR_reason_error_string, const char*, (unsigned long))                             \
  X(X509_verify_cert_error_string, const char*, (long))                                \
  X(BIO_get_new_index, int, ())                                                        \
  X(BIO_meth_new, void*, (int, const char*))                                           \
  X(BIO_meth_set_read, int, (void*, int (*)(void*, char*, int)))                       \
  X(BIO_meth_set_write, int, (void*, int (*)(void*, const char*, int)))                \
  X(BIO_meth_set_ctrl, int, (void*, long (*)(void*, int, long, void*)))                \
  X(BIO_new, void*, (const void*))                                                     \
  X(BIO_set_init, void, (void*, int))                                                  \
  X(BIO_set_data, void, (void*, void*))                                                \
  X(BIO_get_data, void*, (void*))                                                      \
  X(BIO_set_flags, void, (void*, int))                                                 \
  X(BIO_clear_flags, void, (void*, int))                                               \
  X(TLS_method, const void*, ())                                                       \
  X(SSL_CTX_new, void*, (const void*))                                                 \
  X(SSL_CTX_free, void, (void*))                                                       \
  X(SSL_CTX_ctrl, long, (void*, int, long, void*))                                     \
  X(SSL_CTX_set_options, std::uint64_t, (void*, std::uint64_t))                        \
  X(SSL_CTX_set_num_tickets, int, (void*, std::size_t))                                \
  X(SSL_CTX_set_session_id_context, int, (void*, const unsigned char*, unsigned))      \
  X(SSL_CTX_set_ciphersuites, int, (void*, const char*))                               \
  X(SSL_CTX_set_default_read_buffer_len, void, (void*, std::size_t))                   \
  X(SSL_CTX_set_verify, void, (void*, int, int (*)(int, void*)))                       \
  X(SSL_CTX_set_default_passwd_cb, void, (void*, int (*)(char*, int, int, void*)))     \
  X(SSL_CTX_use_certificate_chain_file, int, (void*, const char*))                     \
  X(SSL_CTX_use_PrivateKey_file, int, (void*, const char*, int))                       \
  X(SSL_CTX_check_private_key, int, (const void*))                                     \
  X(SSL_CTX_load_verify_locations, int, (void*, const char*, const char*))             \
  X(SSL_CTX_set_psk_use_session_callback, void,                                        \
    (void*, int (*)(void*, const void*, const unsigned char**, std::size_t*, void**))) \
  X(SSL_CTX_set_psk_find_session_callback, void,                                       \
    (void*, int (*)(void*, const unsigned char*, std::size_t, void**)))                \
  X(SSL_CIPHER_find, const void*, (void*, const unsigned char*))                       \
  X(SSL_SESSION_new, void*, ())                                                        \
  X(SSL_SESSION_dup, void*, (const void*))                                             \
  X(SSL_SESSION_free, void, (void*))                                                   \
  X(SSL_SESSION_set1_master_key, int, (void*, const unsigned char*, std::size_t))      \
  X(SSL_SESSION_set1_id_context, int, (void*, const unsigned char*, unsigned))         \
  X(SSL_SESSION_set_cipher, int, (void*, const void*))                                 \
  X(SSL_SESSION_set_protocol_version, int, (void*, int))                               \
  X(SSL_new, void*, (void*))                                                           \
  X(SSL_free, void, (void*))                                                           \
  X(SSL_set_bio, void, (void*, void*, void*))                                          \
  X(SSL_set_ex_data, int, (void*, int, void*))                                         \
  X(SSL_get_ex_data, void*, (const void*, int))                                        \
  X(SSL_set1_host, int, (void*, const char*))                                          \
  X(SSL_set_connect_state, void, (void*))                                              \
  X(SSL_set_accept_state, void, (void*))                                               \
  X(SSL_do_handshake, int, (void*))                                                    \
  X(SSL_session_reused, int, (const void*))                                            \
  X(SSL_get_verify_result, long, (const void*))                                        \
  X(SSL_get_error, int, (const void*, int))                                            \
  X(SSL_read_ex, int, (void*, void*, std::size_t, std::size_t*))                       \
  X(SSL_write_ex, int, (void*, const void*, std::size_t, std::size_t*))                \
  X(SSL_key_update, int, (void*, int))                                                 \
  X(SSL_shutdown, int, (void*))

struct OpenSsl {
#define LWMQ_OPENSSL_MEMBER(name, result, arguments) result(*name) arguments = nullptr;
  LWMQ_OPENSSL_FUNCTIONS(LWMQ_OPENSSL_MEMBER)
#undef LWMQ_OPENSSL_MEMBER
};

// Null: it cannot be opened.
const OpenSsl* openssl() noexcept;
// LWMQ_E_UNSUPPORTED, with a text that says which package brings it.
Status openssl_missing() noexcept;
// True: the process ends, and OpenSSL may have let go of what it works with.
bool openssl_is_over() noexcept;

}  // namespace lwmq::os
