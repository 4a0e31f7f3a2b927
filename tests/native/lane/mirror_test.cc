// links: base os stats tli lane
// A lane whose ends share no memory: what goes out of one side lands in the mirror of the other end, however
// the bytes are cut on their way.
#include "lane/mirror.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "golden.h"
#include "seed.h"

namespace lwmq::lane {
namespace {

struct Free {
  void operator()(std::uint8_t* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::uint8_t, Free>;

Memory zeroed(std::uint64_t bytes) {
  Memory memory(static_cast<std::uint8_t*>(std::aligned_alloc(4096, bytes)));
  std::memset(memory.get(), 0, bytes);
  return memory;
}

// One of the two ends, and what is on its way to the other.
struct End {
  End(std::uint32_t buffers, std::uint64_t buffer_bytes)
      : layout(SideLayout::of(buffers, buffer_bytes)), own(zeroed(layout.bytes)), copy(zeroed(layout.bytes)) {
    sides.own = own.get();
    sides.peer = copy.get();
    sides.freed = [](void* self, std::uint32_t index) { static_cast<End*>(self)->feed.freed(index); };
    sides.context = this;
    waker.init(sides);
    EXPECT_TRUE(sender.init(sides, &waker, buffers, buffer_bytes));
    EXPECT_TRUE(receiver.init(sides, &waker, buffers, buffer_bytes));
    EXPECT_TRUE(feed.init(sides, sender, buffers, buffer_bytes, buffers));
    EXPECT_TRUE(mirror.init(copy.get(), layout.bytes));
  }

  // Up to `bytes` go out.
  void send(std::uint64_t bytes) {
    iovec pieces[3];
    while (bytes > 0) {
      const std::size_t count = feed.pieces(pieces, 3);
      if (count == 0) return;
      std::uint64_t taken = 0;
      for (std::size_t i = 0; i < count && taken < bytes; ++i) {
        const std::uint64_t here = std::min<std::uint64_t>(pieces[i].iov_len, bytes - taken);
        const auto* from = static_cast<const std::uint8_t*>(pieces[i].iov_base);
        on_way.insert(on_way.end(), from, from + here);
        taken += here;
      }
      feed.finished(feed.sent(taken));
      bytes -= taken;
    }
  }
  // Up to `bytes` of what the other end has sent come in.
  Status receive(End& other, std::uint64_t bytes) {
    while (bytes > 0 && !other.on_way.empty()) {
      iovec places[2];
      const std::size_t count = mirror.places(places);
      std::uint64_t put = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t here =
            std::min<std::uint64_t>({places[i].iov_len, bytes - put, other.on_way.size()});
        std::copy_n(other.on_way.begin(), here, static_cast<std::uint8_t*>(places[i].iov_base));
        other.on_way.erase(other.on_way.begin(), other.on_way.begin() + static_cast<std::ptrdiff_t>(here));
        put += here;
      }
      if (const Status status = mirror.came(put); status != LWMQ_OK) return status;
      bytes -= put;
    }
    return LWMQ_OK;
  }
  // The next extent as text, released; "-" where there is none.
  std::string land() {
    lwmq_tli_extent extent{};
    const Status status = receiver.land(&extent);
    EXPECT_TRUE(status == LWMQ_OK || status == LWMQ_E_EMPTY) << last_error();
    if (status != LWMQ_OK) return "-";
    std::string text(reinterpret_cast<const char*>(extent.data), extent.bytes);
    receiver.release(extent.token, 1);
    return text;
  }

  SideLayout layout;
  Memory own;
  Memory copy;
  Sides sides;
  Waker waker;
  LaneSender sender;
  LaneReceiver receiver;
  MirrorFeed feed;
  Mirror mirror;
  std::deque<std::uint8_t> on_way;
};

constexpr std::uint64_t kAll = UINT64_MAX;

void show(End& end, lwmq_tli_buffer* buffer, const std::string& text) {
  std::memcpy(buffer->next, text.data(), text.size());
  ASSERT_EQ(end.sender.show(buffer, text.size(), 0), LWMQ_OK);
  end.feed.shown(*buffer);
}

void ship(End& end, lwmq_tli_buffer* buffer) {
  end.sender.ship(buffer);
  end.feed.shipped(*buffer);
}

TEST(Mirror, BringsWhatWasShownAndGivesItsBufferBack) {
  End from(2, 512);
  End to(2, 512);
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(from.sender.acquire(&buffer), LWMQ_OK);
  show(from, &buffer, "one");
  show(from, &buffer, "");
  from.send(kAll);
  ASSERT_EQ(to.receive(from, kAll), LWMQ_OK);
  EXPECT_EQ(to.land(), "one");
  EXPECT_EQ(to.land(), "");
  EXPECT_EQ(to.land(), "-");
  show(from, &buffer, "three");
  ship(from, &buffer);
  from.send(kAll);
  ASSERT_EQ(to.receive(from, kAll), LWMQ_OK);
  EXPECT_EQ(to.land(), "three");
  EXPECT_EQ(to.land(), "-");
  EXPECT_EQ(from.sender.free_buffers(), 1u) << "nothing has come back yet";
  to.send(kAll);
  ASSERT_EQ(from.receive(to, kAll), LWMQ_OK);
  EXPECT_EQ(from.sender.free_buffers(), 2u);
}

// What is on its way says nothing until its last byte is there.
TEST(Mirror, ShowsARangeWholeOrNotAtAll) {
  End from(2, 512);
  End to(2, 512);
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(from.sender.acquire(&buffer), LWMQ_OK);
  show(from, &buffer, "first");
  from.send(kAll);
  ASSERT_EQ(to.receive(from, kAll), LWMQ_OK);
  EXPECT_EQ(to.land(), "first");
  show(from, &buffer, std::string(100, 'x'));
  show(from, &buffer, std::string(50, 'y'));
  from.send(kAll);
  while (from.on_way.size() > 1) {
    ASSERT_EQ(to.receive(from, 1), LWMQ_OK);
    ASSERT_EQ(to.land(), "-") << from.on_way.size();
  }
  ASSERT_EQ(to.receive(from, 1), LWMQ_OK);
  EXPECT_EQ(to.land(), std::string(100, 'x'));
  EXPECT_EQ(to.land(), std::string(50, 'y'));
}

// The word behind a range is written while the range is on its way.
TEST(Mirror, WhatIsShownBehindARangeOnItsWayComesAfterIt) {
  End from(2, 512);
  End to(2, 512);
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(from.sender.acquire(&buffer), LWMQ_OK);
  show(from, &buffer, std::string(64, 'a'));
  from.send(40);
  show(from, &buffer, std::string(64, 'b'));
  ship(from, &buffer);
  from.send(kAll);
  const std::size_t all = from.on_way.size();
  std::string got;
  for (std::size_t i = 0; i < all; ++i) {
    ASSERT_EQ(to.receive(from, 1), LWMQ_OK);
    if (const std::string text = to.land(); text != "-") got += text;
  }
  EXPECT_EQ(got, std::string(64, 'a') + std::string(64, 'b'));
}

TEST(Mirror, AnEmptyBufferAndAFullOneComeToo) {
  constexpr std::uint64_t kFillsPages = 4032;  // behind the last buffer the side has nothing
  End from(2, kFillsPages);
  End to(2, kFillsPages);
  ASSERT_EQ(from.layout.bytes, from.layout.data_offset + 2 * from.layout.stride);
  lwmq_tli_buffer buffer{};
  for (int lap = 0; lap < 3; ++lap) {
    ASSERT_EQ(from.sender.acquire(&buffer), LWMQ_OK);
    ship(from, &buffer);
    ASSERT_EQ(from.sender.acquire(&buffer), LWMQ_OK);
    const std::string large(buffer.room, 'z');
    show(from, &buffer, large);
    ship(from, &buffer);
    from.send(kAll);
    ASSERT_EQ(to.receive(from, kAll), LWMQ_OK);
    EXPECT_EQ(to.land(), large);
    EXPECT_EQ(to.land(), "-");
    to.send(kAll);
    ASSERT_EQ(from.receive(to, kAll), LWMQ_OK);
    EXPECT_EQ(from.sender.free_buffers(), 2u);
  }
}

TEST(Mirror, CountsAndTheEndOfThePeerComeLast) {
  End from(2, 512);
  End to(2, 512);
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(from.sender.acquire(&buffer), LWMQ_OK);
  show(from, &buffer, "read");
  show(from, &buffer, "not read");
  from.send(kAll);
  ASSERT_EQ(to.receive(from, kAll), LWMQ_OK);
  EXPECT_EQ(from.sender.unread_extents(), 2u);
  EXPECT_EQ(to.land(), "read");
  to.feed.count();
  to.sides.own_header().unsent = 7;
  to.sides.own_header().closed = 1;
  to.feed.close();
  lwmq_tli_buffer back{};
  ASSERT_EQ(to.sender.acquire(&back), LWMQ_OK);
  show(to, &back, "behind the close");
  to.send(kAll);
  const SideHeader& peer = from.sides.peer_header();
  while (peer.closed.load() == 0) {
    ASSERT_FALSE(to.on_way.empty());
    ASSERT_EQ(from.receive(to, 1), LWMQ_OK);
  }
  EXPECT_TRUE(to.on_way.empty()) << "nothing comes behind the close";
  EXPECT_EQ(peer.unsent.load(), 7u);
  EXPECT_EQ(from.sender.unread_extents(), 1u);
  EXPECT_EQ(from.land(), "behind the close");
}

// Both ways at once, in pieces of any size, for many laps.
TEST(Mirror, BringsEverythingInOrderHoweverItIsCut) {
  std::mt19937 random(seed_of_this_run());
  const auto below = [&random](std::uint64_t limit) { return random() % limit; };
  End ends[2] = {End(3, 2048), End(3, 2048)};
  std::uint64_t shown[2] = {};
  std::uint64_t landed[2] = {};
  lwmq_tli_buffer open[2] = {};
  bool is_open[2] = {};
  const auto text_of = [](std::uint64_t number) {
    return std::to_string(number) + std::string(number * 37 % 1500, static_cast<char>('a' + number % 26));
  };
  for (int step = 0; step < 60000; ++step) {
    const std::size_t i = below(2);
    End& end = ends[i];
    switch (below(5)) {
      case 0: {
        const std::string text = text_of(shown[i]);
        if (is_open[i] && open[i].room < text.size()) {
          ship(end, &open[i]);
          is_open[i] = false;
        }
        if (!is_open[i] && end.sender.acquire(&open[i]) != LWMQ_OK) break;
        is_open[i] = true;
        show(end, &open[i], text);
        ++shown[i];
        break;
      }
      case 1:
        if (is_open[i] && below(4) == 0) {
          ship(end, &open[i]);
          is_open[i] = false;
        }
        end.feed.count();
        break;
      case 2:
        end.send(below(3000));
        break;
      case 3:
        ASSERT_EQ(end.receive(ends[1 - i], below(3000)), LWMQ_OK);
        break;
      default:
        for (std::string text = end.land(); text != "-"; text = end.land()) {
          ASSERT_EQ(text, text_of(landed[i]));
          ++landed[i];
        }
    }
  }
  for (const std::size_t i : {0, 1}) {
    ends[i].send(kAll);
    ASSERT_EQ(ends[1 - i].receive(ends[i], kAll), LWMQ_OK);
  }
  for (const std::size_t i : {0, 1}) {
    for (std::string text = ends[i].land(); text != "-"; text = ends[i].land()) ++landed[i];
    EXPECT_EQ(landed[i], shown[1 - i]);
    EXPECT_GT(landed[i], 1000u);
  }
}

// ---- Pushes

// Memory of an end that its peer may write to.
struct Landing {
  Landing(End& end, std::uint64_t bytes) : memory(bytes, '.') {
    EXPECT_EQ(end.mirror.grant(reinterpret_cast<std::uint8_t*>(memory.data()), bytes, &grant), LWMQ_OK)
        << last_error();
  }
  std::string memory;
  lwmq_tli_grant grant{};
};

// `text` stays as it is, and is no temporary, until it was reaped.
Status push(End& end, const lwmq_tli_grant& grant, std::uint64_t offset, std::string_view text,
            std::uint64_t token = 0) {
  const lwmq_bytes piece{text.data(), text.size()};
  return end.feed.push(grant, offset, &piece, 1, token);
}

std::vector<std::uint64_t> reap(End& end, std::uint32_t limit = 1000) {
  std::vector<std::uint64_t> tokens(limit);
  tokens.resize(end.feed.reap(tokens.data(), limit));
  return tokens;
}

TEST(Push, BringsItsPiecesOneBehindTheOther) {
  End from(2, 512);
  End to(2, 512);
  Landing landing(to, 16);
  const lwmq_bytes pieces[] = {{"one", 3}, {nullptr, 0}, {"two", 3}, {"3", 1}};
  ASSERT_EQ(from.feed.push(landing.grant, 4, pieces, 4, 77), LWMQ_OK);
  EXPECT_TRUE(reap(from).empty()) << "it has not gone out";
  from.send(kAll);
  EXPECT_EQ(reap(from), std::vector<std::uint64_t>{77});
  EXPECT_TRUE(reap(from).empty()) << "a token comes back once";
  ASSERT_EQ(to.receive(from, kAll), LWMQ_OK);
  EXPECT_EQ(landing.memory, "....onetwo3.....");
  ASSERT_EQ(from.feed.push(landing.grant, 16, pieces, 0, 0), LWMQ_OK) << "nothing, at the end";
  from.send(kAll);
  ASSERT_EQ(to.receive(from, kAll), LWMQ_OK);
  EXPECT_EQ(landing.memory, "....onetwo3.....");
}

// A range of extents takes with it what was shown while another one was on its way.
TEST(Push, IsThereBeforeWhatIsShownBehindItHoweverBothAreCut) {
  constexpr std::uint64_t kPlaceBytes = 256;
  constexpr std::uint64_t kPlaces = 12000;
  std::mt19937 random(seed_of_this_run());
  const auto below = [&random](std::uint64_t limit) { return random() % limit; };
  End from(3, 2048);
  End to(3, 2048);
  Landing landing(to, kPlaces * kPlaceBytes);
  const auto text_of = [](std::uint64_t number) {
    return std::string(1 + number * 31 % kPlaceBytes, static_cast<char>('a' + number % 26));
  };
  std::deque<std::string> sources;  // of pushes that were not reaped
  std::uint64_t pushed = 0;
  std::uint64_t reaped = 0;
  std::uint64_t seen = 0;
  std::uint64_t landed = 0;
  lwmq_tli_buffer open{};
  bool is_open = false;
  while (seen < kPlaces) {
    switch (below(7)) {
      case 0:
      case 1: {
        if (pushed == kPlaces) break;
        sources.push_back(text_of(pushed));
        const Status status = push(from, landing.grant, pushed * kPlaceBytes, sources.back(), pushed);
        if (status == LWMQ_OK) {
          ++pushed;
        } else {
          ASSERT_EQ(status, LWMQ_E_FULL);
          sources.pop_back();
        }
        break;
      }
      case 2: {
        const std::string text = std::to_string(pushed) + std::string(below(600), ' ');
        if (is_open && (open.room < text.size() || below(8) == 0)) {
          ship(from, &open);
          is_open = false;
        }
        if (!is_open && from.sender.acquire(&open) != LWMQ_OK) break;
        is_open = true;
        if (open.room >= text.size()) show(from, &open, text);
        break;
      }
      case 3:
        from.send(below(3000));
        break;
      case 4:
        ASSERT_EQ(to.receive(from, below(3000)), LWMQ_OK) << last_error();
        break;
      case 5:
        to.send(kAll);
        ASSERT_EQ(from.receive(to, kAll), LWMQ_OK);
        for (const std::uint64_t token : reap(from, 1 + static_cast<std::uint32_t>(below(20)))) {
          ASSERT_EQ(token, reaped++);
          sources.front().assign(sources.front().size(), '?');  // nobody reads it now
          sources.pop_front();
        }
        break;
      default:
        for (std::string text = to.land(); text != "-"; text = to.land(), ++landed) {
          for (const std::uint64_t told = std::stoull(text); seen < told; ++seen) {
            const std::string expected = text_of(seen);
            ASSERT_EQ(landing.memory.substr(seen * kPlaceBytes, expected.size()), expected) << seen;
          }
        }
    }
  }
  EXPECT_GT(landed, 1000u);
}

TEST(Push, WaitsForATokenWhenTooManyAreOnTheirWay) {
  End from(2, 512);
  End to(2, 512);
  Landing landing(to, 8);
  for (std::uint64_t i = 0; i < kPushesMax; ++i) ASSERT_EQ(push(from, landing.grant, 0, "x", i), LWMQ_OK);
  EXPECT_EQ(push(from, landing.grant, 0, "x"), LWMQ_E_FULL);
  from.send(kAll);
  EXPECT_EQ(push(from, landing.grant, 0, "x"), LWMQ_E_FULL) << "sent, and not reaped";
  EXPECT_EQ(reap(from, 2), (std::vector<std::uint64_t>{0, 1}));
  EXPECT_EQ(push(from, landing.grant, 0, "x"), LWMQ_OK);
  EXPECT_EQ(push(from, landing.grant, 0, "x"), LWMQ_OK);
  EXPECT_EQ(push(from, landing.grant, 0, "x"), LWMQ_E_FULL);
}

TEST(Push, ThatCannotBeIsRefusedWithItsNumbers) {
  End from(2, 512);
  End to(2, 512);
  Landing landing(to, 100);
  EXPECT_EQ(push(from, landing.grant, 99, "xy"), LWMQ_E_TOO_BIG);
  EXPECT_EQ(std::string(last_error()), "a push of 2 bytes to offset 99 of a grant of 100 bytes");
  EXPECT_EQ(push(from, landing.grant, 101, ""), LWMQ_E_TOO_BIG);
  EXPECT_EQ(push(from, landing.grant, UINT64_MAX, "x"), LWMQ_E_TOO_BIG);
  const lwmq_bytes endless[] = {{"x", UINT64_MAX}, {"x", UINT64_MAX}};
  EXPECT_EQ(from.feed.push(landing.grant, 50, endless, 2, 0), LWMQ_E_TOO_BIG);
  const std::vector<lwmq_bytes> many(LWMQ_TLI_PUSH_PIECES_MAX + 1, lwmq_bytes{"x", 1});
  EXPECT_EQ(from.feed.push(landing.grant, 0, many.data(), LWMQ_TLI_PUSH_PIECES_MAX + 1, 0), LWMQ_E_INVALID);
  EXPECT_EQ(push(from, lwmq_tli_grant{}, 0, ""), LWMQ_E_INVALID);
  lwmq_tli_grant longer = landing.grant;
  longer.bytes[31] = 1;
  EXPECT_EQ(push(from, longer, 0, "x"), LWMQ_E_INVALID);
  from.send(kAll);
  EXPECT_TRUE(from.on_way.empty());
  EXPECT_TRUE(reap(from).empty());
}

// Whoever sends from the pieces says when they were read.
TEST(Push, IsReapedWhenItsPiecesAreNoLongerRead) {
  End from(2, 512);
  End to(2, 512);
  Landing landing(to, 8);
  ASSERT_EQ(push(from, landing.grant, 0, "x", 1), LWMQ_OK);
  ASSERT_EQ(push(from, landing.grant, 1, "y", 2), LWMQ_OK);
  iovec pieces[8];
  ASSERT_EQ(from.feed.pieces(pieces, 8), 4u);
  EXPECT_EQ(from.feed.sent(sizeof(RangeHead)), 0u);
  EXPECT_EQ(from.feed.sent(1 + sizeof(RangeHead) + 1), 2u);
  EXPECT_TRUE(from.feed.has_unfinished());
  EXPECT_TRUE(reap(from).empty());
  from.feed.finished(1);
  EXPECT_EQ(reap(from), std::vector<std::uint64_t>{1});
  from.feed.finished(1);
  EXPECT_EQ(reap(from), std::vector<std::uint64_t>{2});
  EXPECT_FALSE(from.feed.has_unfinished());
}

TEST(Push, ComesBackWhenAllIsGivenUp) {
  End from(2, 512);
  End to(2, 512);
  Landing landing(to, 100);
  for (std::uint64_t i = 0; i < 30; ++i) ASSERT_EQ(push(from, landing.grant, 0, "abcdef", i), LWMQ_OK);
  from.send(70);
  EXPECT_EQ(reap(from).size(), 2u);
  from.feed.give_up();
  EXPECT_EQ(reap(from).size(), 28u);
  iovec pieces[3];
  EXPECT_EQ(from.feed.pieces(pieces, 3), 0u);
}

// ---- Grants

// Cut anywhere: between two pieces of it, and where it has come together with other ranges.
TEST(Grant, ThatIsRevokedInTheMiddleOfARangeKeepsWhatItHas) {
  for (const std::uint64_t cut : {10, 24, 25, 1000, 16383, 16384, 20000, 49999, 50024}) {
    End from(2, 512);
    End to(2, 512);
    Landing landing(to, 50000);
    Landing other(to, 3);
    const std::string text(50000, 'p');
    ASSERT_EQ(push(from, landing.grant, 0, text), LWMQ_OK);
    ASSERT_EQ(push(from, other.grant, 0, "abc"), LWMQ_OK);
    lwmq_tli_buffer buffer{};
    ASSERT_EQ(from.sender.acquire(&buffer), LWMQ_OK);
    show(from, &buffer, "behind both");
    from.send(kAll);
    ASSERT_EQ(to.receive(from, cut), LWMQ_OK);
    to.mirror.revoke(landing.grant);
    const std::string then = landing.memory;
    EXPECT_EQ(std::count(then.begin(), then.end(), 'p'), std::max<std::int64_t>(0, std::int64_t(cut) - 24));
    ASSERT_EQ(to.receive(from, kAll), LWMQ_OK) << last_error();
    EXPECT_EQ(landing.memory, then) << cut;
    EXPECT_EQ(other.memory, "abc");
    EXPECT_EQ(to.land(), "behind both");
  }
}

// The reader may be storing into it while another thread revokes.
TEST(Grant, IsRevokedWhenTheReaderHasPutItBack) {
  End from(2, 512);
  End to(2, 512);
  Landing landing(to, 50000);
  const std::string text(50000, 'p');
  ASSERT_EQ(push(from, landing.grant, 0, text), LWMQ_OK);
  from.send(kAll);
  ASSERT_EQ(to.receive(from, 100), LWMQ_OK);
  iovec places[2];
  ASSERT_EQ(to.mirror.places(places), 2u);
  ASSERT_EQ(places[0].iov_base, landing.memory.data() + 76);
  std::atomic<bool> is_revoked{false};
  std::thread revoking([&] {
    to.mirror.revoke(landing.grant);
    is_revoked = true;
  });
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_FALSE(is_revoked) << "it is in hand";
  }
  EXPECT_EQ(to.mirror.came(0), LWMQ_OK);
  revoking.join();
  ASSERT_EQ(to.mirror.places(places), 1u);
  EXPECT_TRUE(places[0].iov_base < landing.memory.data() ||
              places[0].iov_base >= landing.memory.data() + landing.memory.size());
  ASSERT_EQ(to.mirror.came(0), LWMQ_OK);
}

// Beside a reader, for ThreadSanitizer: what is revoked is the revoker's alone.
TEST(Grant, ThatIsRevokedBelongsToItsOwnerAgain) {
  End from(2, 512);
  End to(2, 512);
  const std::string text(3000, 'p');
  std::deque<Landing> landings;
  for (int i = 0; i < 200; ++i) landings.emplace_back(to, text.size());
  std::atomic<bool> is_over{false};
  std::thread revoking([&] {
    for (Landing& one : landings) {
      to.mirror.revoke(one.grant);
      one.memory.assign(one.memory.size(), 'r');
      std::this_thread::yield();
    }
    is_over = true;
  });
  std::mt19937 random(seed_of_this_run());
  while (!is_over || !from.on_way.empty()) {
    EXPECT_EQ(push(from, landings[random() % landings.size()].grant, 0, text), LWMQ_OK);
    from.send(kAll);
    reap(from);
    const std::uint64_t bytes = is_over ? kAll : 1 + random() % 4000;
    EXPECT_EQ(to.receive(from, bytes), LWMQ_OK) << last_error();
  }
  revoking.join();
  for (const Landing& one : landings) EXPECT_EQ(one.memory, std::string(text.size(), 'r'));
}

TEST(Grant, ThatWasRevokedTakesNothingAndTheNextOneAtItsPlaceTakesItsOwn) {
  End from(2, 512);
  End to(2, 512);
  Landing old(to, 8);
  to.mirror.revoke(old.grant);
  to.mirror.revoke(old.grant);
  Landing next(to, 4);
  to.mirror.revoke(old.grant);
  ASSERT_EQ(push(from, old.grant, 0, "too late"), LWMQ_OK) << "the peer cannot know";
  ASSERT_EQ(push(from, next.grant, 1, "new"), LWMQ_OK);
  from.send(kAll);
  ASSERT_EQ(to.receive(from, kAll), LWMQ_OK) << last_error();
  EXPECT_EQ(old.memory, "........");
  EXPECT_EQ(next.memory, ".new");
}

TEST(Grant, IsOneOfSoMany) {
  End to(2, 512);
  std::uint8_t memory[8];
  std::vector<lwmq_tli_grant> grants(kGrantsMax + 1);
  for (std::uint32_t i = 0; i < kGrantsMax; ++i)
    ASSERT_EQ(to.mirror.grant(memory, sizeof memory, &grants[i]), LWMQ_OK);
  EXPECT_EQ(to.mirror.grant(memory, sizeof memory, &grants[kGrantsMax]), LWMQ_E_FULL);
  to.mirror.revoke(grants[500]);
  EXPECT_EQ(to.mirror.grant(memory, sizeof memory, &grants[kGrantsMax]), LWMQ_OK);
  EXPECT_EQ(to.mirror.grant(memory, sizeof memory, &grants[500]), LWMQ_E_FULL);
}

std::string sent_by(End& end) {
  end.send(kAll);
  std::string bytes(end.on_way.begin(), end.on_way.end());
  end.on_way.clear();
  return bytes;
}

// An independent peer can be written from these bytes and wire/WIRE.md.
TEST(Mirror, SendsTheGoldenBytes) {
  auto golden = testing_support::read_golden(LWMQ_SOURCE_ROOT "/tests/wire/range.hex");
  ASSERT_EQ(golden.size(), 7u);
  End from(2, 512);
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(from.sender.acquire(&buffer), LWMQ_OK);
  std::memset(buffer.next, 0, 8);
  show(from, &buffer, "one");
  show(from, &buffer, "");
  EXPECT_EQ(sent_by(from), golden["extents"].bytes + golden["order"].bytes);
  ship(from, &buffer);
  EXPECT_EQ(sent_by(from), golden["end"].bytes);
  auto* released =
      reinterpret_cast<std::atomic<std::uint32_t>*>(from.own.get() + SideLayout::kReleasedOffset);
  released[1].store(5);
  from.feed.freed(1);
  EXPECT_EQ(sent_by(from), golden["lap"].bytes);
  End to(2, 512);
  Landing first(to, 8);
  Landing second(to, 100);
  to.mirror.revoke(second.grant);
  second = Landing(to, 1000);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(second.grant.bytes), sizeof second.grant.bytes),
            golden["grant"].bytes);
  const lwmq_bytes pieces[] = {{"pus", 3}, {"hed", 3}};
  ASSERT_EQ(from.feed.push(second.grant, 5, pieces, 2, 0), LWMQ_OK);
  EXPECT_EQ(sent_by(from), golden["push"].bytes);
  from.sides.own_header().unsent = 7;
  from.sides.own_header().closed = 1;
  from.feed.close();
  EXPECT_EQ(sent_by(from), golden["closed"].bytes);
}

