#include "os/crypto.h"

#include <dlfcn.h>

#include <memory>

namespace lwmq::os {
namespace {

constexpr int kEd25519 = 1087;  // EVP_PKEY_ED25519: a number of OpenSSL's interface, the same in 1.1.1 and 3

// What we use of libcrypto, as its headers declare it. Its structures are opaque to us.
struct Crypto {
  void* library = nullptr;
  void* (*key_from_public)(int, void*, const unsigned char*, std::size_t) = nullptr;
  void* (*key_from_secret)(int, void*, const unsigned char*, std::size_t) = nullptr;
  int (*get_public)(const void*, unsigned char*, std::size_t*) = nullptr;
  void (*key_free)(void*) = nullptr;
  void* (*context_new)() = nullptr;
  void (*context_free)(void*) = nullptr;
  int (*sign_init)(void*, void**, const void*, void*, void*) = nullptr;
  int (*sign)(void*, unsigned char*, std::size_t*, const unsigned char*, std::size_t) = nullptr;
  int (*verify_init)(void*, void**, const void*, void*, void*) = nullptr;
  int (*verify)(void*, const unsigned char*, std::size_t, const unsigned char*, std::size_t) = nullptr;
  int (*digest)(const void*, std::size_t, unsigned char*, unsigned*, const void*, void*) = nullptr;
  const void* (*sha512)() = nullptr;
  unsigned char* (*hmac)(const void*, const void*, int, const unsigned char*, std::size_t, unsigned char*,
                         unsigned*) = nullptr;
  bool complete = false;

  Crypto() noexcept {
    for (const char* name : {"libcrypto.so.3", "libcrypto.so.1.1"}) {
      library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (library != nullptr) break;
    }
    if (library == nullptr) return;
    complete = find("EVP_PKEY_new_raw_public_key", &key_from_public) &&
               find("EVP_PKEY_new_raw_private_key", &key_from_secret) &&
               find("EVP_PKEY_get_raw_public_key", &get_public) && find("EVP_PKEY_free", &key_free) &&
               find("EVP_MD_CTX_new", &context_new) && find("EVP_MD_CTX_free", &context_free) &&
               find("EVP_DigestSignInit", &sign_init) && find("EVP_DigestSign", &sign) &&
               find("EVP_DigestVerifyInit", &verify_init) && find("EVP_DigestVerify", &verify) &&
               find("EVP_Digest", &digest) && find("EVP_sha512", &sha512) && find("HMAC", &hmac);
  }

  template <typename Function>
  bool find(const char* name, Function* out) noexcept {
    *out = reinterpret_cast<Function>(dlsym(library, name));
    return *out != nullptr;
  }
};

const Crypto* crypto() noexcept {
  static const auto* instance = new Crypto;  // never destroyed, never closed
  return instance->complete ? instance : nullptr;
}

Status missing() noexcept {
  return fail(LWMQ_E_UNSUPPORTED,
              "libcrypto of OpenSSL 3 or 1.1.1, which checks signatures, cannot be opened: install libssl3");
}

Status refused(const char* what) noexcept { return fail(LWMQ_E_SYSTEM, "libcrypto refuses %s", what); }

using Key = std::unique_ptr<void, void (*)(void*)>;

}  // namespace

Status digest_of(const void* data, std::size_t bytes, Digest* out_digest) noexcept {
  const Crypto* c = crypto();
  if (c == nullptr) return missing();
  unsigned length = 0;
  const int done = c->digest(data, bytes, out_digest->data(), &length, c->sha512(), nullptr);
  return done == 1 && length == out_digest->size() ? LWMQ_OK : refused("a digest");
}

Status mac_of(const void* key, std::size_t key_bytes, const void* data, std::size_t bytes,
              Digest* out_mac) noexcept {
  const Crypto* c = crypto();
  if (c == nullptr) return missing();
  unsigned length = 0;
  const bool done =
      c->hmac(c->sha512(), key, static_cast<int>(key_bytes), static_cast<const unsigned char*>(data), bytes,
              out_mac->data(), &length) != nullptr;
  return done && length == out_mac->size() ? LWMQ_OK : refused("an HMAC");
}

Status public_key_of(const SecretKey& secret, PublicKey* out_key) noexcept {
  const Crypto* c = crypto();
  if (c == nullptr) return missing();
  const Key key(c->key_from_secret(kEd25519, nullptr, secret.data(), secret.size()), c->key_free);
  std::size_t length = out_key->size();
  const bool done = key && c->get_public(key.get(), out_key->data(), &length) == 1;
  return done && length == out_key->size() ? LWMQ_OK : refused("a secret key");
}

Status sign(const SecretKey& secret, const void* data, std::size_t bytes, Signature* out_signature) noexcept {
  const Crypto* c = crypto();
  if (c == nullptr) return missing();
  const Key key(c->key_from_secret(kEd25519, nullptr, secret.data(), secret.size()), c->key_free);
  const Key context(c->context_new(), c->context_free);
  std::size_t length = out_signature->size();
  const bool done = key && context &&
                    c->sign_init(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
                    c->sign(context.get(), out_signature->data(), &length,
                            static_cast<const unsigned char*>(data), bytes) == 1;
  return done && length == out_signature->size() ? LWMQ_OK : refused("to sign");
}

Status verify(const PublicKey& key_bytes, const void* data, std::size_t bytes,
              const Signature& signature) noexcept {
  const Crypto* c = crypto();
  if (c == nullptr) return missing();
  const Key key(c->key_from_public(kEd25519, nullptr, key_bytes.data(), key_bytes.size()), c->key_free);
  const Key context(c->context_new(), c->context_free);
  if (!key || !context || c->verify_init(context.get(), nullptr, nullptr, nullptr, key.get()) != 1)
    return refused("a public key");
  const int good = c->verify(context.get(), signature.data(), signature.size(),
                             static_cast<const unsigned char*>(data), bytes);
  return good == 1 ? LWMQ_OK : fail(LWMQ_E_DENIED, "the signature is not of this key and these bytes");
}

}  // namespace lwmq::os
