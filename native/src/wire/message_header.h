// How a message lies in an extent. Little-endian.
//
// One frame without a timestamp is nothing but its bytes, in an extent of kind kOneFrame: the extent's length
// is the frame's. Any other message (one of no frames included) has headers, in an extent of kind kFrames:
//
//    0                               8               12              16
//   +-------------------------------+---------------+---------------+
//   | message_bytes                 | frame_count   | flags         |
//   +-------------------------------+---------------+---------------+
//   | frame_bytes, [ticks,] then the frame, pad to 8 ... repeated   |
//   +---------------------------------------------------------------+
//
// message_bytes counts from here to the end of the last pad and is the extent's length: a message that
// arrives with another one is refused. Pads are zero when written and not looked at when read. With
// kFlagTimestamps each frame has 8 bytes of ticks: 100 ns since 1601-01-01 UTC, 0 for a frame without a
// timestamp. With kFlagNumbered the last frame is no frame of the message but its Number, and counts in
// frame_count. A reader refuses flags that it does not know.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lwmq::wire {

// What an extent holds. Raw channels have kRaw and kGoodbye, others the rest. kPassed never leaves its
// process: the eight bytes are the address of the message itself, which is whose who lands it.
enum class ExtentKind : std::uint32_t { kRaw = 0, kOneFrame = 1, kFrames = 2, kGoodbye = 3, kPassed = 4 };

// The last extent of a channel that closes in order, raw or not, has kind kGoodbye and is no message: it says
// how many messages the closing side has received in this conversation. So the other side knows exactly which
// of its own were not, where the transport only knows which buffers were given back.
//
//    0                               8
//   +-------------------------------+
//   | messages_received             |
//   +-------------------------------+
struct Goodbye {
  std::uint64_t messages_received;
};
static_assert(sizeof(Goodbye) == 8);

struct MessageHeader {
  std::uint64_t message_bytes;
  std::uint32_t frame_count;
  std::uint32_t flags;
};
static_assert(sizeof(MessageHeader) == 16);
static_assert(offsetof(MessageHeader, frame_count) == 8);
static_assert(offsetof(MessageHeader, flags) == 12);

inline constexpr std::uint32_t kFlagTimestamps = 1;
inline constexpr std::uint32_t kFlagNumbered = 2;

// Of a message that travels over redundant transports: who receives it twice knows it.
//
//    0                               8                              16
//   +-------------------------------+-------------------------------+
//   | queue, random                 | place in it, from 1           |
//   +-------------------------------+-------------------------------+
struct Number {
  std::uint64_t queue;
  std::uint64_t place;
};
static_assert(sizeof(Number) == 16);

inline constexpr std::uint64_t kFrameHeaderBytes = 8;  // frame_bytes
inline constexpr std::uint64_t kTicksBytes = 8;        // behind it, with kFlagTimestamps
inline constexpr std::uint64_t kFrameAlignment = 8;

}  // namespace lwmq::wire
