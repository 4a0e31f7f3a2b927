// A side of a lane in memory of its own, as the targets of the lane begin with it.
#pragma once

#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>

#include "input.h"
#include "lane/record_lane.h"

namespace lwmq::fuzz {

inline constexpr std::uint32_t kBuffers = 2;
inline constexpr std::uint64_t kBufferBytes = 256;
inline constexpr std::size_t kStepsMax = 400;

struct Free {
  void operator()(std::uint8_t* memory) const noexcept { std::free(memory); }
};
using Side = std::unique_ptr<std::uint8_t, Free>;

// No more than the side has, so that a sanitizer sees the first byte beyond it.
inline Side make_side(std::uint64_t bytes) {
  Side side(static_cast<std::uint8_t*>(std::aligned_alloc(64, bytes)));
  std::memset(side.get(), 0, bytes);
  return side;
}

// What `receiver` finds in `peer`, which has `bytes` bytes. False: the peer has broken the protocol.
inline bool land(lane::LaneReceiver& receiver, const Side& peer, std::uint64_t bytes,
                 std::deque<lwmq_tli_extent>* landed) {
  lwmq_tli_extent extent{};
  const Status status = receiver.land(&extent);
  if (status == LWMQ_E_CORRUPT) return false;
  require(status == LWMQ_OK || status == LWMQ_E_EMPTY, "land answers what it promises");
  if (status != LWMQ_OK) return true;
  require(extent.data >= peer.get() && extent.bytes <= bytes &&
              extent.data + extent.bytes <= peer.get() + bytes && extent.kind <= LWMQ_TLI_KIND_MAX,
          "an extent lies within the peer's side");
  touch(extent.data, extent.bytes);
  landed->push_back(extent);
  return true;
}

}  // namespace lwmq::fuzz
