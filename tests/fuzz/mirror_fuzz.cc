// What a peer sends to its mirror here, in pieces of any size: ranges in order, and whatever else it likes.
// We take, land, release, send, grant and revoke; every extent lies within the mirror, and pushes in grants.
#include <sys/uio.h>

#include <deque>

#include "input.h"
#include "lane/mirror.h"
#include "side.h"

namespace lwmq::fuzz {
namespace {

constexpr std::uint64_t kGrantedBytes = 128;
constexpr std::size_t kGrantsAtOnce = 4;

struct End {
  explicit End(const lane::SideLayout& layout) : own(make_side(layout.bytes)), copy(make_side(layout.bytes)) {
    sides.own = own.get();
    sides.peer = copy.get();
    sides.freed = [](void* self, std::uint32_t index) { static_cast<End*>(self)->feed.freed(index); };
    sides.context = this;
    waker.init(sides);
    require(sender.init(sides, &waker, kBuffers, kBufferBytes) &&
                receiver.init(sides, &waker, kBuffers, kBufferBytes) &&
                feed.init(sides, sender, kBuffers, kBufferBytes, kBuffers) &&
                mirror.init(copy.get(), layout.bytes),
            "there is memory");
  }
  // False: the peer has broken the protocol.
  bool take(const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      iovec places[2];
      const std::size_t count = mirror.places(places);
      std::size_t put = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t here = std::min(places[i].iov_len, bytes.size() - at - put);
        std::memcpy(places[i].iov_base, bytes.data() + at + put, here);
        put += here;
      }
      if (const Status status = mirror.came(put); status != LWMQ_OK) {
        require(status == LWMQ_E_CORRUPT, "came answers what it promises");
        return false;
      }
      at += put;
    }
    return true;
  }
  void show(Input& input) {
    lwmq_tli_buffer buffer{};
    if (sender.acquire(&buffer) != LWMQ_OK) return;
    const std::uint32_t extents = input.take<std::uint8_t>() % 4;
    for (std::uint32_t i = 0; i < extents; ++i) {
      if (sender.show(&buffer, input.take<std::uint8_t>() % (buffer.room + 1), 0) == LWMQ_OK)
        feed.shown(buffer);
    }
    sender.ship(&buffer);
    feed.shipped(buffer);
  }
  void send(std::uint64_t most) {
    iovec pieces[4];
    std::uint64_t bytes = 0;
    for (std::size_t i = 0, count = feed.pieces(pieces, 4); i < count; ++i) {
      touch(static_cast<const std::uint8_t*>(pieces[i].iov_base), pieces[i].iov_len);
      bytes += pieces[i].iov_len;
    }
    feed.finished(feed.sent(std::min(bytes, most)));
  }

  Side own;
  Side copy;
  lane::Sides sides;
  lane::Waker waker;
  lane::LaneSender sender;
  lane::LaneReceiver receiver;
  lane::MirrorFeed feed;
  lane::Mirror mirror;
};

}  // namespace
}  // namespace lwmq::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lwmq;
  using namespace lwmq::fuzz;
  const auto layout = lane::SideLayout::of(kBuffers, kBufferBytes);
  End us(layout);
  std::deque<lwmq_tli_extent> landed;
  const Side granted = make_side(kGrantedBytes);  // no byte more
  std::deque<lwmq_tli_grant> grants;
  Input input(data, size);
  bool broken = false;
  for (std::size_t step = 0; step < kStepsMax && !input.empty() && !broken; ++step) {
    switch (input.take<std::uint8_t>() % 8) {
      case 0:  // as it likes
        broken = !us.take(input.take_bytes(input.take<std::uint8_t>()));
        break;
      case 1: {  // a range with a head
        const lane::RangeHead head{std::uint64_t{input.take<std::uint16_t>()} * 4 |
                                       (std::uint64_t{1} + input.take<std::uint8_t>() % 4) << 48,
                                   input.take<std::uint64_t>(), input.take<std::uint8_t>()};
        std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
        broken = !us.take(bytes + input.take_bytes(head.bytes));
        break;
      }
      case 2:
        broken = !land(us.receiver, us.copy, layout.bytes, &landed);
        break;
      case 3:
        if (landed.empty()) break;
        us.receiver.release(landed.front().token, 1);
        landed.pop_front();
        break;
      case 4:
        us.show(input);
        break;
      case 5:
        if (grants.size() == kGrantsAtOnce) break;
        require(us.mirror.grant(granted.get(), kGrantedBytes, &grants.emplace_back()) == LWMQ_OK,
                "it can grant");
        break;
      case 6:
        if (grants.empty()) break;
        us.mirror.revoke(grants.front());
        grants.pop_front();
        break;
      default:
        us.feed.count();
        us.send(input.take<std::uint8_t>());
        require(us.sender.free_buffers() <= kBuffers, "no more buffers than there are");
    }
  }
  return 0;
}
