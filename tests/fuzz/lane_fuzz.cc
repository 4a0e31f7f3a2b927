// A transport's side of shared memory, written by a peer that is honest for some steps and then writes what
// it likes, where it likes. We land, release, send; every extent lies within the peer's side.
#include <cstdlib>
#include <deque>
#include <memory>

#include "input.h"
#include "lane/record_lane.h"

namespace lwmq::fuzz {
namespace {

constexpr std::uint32_t kBuffers = 2;
constexpr std::uint64_t kBufferBytes = 256;
constexpr std::size_t kStepsMax = 400;

struct Free {
  void operator()(std::uint8_t* memory) const noexcept { std::free(memory); }
};
using Side = std::unique_ptr<std::uint8_t, Free>;

Side make_side(std::uint64_t bytes) {
  Side side(static_cast<std::uint8_t*>(std::aligned_alloc(64, bytes)));
  std::memset(side.get(), 0, bytes);
  return side;
}

// One end: what it sends and what it lands.
struct End {
  End(std::uint8_t* own, const std::uint8_t* peer) {
    sides.own = own;
    sides.peer = peer;
    waker.init(sides);
    require(sender.init(sides, &waker, kBuffers, kBufferBytes) &&
                receiver.init(sides, &waker, kBuffers, kBufferBytes),
            "there is memory");
  }
  void send(Input& input) {
    lwmq_tli_buffer buffer{};
    if (sender.acquire(&buffer) != LWMQ_OK) return;
    const std::uint8_t how = input.take<std::uint8_t>();
    const std::uint32_t extents = how % 4;
    if (how >= 128) {
      static const std::uint8_t kSource[256] = {};
      lwmq_bytes frames[4] = {};
      for (lwmq_bytes& frame : frames) frame = {kSource, input.take<std::uint8_t>()};
      std::uint64_t bytes = 0;
      sender.show_run(&buffer, frames, extents, input.take<std::uint8_t>() & 63, &bytes);
    } else {
      for (std::uint32_t i = 0; i < extents; ++i)
        sender.show(&buffer, input.take<std::uint8_t>() % (buffer.room + 1), input.take<std::uint8_t>() & 63);
    }
    if (extents == 0 && input.take<std::uint8_t>() % 2 == 0) {
      sender.abandon(&buffer);
    } else {
      sender.ship(&buffer);
    }
  }

  lane::Sides sides;
  lane::Waker waker;
  lane::LaneSender sender;
  lane::LaneReceiver receiver;
};

}  // namespace
}  // namespace lwmq::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lwmq;
  using namespace lwmq::fuzz;
  const auto layout = lane::SideLayout::of(kBuffers, kBufferBytes);
  const Side ours = make_side(layout.bytes);
  const Side theirs = make_side(layout.bytes);
  End us(ours.get(), theirs.get());
  End peer(theirs.get(), ours.get());
  std::deque<lwmq_tli_landing> landed;
  Input input(data, size);
  bool broken = false;
  [[maybe_unused]] std::size_t seen = 0;
  const auto put = [&](std::uint64_t offset, std::uint64_t value) {
    if (offset + 8 <= layout.bytes) std::memcpy(theirs.get() + offset, &value, sizeof value);
  };
  for (std::size_t step = 0; step < kStepsMax && !input.empty() && !broken; ++step) {
    switch (input.take<std::uint8_t>() % 9) {
      case 0:
        peer.send(input);
        break;
      case 1:
        us.send(input);
        break;
      case 2: {
        lwmq_tli_extent extents[5] = {};
        lwmq_tli_landing landing{};
        const std::uint32_t limit = 1 + input.take<std::uint8_t>() % 5;
        const Status status = us.receiver.land(limit, extents, &landing);
        broken = status == LWMQ_E_CORRUPT;
        require(status == LWMQ_OK || status == LWMQ_E_EMPTY || broken, "land answers what it promises");
        if (status != LWMQ_OK) break;
        require(landing.count >= 1 && landing.count <= limit && landing.buffer < kBuffers,
                "as many as were asked for, of one buffer");
        for (std::uint32_t i = 0; i < landing.count; ++i) {
          const lwmq_tli_extent& extent = extents[i];
          require(extent.data >= theirs.get() && extent.bytes <= layout.bytes &&
                      extent.data + extent.bytes <= theirs.get() + layout.bytes &&
                      extent.kind <= LWMQ_TLI_KIND_MAX,
                  "an extent lies within the peer's side");
          touch(extent.data, extent.bytes);
          landed.push_back(landing);
        }
        break;
      }
      case 3:
        if (landed.empty()) break;
        us.receiver.release(landed.front(), 1);
        landed.pop_front();
        break;
      case 4:
        if (us.receiver.has_extent()) ++seen;
        us.sender.free_buffers();
        break;
      case 5:  // the order ring, and what lies beside
        put(lane::SideLayout::kOrderOffset + input.take<std::uint8_t>() % (layout.order_slots * 2) * 8,
            input.take<std::uint64_t>());
        break;
      case 6:  // words and bytes of the buffers
        put(layout.data_offset + input.take<std::uint16_t>() % (kBuffers * layout.stride) / 8 * 8,
            input.take<std::uint64_t>());
        break;
      case 7:  // what it says of our buffers
        put(lane::SideLayout::kReleasedOffset + input.take<std::uint8_t>() % kBuffers * 4,
            input.take<std::uint32_t>());
        break;
      default:
        put(input.take<std::uint16_t>() / 8 * 8, input.take<std::uint64_t>());
    }
  }
  return 0;
}
