#include "abi/misuse.h"

#include <cstdio>
#include <cstdlib>

namespace lwmq::abi {

[[gnu::cold, gnu::noinline]] void misused(const char* function, const char* what) noexcept {
  std::fprintf(stderr, "lwmq: %s: this is no %s, or one that is gone\n", function, what);
  std::abort();
}

}  // namespace lwmq::abi
