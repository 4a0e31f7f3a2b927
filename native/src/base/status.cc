#include "base/status.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace lwmq {
namespace {

constexpr std::size_t kTextBytes = 1024;
thread_local char t_text[kTextBytes] = "";
thread_local std::uint64_t t_tag = 0;

Status set_text(Status status, const char (&text)[kTextBytes]) noexcept {
  std::memcpy(t_text, text, sizeof text);
  t_tag = 0;
  return status;
}

void fail_errno_with(Status status, int error_number, const char* advice, const char* format,
                     va_list arguments) noexcept {
  char text[kTextBytes];
  const int used = std::vsnprintf(text, sizeof text, format, arguments);
  if (used >= 0 && static_cast<std::size_t>(used) < sizeof text) {
    char meaning[128];
    char limit[96] = "";
    if (rlimit most{}; error_number == EMFILE && getrlimit(RLIMIT_NOFILE, &most) == 0) {
      std::snprintf(limit, sizeof limit, "; this process may have %llu open: raise ulimit -n",
                    static_cast<unsigned long long>(most.rlim_cur));
    }
    std::snprintf(text + used, sizeof text - static_cast<std::size_t>(used), ": %s (errno %d%s)%s",
                  strerror_r(error_number, meaning, sizeof meaning), error_number, limit, advice);
  }
  set_text(status, text);
}

}  // namespace

Status fail_with(Status status, const char* format, va_list arguments) noexcept {
  char text[kTextBytes];  // an argument may be the old text itself
  std::vsnprintf(text, sizeof text, format, arguments);
  return set_text(status, text);
}

Status fail(Status status, const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  fail_with(status, format, arguments);
  va_end(arguments);
  return status;
}

Status fail_errno(Status status, int error_number, const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  fail_errno_with(status, error_number, "", format, arguments);
  va_end(arguments);
  return status;
}

Status fail_call(Status status, int error_number, const char* format, ...) noexcept {
  const bool refused = error_number == EPERM || error_number == EACCES || error_number == ENOSYS;
  const char* advice =
      refused ? "; the kernel or a seccomp filter, such as a container's, refuses this call: allow it there"
              : "";
  va_list arguments;
  va_start(arguments, format);
  fail_errno_with(status, error_number, advice, format, arguments);
  va_end(arguments);
  return refused ? LWMQ_E_UNSUPPORTED : status;
}

void add_context(const char* prefix) noexcept {
  char text[kTextBytes];
  std::snprintf(text, sizeof text, "%s: %.*s", prefix, static_cast<int>(kTextBytes / 2), t_text);
  std::memcpy(t_text, text, sizeof text);
}

const char* last_error() noexcept { return t_text; }

void set_error_tag(std::uint64_t tag) noexcept { t_tag = tag; }

std::uint64_t error_tag() noexcept { return t_tag; }

void forget_error() noexcept {
  t_text[0] = '\0';
  t_tag = 0;
}

const char* status_name(std::int32_t status) noexcept {
  switch (status) {
    case LWMQ_OK:
      return "LWMQ_OK";
    case LWMQ_E_TIMED_OUT:
      return "LWMQ_E_TIMED_OUT";
    case LWMQ_E_EMPTY:
      return "LWMQ_E_EMPTY";
    case LWMQ_E_FULL:
      return "LWMQ_E_FULL";
    case LWMQ_E_END:
      return "LWMQ_E_END";
    case LWMQ_E_INTERRUPTED:
      return "LWMQ_E_INTERRUPTED";
    case LWMQ_E_INVALID:
      return "LWMQ_E_INVALID";
    case LWMQ_E_ADDRESS:
      return "LWMQ_E_ADDRESS";
    case LWMQ_E_CLOSED:
      return "LWMQ_E_CLOSED";
    case LWMQ_E_PEER_LOST:
      return "LWMQ_E_PEER_LOST";
    case LWMQ_E_STALLED:
      return "LWMQ_E_STALLED";
    case LWMQ_E_TOO_BIG:
      return "LWMQ_E_TOO_BIG";
    case LWMQ_E_SCHEMA:
      return "LWMQ_E_SCHEMA";
    case LWMQ_E_ABORTED:
      return "LWMQ_E_ABORTED";
    case LWMQ_E_DATA_LOSS:
      return "LWMQ_E_DATA_LOSS";
    case LWMQ_E_CORRUPT:
      return "LWMQ_E_CORRUPT";
    case LWMQ_E_VERSION:
      return "LWMQ_E_VERSION";
    case LWMQ_E_NO_MEMORY:
      return "LWMQ_E_NO_MEMORY";
    case LWMQ_E_DENIED:
      return "LWMQ_E_DENIED";
    case LWMQ_E_UNSUPPORTED:
      return "LWMQ_E_UNSUPPORTED";
    case LWMQ_E_SYSTEM:
      return "LWMQ_E_SYSTEM";
    case LWMQ_E_SUPERSEDED:
      return "LWMQ_E_SUPERSEDED";
    case LWMQ_E_HANDLER:
      return "LWMQ_E_HANDLER";
    default:
      return "LWMQ_E_UNKNOWN";
  }
}

}  // namespace lwmq