// A peer that opens what it has not got back yet makes us give the same buffer back twice.
TEST(Mirror, ABufferThatWasGivenBackTwiceGoesOutOnce) {
  End to(2, 512);
  for (int i = 0; i < 5; ++i) to.feed.freed(1);
  to.feed.freed(0);
  to.send(kAll);
  EXPECT_EQ(to.on_way.size(), 2 * sizeof(RangeHead));
}

// ---- A hostile peer

struct Breach {
  const char* name;
  std::uint16_t kind;
  std::uint64_t offset;
  std::uint64_t bytes;
};

std::string name_of(const testing::TestParamInfo<Breach>& info) { return info.param.name; }

class HostileRange : public testing::TestWithParam<Breach> {};

TEST_P(HostileRange, IsRefusedWithItsNumbers) {
  End to(2, 512);
  const auto& [name, kind, offset, bytes] = GetParam();
  const RangeHead head{offset | std::uint64_t{kind} << 48, 1, bytes};
  iovec places[2];
  ASSERT_GE(to.mirror.places(places), 1u);
  std::memcpy(places[0].iov_base, &head, sizeof head);
  EXPECT_EQ(to.mirror.came(sizeof head), LWMQ_E_CORRUPT);
  EXPECT_NE(std::string(last_error()).find(std::to_string(offset)), std::string::npos) << last_error();
}

