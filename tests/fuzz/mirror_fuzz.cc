// The two sides of a mirrored lane, whose peer sends the pieces of an honest end and heads of its own making.
// What we land lies within a buffer of the peer, and everything that a head may write lies within its mirror.
#include <deque>
#include <memory>

#include "input.h"
#include "lane/mirror.h"
#include "raw_options.h"

namespace lwmq::fuzz {
namespace {

constexpr std::uint32_t kBuffers = 3;
constexpr std::uint64_t kBufferBytes = 256;
const std::uint64_t kStride = lane::SideLayout::of(kBuffers, kBufferBytes).stride;
constexpr std::size_t kStepsMax = 400;

struct End {
  End() {
    require(mirror.init(raw_options(kBuffers, kBufferBytes), kBuffers, kBufferBytes), "there is memory");
  }
  void send(Input& input) {
    lane::LaneSender& sender = mirror.sender();
    lwmq_tli_buffer buffer{};
    if (sender.acquire(&buffer) != LWMQ_OK) return;
    const std::uint32_t extents = 1 + input.take<std::uint8_t>() % 3;
    for (std::uint32_t i = 0; i < extents; ++i) {
      const std::uint64_t bytes = input.take<std::uint8_t>() % (buffer.room + 1);
      std::memset(buffer.next, 'x', bytes);
      sender.show(&buffer, bytes, input.take<std::uint8_t>() & 63);
      mirror.shown(lane::LaneSender::place_of(buffer));
    }
    const auto place = lane::LaneSender::place_of(buffer);
    sender.ship(&buffer);
    mirror.shipped(place);
  }
  // All that this end has to say, in order. False: the other end takes it for a lie.
  bool speak_to(End& other) {
    lane::Mirror::Piece piece{};
    while (mirror.next_piece(&piece)) {
      if (!other.hear(piece.head, piece.bytes)) return false;
    }
    return !mirror.account(&piece) || other.hear(piece.head, piece.bytes);
  }
  bool hear(const lane::MirrorHead& head, const std::uint8_t* bytes) {
    std::uint8_t* where = nullptr;
    Status status = mirror.place(head, &where);
    if (status == LWMQ_OK) {
      require(where != nullptr || head.bytes == 0, "bytes have a place");
      require(head.bytes < kStride, "a piece fits a buffer");
      if (head.bytes > 0) std::memcpy(where, bytes, head.bytes);
      status = mirror.take(head);
    }
    require(status == LWMQ_OK || (status == LWMQ_E_CORRUPT && last_error()[0] != '\0'),
            "a lie is called one, with a text");
    return status == LWMQ_OK;
  }

  lane::Mirror mirror;
};

}  // namespace
}  // namespace lwmq::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lwmq;
  using namespace lwmq::fuzz;
  End us, peer;
  std::deque<lwmq_tli_landing> landed;
  Input input(data, size);
  bool is_broken = false, has_lied = false;
  for (std::size_t step = 0; step < kStepsMax && !input.empty() && !is_broken; ++step) {
    switch (input.take<std::uint8_t>() % 8) {
      case 0:
        peer.send(input);
        break;
      case 1:
        us.send(input);
        break;
      case 2:
        is_broken = !peer.speak_to(us);
        require(!is_broken || has_lied, "an honest peer is believed");
        break;
      case 3:
        require(us.speak_to(peer) || has_lied, "and so are we");
        break;
      case 4: {
        lwmq_tli_extent extents[5] = {};
        lwmq_tli_landing landing{};
        const std::uint32_t limit = 1 + input.take<std::uint8_t>() % 5;
        const Status status = us.mirror.receiver().land(limit, extents, &landing);
        is_broken = status == LWMQ_E_CORRUPT;
        require(status == LWMQ_OK || status == LWMQ_E_EMPTY || (is_broken && has_lied),
                "land answers what it promises");
        if (status != LWMQ_OK) break;
        require(landing.count >= 1 && landing.count <= limit && landing.buffer < kBuffers,
                "as many as were asked for, of one buffer");
        for (std::uint32_t i = 0; i < landing.count; ++i) {
          require(extents[i].bytes < kStride && extents[i].kind <= LWMQ_TLI_KIND_MAX,
                  "an extent fits a buffer");
          touch(extents[i].data, extents[i].bytes);
          landed.push_back(landing);
        }
        break;
      }
      case 5:
        if (landed.empty()) break;
        us.mirror.receiver().release(landed.front(), 1);
        landed.pop_front();
        break;
      default: {  // a head of the peer's own making: near to what is right, else it is refused too soon
        lane::MirrorHead head{};
        head.kind = input.take<std::uint8_t>() % 6;
        head.buffer = input.take<std::uint8_t>() % (kBuffers + 1);
        head.lap = input.take<std::uint8_t>();
        head.at = input.take<std::uint16_t>();
        head.word = input.take<std::uint64_t>();
        head.bytes = input.take<std::uint16_t>();
        if (input.take<std::uint8_t>() % 16 == 0) head.at = input.take<std::uint64_t>();
        if (input.take<std::uint8_t>() % 16 == 0) head.bytes = input.take<std::uint64_t>();
        std::string bytes = input.take_bytes(std::min<std::uint64_t>(head.bytes, kStride));
        bytes.resize(kStride);
        has_lied = true;
        is_broken = !us.hear(head, reinterpret_cast<const std::uint8_t*>(bytes.data()));
      }
    }
  }
  return 0;
}
