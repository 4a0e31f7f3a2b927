// A transport's side of shared memory, written by a peer that is honest for some steps and then writes what
// it likes, where it likes. We land, release, send; every extent lies within the peer's side.
#include <deque>

#include "input.h"
#include "lane/record_lane.h"
#include "side.h"

namespace lwmq::fuzz {
namespace {

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
  std::deque<lwmq_tli_extent> landed;
  Input input(data, size);
  bool broken = false;
  [[maybe_unused]] std::size_t seen = 0;
  const auto put = [&](std::uint64_t offset, std::uint64_t value) {
    if (offset + 8 <= layout.bytes) std::memcpy(theirs.get() + offset, &value, sizeof value);
  };
  for (std::size_t step = 0; step < kStepsMax && !input.empty() && !broken; ++step) {
    switch (input.take<std::uint8_t>() % 10) {
      case 0:
        peer.send(input);
        break;
      case 1:
        us.send(input);
        break;
      case 2:
        broken = !land(us.receiver, theirs, layout.bytes, &landed);
        break;
      case 3:
        if (landed.empty()) break;
        us.receiver.release(landed.front().token, 1);
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
      case 8: {
        lwmq_tli_piece pieces[5] = {};
        std::uint64_t token[2] = {};
        const std::uint64_t below = input.take<std::uint16_t>();
        const bool alone = below % 2 != 0;
        const std::uint32_t count = alone ? us.receiver.land_one(below, token, pieces)
                                          : us.receiver.land_run(below, 5, token, pieces);
        require(count <= (alone ? 1u : 5u), "no more than was asked for");
        for (std::uint32_t i = 0; i < count; ++i) {
          const lwmq_tli_piece& piece = pieces[i];
          require(piece.bytes < below && piece.kind <= LWMQ_TLI_KIND_MAX && piece.data >= theirs.get() &&
                      piece.data + piece.bytes <= theirs.get() + layout.bytes,
                  "a piece is as asked for and lies within the peer's side");
          touch(piece.data, piece.bytes);
          landed.push_back({piece.data, piece.bytes, piece.kind, 0, {token[0], token[1]}});
        }
        break;
      }
      default:
        put(input.take<std::uint16_t>() / 8 * 8, input.take<std::uint64_t>());
    }
  }
  return 0;
}