const std::uint64_t kSide = SideLayout::of(2, 512).bytes;
constexpr std::uint64_t kPlace = 20480;
INSTANTIATE_TEST_SUITE_P(
    Of, HostileRange,
    testing::Values(Breach{"no_kind", 0, kPlace, 8}, Breach{"unknown_kind", 9, kPlace, 8},
                    Breach{"ticket", 2, offsetof(SideHeader, waiting_extent), 0},
                    Breach{"doorbell", 3, offsetof(SideHeader, doorbell), 0},
                    Breach{"unaligned", 2, kPlace + 4, 8}, Breach{"behind_the_side", 2, kSide, 0},
                    Breach{"over_the_end", 2, kSide - 16, 9}, Breach{"zero_over_the_end", 1, kSide - 16, 8},
                    Breach{"far_too_long", 1, kPlace, UINT64_MAX - 7},
                    Breach{"zero_that_is_not_aligned", 1, kPlace, 4}, Breach{"lap_with_bytes", 3, 512, 8},
                    Breach{"farthest", 2, (std::uint64_t{1} << 48) - 8, 0}),
    name_of);

// Of a push of which the head alone has come, to an end that has granted 100 bytes at place 0, and at place 1
// until it revoked that; nothing is taken behind a range that is corrupt.
struct HostileEnd {
  HostileEnd() { end.mirror.revoke(Landing(end, 100).grant); }
  Status push(std::uint64_t number, std::uint64_t offset, std::uint64_t bytes) {
    const RangeHead head{offset | std::uint64_t{4} << 48, number, bytes};
    iovec places[2];
    EXPECT_EQ(end.mirror.places(places), 1u);
    std::memcpy(places[0].iov_base, &head, sizeof head);
    return end.mirror.came(sizeof head);
  }
  End end{2, 512};
  Landing landing{end, 100};
};

