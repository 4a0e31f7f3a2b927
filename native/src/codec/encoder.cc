#include "codec/encoder.h"

#include <cstring>

#include "base/checked.h"

namespace lwmq::codec {

Encoding measure(const Message& message) noexcept {
  const Frame* frames = message.frames();
  if (message.frame_count() == 1) return {frames[0].bytes, wire::ExtentKind::kOneFrame};
  std::uint64_t bytes = sizeof(wire::MessageHeader);
  for (std::uint32_t i = 0; i < message.frame_count(); ++i) {
    if (frames[i].bytes > kBufferBytesMax) return {UINT64_MAX, wire::ExtentKind::kFrames};
    bytes += wire::kFrameHeaderBytes + align_up(frames[i].bytes, wire::kFrameAlignment);
  }
  return {bytes, wire::ExtentKind::kFrames};
}

void encode(const Message& message, std::uint8_t* out) noexcept {
  const Frame* frames = message.frames();
  if (message.frame_count() == 1) {
    if (frames[0].bytes > 0) std::memcpy(out, frames[0].data, frames[0].bytes);
    return;
  }
  const wire::MessageHeader header{measure(message).bytes, message.frame_count(), 0};
  std::memcpy(out, &header, sizeof header);
  out += sizeof header;
  for (std::uint32_t i = 0; i < message.frame_count(); ++i) {
    const std::uint64_t bytes = frames[i].bytes;
    std::memcpy(out, &bytes, sizeof bytes);
    out += wire::kFrameHeaderBytes;
    if (bytes > 0) std::memcpy(out, frames[i].data, bytes);
    const std::uint64_t padded = align_up(bytes, wire::kFrameAlignment);
    std::memset(out + bytes, 0, padded - bytes);  // nothing of ours leaks through a pad
    out += padded;
  }
}

}  // namespace lwmq::codec
