#include "codec/encoder.h"

#include <cstring>

#include "base/checked.h"

namespace lwmq::codec {

namespace {

// Whether its one frame says all.
bool is_one_frame(const Message& message) noexcept {
  return message.frame_count() == 1 && !message.has_timestamps() && !message.is_numbered();
}

}  // namespace

Encoding measure(const Message& message) noexcept {
  const Frame* frames = message.frames();
  if (is_one_frame(message)) return {frames[0].bytes, wire::ExtentKind::kOneFrame};
  const bool timestamps = message.has_timestamps();
  const std::uint64_t frame_header = wire::kFrameHeaderBytes + (timestamps ? wire::kTicksBytes : 0);
  std::uint64_t bytes = sizeof(wire::MessageHeader);
  for (std::uint32_t i = 0; i < message.frame_count(); ++i) {
    if (frames[i].bytes > kBufferBytesMax) return {UINT64_MAX, wire::ExtentKind::kFrames};
    bytes += frame_header + align_up(frames[i].bytes, wire::kFrameAlignment);
  }
  return {bytes, wire::ExtentKind::kFrames};
}

void encode(const Message& message, std::uint8_t* out) noexcept {
  const Frame* frames = message.frames();
  if (is_one_frame(message)) {
    if (frames[0].bytes > 0) std::memcpy(out, frames[0].data, frames[0].bytes);
    return;
  }
  const bool timestamps = message.has_timestamps();
  const wire::MessageHeader header{
      measure(message).bytes, message.frame_count(),
      (timestamps ? wire::kFlagTimestamps : 0) | (message.is_numbered() ? wire::kFlagNumbered : 0)};
  std::memcpy(out, &header, sizeof header);
  out += sizeof header;
  for (std::uint32_t i = 0; i < message.frame_count(); ++i) {
    const std::uint64_t bytes = frames[i].bytes;
    std::memcpy(out, &bytes, sizeof bytes);
    out += wire::kFrameHeaderBytes;
    if (timestamps) {
      const std::uint64_t ticks = message.timestamp(i);
      std::memcpy(out, &ticks, sizeof ticks);
      out += wire::kTicksBytes;
    }
    if (bytes > 0) std::memcpy(out, frames[i].data, bytes);
    const std::uint64_t padded = align_up(bytes, wire::kFrameAlignment);
    std::memset(out + bytes, 0, padded - bytes);  // nothing of ours leaks through a pad
    out += padded;
  }
}

}  // namespace lwmq::codec