constexpr std::uint64_t kFirstOf = 1 << 16;  // grant of a place

TEST(HostilePush, ToAGrantThatNeverWasIsCorrupt) {
  for (const std::uint64_t number :
       {std::uint64_t{0}, std::uint64_t{1}, kFirstOf + 2, 2 * kFirstOf, 2 * kFirstOf + 1, UINT64_MAX}) {
    HostileEnd to;
    EXPECT_EQ(to.push(number, 0, 1), LWMQ_E_CORRUPT) << number;
    EXPECT_NE(std::string(last_error()).find("never had"), std::string::npos) << last_error();
  }
  HostileEnd to;
  EXPECT_EQ(to.push(kFirstOf, 0, 1), LWMQ_OK);
  HostileEnd revoked;
  EXPECT_EQ(revoked.push(kFirstOf + 1, 0, 1), LWMQ_OK);
}

TEST(HostilePush, WithoutAnyGrantIsCorrupt) {
  End to(2, 512);
  const RangeHead head{std::uint64_t{4} << 48, kFirstOf, 1};
  iovec places[2];
  to.mirror.places(places);
  std::memcpy(places[0].iov_base, &head, sizeof head);
  EXPECT_EQ(to.mirror.came(sizeof head), LWMQ_E_CORRUPT);
}

