#include "codec/decoder.h"

#include <algorithm>

#include "base/checked.h"
#include "base/cursor.h"
#include "wire/message_header.h"

namespace lwmq::codec {
namespace {

Status no_memory(std::uint64_t bytes) noexcept {
  return fail(LWMQ_E_NO_MEMORY, "no memory for a message of %" PRIu64 " bytes", bytes);
}

constexpr std::uint32_t kMarked = 32;  // from here on kinds are those of filters, which take them back

// Frames up to here are reserved before the first was seen: a header alone cannot make us allocate much.
constexpr std::uint32_t kFramesReserved = 64;

// Walks the frames of an extent with headers. `add(data, bytes)` puts one into the message.
template <typename Add>
Status walk(const std::uint8_t* data, std::uint64_t bytes, Message* message, Add&& add) noexcept {
  ByteReader reader(data, bytes);
  const auto header = reader.take<wire::MessageHeader>();
  if (!reader.ok() || header.message_bytes != bytes || header.frame_count > kFramesMax ||
      (header.flags & ~(wire::kFlagTimestamps | wire::kFlagNumbered)) != 0) {
    return fail(LWMQ_E_CORRUPT,
                "an extent of %" PRIu64 " bytes says of its message: %" PRIu64 " bytes, %u frames, flags %#x",
                bytes, header.message_bytes, header.frame_count, header.flags);
  }
  for (std::uint32_t i = 0; i < header.frame_count; ++i) {
    const auto frame_bytes = reader.take<std::uint64_t>();
    const auto ticks =
        (header.flags & wire::kFlagTimestamps) != 0 ? reader.take<std::uint64_t>() : std::uint64_t{0};
    if (!reader.ok() || frame_bytes > reader.left()) {
      return fail(LWMQ_E_CORRUPT, "frame %u of %u says %" PRIu64 " bytes where %" PRIu64 " are left", i,
                  header.frame_count, frame_bytes, reader.left());
    }
    const auto view = reader.take_bytes(frame_bytes);
    const std::uint64_t pad = align_up(frame_bytes, wire::kFrameAlignment) - frame_bytes;
    reader.take_bytes(pad);
    if (!reader.ok()) {
      return fail(LWMQ_E_CORRUPT, "frame %u of %u ends without its pad", i, header.frame_count);
    }
    Status status = add(message, view.data(), frame_bytes);
    if (status == LWMQ_OK && ticks != 0) status = message->set_timestamp(i, ticks);
    if (status != LWMQ_OK) return status;
  }
  if (!reader.at_end()) {
    return fail(LWMQ_E_CORRUPT, "%" PRIu64 " bytes are left behind the last of %u frames", reader.left(),
                header.frame_count);
  }
  if ((header.flags & wire::kFlagNumbered) != 0 && !message->note_numbered())
    return fail(LWMQ_E_CORRUPT, "the last of %u frames is to be a number of %zu bytes, and is not",
                header.frame_count, sizeof(wire::Number));
  return LWMQ_OK;
}

template <typename Add>
Status decode(const std::uint8_t* data, std::uint64_t bytes, std::uint32_t kind, Message** out_message,
              Add&& add) noexcept {
  Message* message = nullptr;
  Status status = LWMQ_OK;
  switch (static_cast<wire::ExtentKind>(kind)) {
    case wire::ExtentKind::kOneFrame:
      message = Message::create();
      if (message == nullptr) return no_memory(bytes);
      status = add(message, data, bytes);
      break;
    case wire::ExtentKind::kFrames: {
      message = Message::create(static_cast<std::uint32_t>(
          std::min<std::uint64_t>(kFramesReserved, bytes / (2 * wire::kFrameHeaderBytes))));
      if (message == nullptr) return no_memory(bytes);
      status = walk(data, bytes, message, add);
      break;
    }
    default:
      return fail(LWMQ_E_CORRUPT, "an extent of kind %u is none of a message%s", kind,
                  kind < kMarked ? "" : "; a filter marks extents so: has the peer one that we lack?");
  }
  if (status != LWMQ_OK) {
    Message::destroy(message);
    return status;
  }
  *out_message = message;
  return LWMQ_OK;
}

}  // namespace

Status decode_copy(const std::uint8_t* data, std::uint64_t bytes, std::uint32_t kind,
                   Message** out_message) noexcept {
  if (kind == static_cast<std::uint32_t>(wire::ExtentKind::kOneFrame)) [[likely]] {
    Message* message = Message::copy_of(data, bytes);
    if (message == nullptr) return no_memory(bytes);
    *out_message = message;
    return LWMQ_OK;
  }
  return decode(data, bytes, kind, out_message,
                [](Message* message, const void* at, std::uint64_t frame_bytes) noexcept {
                  return message->append(at, frame_bytes);
                });
}

Status decode_view(const std::uint8_t* data, std::uint64_t bytes, std::uint32_t kind, message::Owner* owner,
                   Message** out_message) noexcept {
  return decode(data, bytes, kind, out_message,
                [owner](Message* message, const void* at, std::uint64_t frame_bytes) noexcept {
                  message::keep(owner);
                  const Status status = message->append_owned(at, frame_bytes, owner);
                  if (status != LWMQ_OK)
                    owner->references.fetch_sub(1, std::memory_order_relaxed);  // not the last
                  return status;
                });
}

}  // namespace lwmq::codec
