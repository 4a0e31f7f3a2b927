// Message -> bytes of an extent. Encoder and decoder are read together; the picture is in
// wire/message_header.h.
#pragma once

#include <cstdint>

#include "message/message.h"
#include "wire/message_header.h"

namespace lwmq::codec {

struct Encoding {
  std::uint64_t bytes;  // of the extent; UINT64_MAX where the frames add up to more than 64 bits hold
  wire::ExtentKind kind;
};

// How `message` will lie in an extent.
[[nodiscard]] Encoding measure(const Message& message) noexcept;

// Writes it: exactly measure(message).bytes bytes at `out`.
void encode(const Message& message, std::uint8_t* out) noexcept;

}  // namespace lwmq::codec