TEST(HostilePush, BeyondItsGrantIsCorrupt) {
  HostileEnd to;
  EXPECT_EQ(to.push(kFirstOf, 99, 1), LWMQ_OK);
  iovec places[2];
  ASSERT_EQ(to.end.mirror.places(places), 2u);
  ASSERT_EQ(places[0].iov_len, 1u);
  *static_cast<char*>(places[0].iov_base) = 'x';
  ASSERT_EQ(to.end.mirror.came(1), LWMQ_OK);
  EXPECT_EQ(to.landing.memory, std::string(99, '.') + "x");
  struct {
    std::uint64_t offset;
    std::uint64_t bytes;
  } const breaches[] = {{99, 2}, {101, 0}, {50, UINT64_MAX - 20}, {(1ull << 48) - 1, 1}};
  for (const auto& [offset, bytes] : breaches) {
    HostileEnd other;
    EXPECT_EQ(other.push(kFirstOf, offset, bytes), LWMQ_E_CORRUPT) << offset;
    EXPECT_NE(std::string(last_error())
                  .find(std::to_string(bytes) + " bytes to offset " + std::to_string(offset) +
                        " of a grant of 100"),
              std::string::npos)
        << last_error();
  }
}

// Whatever comes in, nothing outside the side is written, and the lane answers.
TEST(Mirror, AnyBytesAreTakenOrRefusedWithoutHarm) {
  std::mt19937_64 random(seed_of_this_run());
  for (int round = 0; round < 300; ++round) {
    End to(2, 512);
    Landing gone(to, 100);
    const Landing landing(to, 100);  // at the other place
    to.mirror.revoke(gone.grant);
    for (int i = 0; i < 40; ++i) {
      const bool is_likely = random() % 4 != 0;
      const bool is_push = random() % 4 == 0;
      const RangeHead head{
          (is_likely ? random() % (is_push ? 110 : to.layout.bytes + 64) / 8 * 8 : random()) |
              (is_likely ? is_push ? 4 : 1 + random() % 3 : random()) << 48,
          is_push             ? 1 << 16 | random() % 2
          : random() % 2 == 0 ? random()
                              : random() % 4096 | (1 + random() % 3) << 48 | 1ull << 40,
          is_likely ? random() % 64 : random()};
      std::vector<std::uint8_t> bytes(sizeof head + random() % 64);
      std::memcpy(bytes.data(), &head, sizeof head);
      iovec places[2];
      std::uint64_t put = 0;
      const std::size_t count = to.mirror.places(places);
      for (std::size_t k = 0; k < count && put < bytes.size(); ++k) {
        const std::uint64_t here = std::min<std::uint64_t>(places[k].iov_len, bytes.size() - put);
        std::memcpy(places[k].iov_base, bytes.data() + put, here);
        put += here;
      }
      if (to.mirror.came(put) != LWMQ_OK) break;
      lwmq_tli_extent extent{};
      if (to.receiver.land(&extent) == LWMQ_OK) to.receiver.release(extent.token, 1);
      to.sender.free_buffers();
    }
    EXPECT_EQ(gone.memory, std::string(100, '.'));
  }
}

}  // namespace
}  // namespace lwmq::lane
