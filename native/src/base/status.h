// Outcomes. A Status says what happened; the text of the thread's last failure says where and with which
// numbers. Full, empty, timed out, interrupted and end are answers: they set no text.
//
//   if (bytes > room) return fail(LWMQ_E_TOO_BIG, "message of %" PRIu64 " bytes does not fit ...", bytes);
#pragma once

#include <cinttypes>
#include <cstdarg>
#include <cstdint>

#include "lwmq/lwmq.h"

namespace lwmq {

using Status = lwmq_status;

// Sets the text of this thread and returns `status`: one expression for an early return.
[[gnu::format(printf, 2, 3)]] Status fail(Status status, const char* format, ...) noexcept;

// As fail, with its arguments in a list.
[[gnu::format(printf, 2, 0)]] Status fail_with(Status status, const char* format, va_list arguments) noexcept;

// As fail, with ": " and the meaning of `error_number` behind the text.
[[gnu::format(printf, 3, 4)]] Status fail_errno(Status status, int error_number, const char* format,
                                                ...) noexcept;

// The same of a system call that we cannot do without. One that the kernel refuses to this process, or does
// not have, is LWMQ_E_UNSUPPORTED, and the text says what to allow.
[[gnu::format(printf, 3, 4)]] Status fail_call(Status status, int error_number, const char* format,
                                               ...) noexcept;

// Puts `prefix` in front of the text that a lower floor has set, which knows less about where.
void add_context(const char* prefix) noexcept;

const char* last_error() noexcept;
// A number that belongs to that text, for those who act on it: 0 but where it was set behind the failure.
void set_error_tag(std::uint64_t tag) noexcept;
std::uint64_t error_tag() noexcept;
// Before an answer: what an older failure has left is not its text.
void forget_error() noexcept;
const char* status_name(std::int32_t status) noexcept;

inline bool is_failure(Status status) noexcept { return status >= LWMQ_E_INVALID; }

// A failure that the other end tells of. What a peer says is a failure or a breach of the protocol: it must
// not make us believe in a success, in an end, or in a wait that goes on.
[[nodiscard]] inline Status told_failure(std::int32_t status) noexcept {
  return status >= LWMQ_E_INVALID && status <= LWMQ_E_SUPERSEDED ? static_cast<Status>(status)
                                                                 : LWMQ_E_CORRUPT;
}

}  // namespace lwmq
