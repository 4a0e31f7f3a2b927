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

inline Message* in(lwmq_message* handle) noexcept { return reinterpret_cast<Message*>(handle); }
inline const Message* in(const lwmq_message* handle) noexcept {
  return reinterpret_cast<const Message*>(handle);
}
inline channel::Channel* in(lwmq_channel* handle) noexcept {
  return reinterpret_cast<channel::Channel*>(handle);
}
inline const channel::Channel* in(const lwmq_channel* handle) noexcept {
  return reinterpret_cast<const channel::Channel*>(handle);
}
inline channel::ChannelQueue* in(lwmq_send_queue* handle) noexcept {
  return reinterpret_cast<channel::ChannelQueue*>(handle);
}
inline const channel::ChannelQueue* in(const lwmq_send_queue* handle) noexcept {
  return reinterpret_cast<const channel::ChannelQueue*>(handle);
}
inline channel::Loan* in(lwmq_loan* handle) noexcept { return reinterpret_cast<channel::Loan*>(handle); }
inline const channel::Loan* in(const lwmq_loan* handle) noexcept {
  return reinterpret_cast<const channel::Loan*>(handle);
}
inline patterns::Selector* in(lwmq_selector* handle) noexcept {
  return reinterpret_cast<patterns::Selector*>(handle);
}
inline const patterns::Selector* in(const lwmq_selector* handle) noexcept {
  return reinterpret_cast<const patterns::Selector*>(handle);
}
inline patterns::Listener* in(lwmq_listener* handle) noexcept {
  return reinterpret_cast<patterns::Listener*>(handle);
}
inline const patterns::Listener* in(const lwmq_listener* handle) noexcept {
  return reinterpret_cast<const patterns::Listener*>(handle);
}
inline patterns::Router* in(lwmq_router* handle) noexcept {
  return reinterpret_cast<patterns::Router*>(handle);
}
inline const patterns::Router* in(const lwmq_router* handle) noexcept {
  return reinterpret_cast<const patterns::Router*>(handle);
}
inline patterns::Requests* in(lwmq_requests* handle) noexcept {
  return reinterpret_cast<patterns::Requests*>(handle);
}
inline lwmq_loan* out(channel::Loan* loan) noexcept { return reinterpret_cast<lwmq_loan*>(loan); }
inline lwmq_message* out(Message* message) noexcept { return reinterpret_cast<lwmq_message*>(message); }
inline lwmq_channel* out(channel::Channel* channel) noexcept {
  return reinterpret_cast<lwmq_channel*>(channel);
}
inline lwmq_send_queue* out(channel::ChannelQueue* queue) noexcept {
  return reinterpret_cast<lwmq_send_queue*>(queue);
}

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
  require_alive(in(handle)->is_alive(), function, "send queue (its channel was destroyed)");
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
