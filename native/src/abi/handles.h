// The handles of messages and channels are our objects under another name; and what every call asks of them
// first.
#pragma once

#include "base/status.h"
#include "channel/channel.h"
#include "lwmq/lwmq.h"
#include "message/message.h"

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

// A handle that is none any more is the caller's mistake, and what follows would be a mystery: end here,
// where it is still known. The mark of a freed handle is there until its memory is used again, so that most
// are caught, not all.
void check_alive(const lwmq_message* handle, const char* function) noexcept;
void check_alive(const lwmq_channel* handle, const char* function) noexcept;
void check_alive(const lwmq_send_queue* handle, const char* function) noexcept;
void check_alive(const lwmq_loan* handle, const char* function) noexcept;

}  // namespace lwmq::abi

#define LWMQ_REQUIRE(condition)  \
  if (!(condition)) [[unlikely]] \
  return lwmq::abi::null_argument(__func__)

// Aborts with a text where the handle is no such thing. Not for NULL, which is refused with a status.
#define LWMQ_ALIVE(handle) lwmq::abi::check_alive(handle, __func__)
