#include "base/misuse.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace lwmq {

[[gnu::cold, gnu::noinline]] void misused(const char* format, ...) noexcept {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "lwmq: %s\n", text);
  std::abort();
}

}  // namespace lwmq
