#include "os/openssl.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>

namespace lwmq::os {
namespace {

constexpr std::uint64_t kNoAtExit = 0x0008'0000;  // OPENSSL_INIT_NO_ATEXIT: threads of ours outlive main

std::atomic<bool> is_over{false};

struct Library : OpenSsl {
  bool complete = false;

  Library() noexcept {
    void* ssl = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
    if (ssl == nullptr) return;
    complete = true;
    // A symbol that libssl lacks is found in libcrypto, on which it depends.
#define LWMQ_OPENSSL_FIND(name, result, arguments)                       \
  this->name = reinterpret_cast<result(*) arguments>(dlsym(ssl, #name)); \
  complete = complete && this->name != nullptr;
    LWMQ_OPENSSL_FUNCTIONS(LWMQ_OPENSSL_FIND)
#undef LWMQ_OPENSSL_FIND
    complete = complete && OPENSSL_init_ssl(kNoAtExit, nullptr) == 1;
    // Somebody else may have begun with OpenSSL before us, and then it tidies up behind this.
    if (complete) std::atexit([] { is_over.store(true); });
  }
};

}  // namespace

const OpenSsl* openssl() noexcept {
  static const auto* instance = new Library;  // never destroyed, never closed
  return instance->complete ? instance : nullptr;
}

Status openssl_missing() noexcept {
  return fail(LWMQ_E_UNSUPPORTED,
              "libssl.so.3 of OpenSSL, which encrypts, cannot be opened: install libssl3");
}

bool openssl_is_over() noexcept { return is_over.load(std::memory_order_relaxed); }

}  // namespace lwmq::os
