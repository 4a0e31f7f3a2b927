// What the two ends of a mirrored lane say to each other over a connection. Little-endian.
//
// Each end has the sides of `record_lane.h` in private memory: its own, and a mirror of the peer's. Bytes of
// a side go out as *ranges*, and land at the same offsets of the mirror. A range begins with a word of the
// lane. That word travels in the head and is stored last, so the receiver believes nothing of a range before
// all of it is there.
//
//    0       4       6       8               16              24              32
//   +-------+-------+-------+---------------+---------------+---------------+
//   | kind  |buffer | lap   | at            | word          | bytes         |  then `bytes` bytes
//   +-------+-------+-------+---------------+---------------+---------------+
//
//   kind     buffer, lap     at                  word               bytes that follow
//   range    of the buffer   offset of `word`    the first word     the rest, up to the next word
//   opening  of the buffer   56                  the first word     the same; the next buffer begins with it
//   account  0               extents released    extents received   6 for each buffer given back: its number
//                                                                   in 2, its lap in 4
//   closing  0               messages given up   0                  0
//   push     0               offset in a grant   number of the grant   that many, for memory of the
//                                                                   receiver
//   side     0               where the mirror    the key to it         0
//                            of the peer's
//                            buffers lies
//
// Where one end can write memory of the other, an end says first where its mirror lies (side), and the bytes
// of a range may be there already when its head comes: kWritten is added to the kind then, and no bytes
// follow. `side` and kWritten break the protocol over other connections.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lwmq::lane {

enum class MirrorKind : std::uint32_t {
  kRange = 1,
  kOpening = 2,
  kAccount = 3,
  kClosing = 4,
  kPush = 5,
  kSide = 6
};

inline constexpr std::uint32_t kWritten = 0x100;

struct MirrorHead {
  std::uint32_t kind;
  std::uint16_t buffer;
  std::uint16_t lap;
  std::uint64_t at;
  std::uint64_t word;
  std::uint64_t bytes;
};
static_assert(sizeof(MirrorHead) == 32);
static_assert(offsetof(MirrorHead, at) == 8);
static_assert(offsetof(MirrorHead, bytes) == 24);

// Of an account, for each buffer that was given back.
inline constexpr std::uint64_t kGivenBackBytes = 6;

}  // namespace lwmq::lane
