// The handles of messages, channels, listeners, selectors, routers and requests are our objects under another
// name; and what every call asks of them first.
#pragma once

#include "abi/misuse.h"
#include "base/status.h"
#include "channel/channel.h"
#include "lwmq/lwmq.h"
#include "message/message.h"
#include "os/identity.h"
#include "patterns/listener.h"
#include "patterns/requests.h"
#include "patterns/router.h"
#include "patterns/selector.h"

namespace lwmq::abi {

// `in` and `out` between a handle and what it is.
#define LWMQ_HANDLE(handle, object)                                                                  \
  inline object* in(handle* of) noexcept { return reinterpret_cast<object*>(of); }                   \
  inline const object* in(const handle* of) noexcept { return reinterpret_cast<const object*>(of); } \
  inline handle* out(object* of) noexcept { return reinterpret_cast<handle*>(of); }

LWMQ_HANDLE(lwmq_message, Message)
LWMQ_HANDLE(lwmq_channel, channel::Channel)
LWMQ_HANDLE(lwmq_send_queue, channel::ChannelQueue)
LWMQ_HANDLE(lwmq_loan, conversation::Loan)
LWMQ_HANDLE(lwmq_selector, patterns::Selector)
LWMQ_HANDLE(lwmq_listener, patterns::Listener)
LWMQ_HANDLE(lwmq_router, patterns::Router)
LWMQ_HANDLE(lwmq_requests, patterns::Requests)
#undef LWMQ_HANDLE

inline lwmq_status null_argument(const char* function) noexcept {
  return fail(LWMQ_E_INVALID, "%s: an argument is NULL that must not be", function);
}

// What a call answers that sets no text for it.
inline lwmq_status answered(lwmq_status status) noexcept {
  if (status != LWMQ_OK && !is_failure(status)) forget_error();
  return status;
}

inline lwmq_status forked(const char* function) noexcept {
  return fail(LWMQ_E_CLOSED, "%s: forked: this belongs to the parent process", function);
}

inline void check_alive(const lwmq_message* handle, const char* function) noexcept {
  require_alive(in(handle)->is_alive(), function, "message (destroyed, or taken by a post)");
}
inline void check_alive(const lwmq_channel* handle, const char* function) noexcept {
  require_alive(in(handle)->is_alive(), function, "channel (destroyed)");
}
inline void check_alive(const lwmq_send_queue* handle, const char* function) noexcept {
  require_alive(in(handle)->mark.is_alive(), function, "send queue (its channel was destroyed)");
}
inline void check_alive(const lwmq_loan* handle, const char* function) noexcept {
  require_alive(in(handle)->is_alive(), function, "loan (destroyed)");
}
inline void check_alive(const lwmq_selector* handle, const char* function) noexcept {
  require_alive(in(handle)->is_alive(), function, "selector (destroyed)");
}
inline void check_alive(const lwmq_listener* handle, const char* function) noexcept {
  require_alive(in(handle)->is_alive(), function, "listener (destroyed)");
}
inline void check_alive(const lwmq_router* handle, const char* function) noexcept {
  require_alive(in(handle)->is_alive(), function, "router (destroyed)");
}
inline void check_alive(lwmq_requests* handle, const char* function) noexcept {
  require_alive(in(handle)->is_alive(), function, "requests (destroyed)");
}

}  // namespace lwmq::abi

#define LWMQ_REQUIRE(condition)  \
  if (!(condition)) [[unlikely]] \
  return lwmq::abi::null_argument(__func__)

// Of what a forked child has from its parent, perhaps locked by a thread that it has not.
#define LWMQ_NOT_FORKED()              \
  if (lwmq::os::forked()) [[unlikely]] \
  return lwmq::abi::forked(__func__)

// Ends the program where the handle is no such thing. Not for NULL, which is refused with a status.
#define LWMQ_ALIVE(handle) lwmq::abi::check_alive(handle, __func__)

// Both: NULL is refused, as is what of the other arguments does not hold; then the handle is looked at.
#define LWMQ_REQUIRE_ALIVE(handle, ...)                          \
  LWMQ_REQUIRE((handle) != nullptr __VA_OPT__(&&(__VA_ARGS__))); \
  LWMQ_ALIVE(handle)
