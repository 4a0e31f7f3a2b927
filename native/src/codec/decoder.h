// Bytes of an extent -> message. The bytes may be a hostile peer's, and may change while we look: every
// number is read once into a private copy, checked, and only the copy is used.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "message/message.h"

namespace lwmq::codec {

// A message with copies of the frames; the extent may go back at once.
// LWMQ_E_CORRUPT with a text; LWMQ_E_NO_MEMORY.
Status decode_copy(const std::uint8_t* data, std::uint64_t bytes, std::uint32_t kind,
                   Message** out_message) noexcept;

// A message whose frames lie where they arrived. On LWMQ_OK each frame holds a reference of `owner`,
// beside the caller's.
Status decode_view(const std::uint8_t* data, std::uint64_t bytes, std::uint32_t kind, message::Owner* owner,
                   Message** out_message) noexcept;

}  // namespace lwmq::codec
