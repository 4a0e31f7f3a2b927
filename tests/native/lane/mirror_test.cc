// links: base os stats tli lane
// A lane whose two ends share no memory: what goes out of one is put into the other, as a connection would.
#include "lane/mirror.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tli_calls.h"

namespace lwmq::lane {
namespace {

using calls::Extent;

constexpr std::uint32_t kBuffers = 3;
constexpr std::uint64_t kBufferBytes = 4096;

lwmq_tli_options options() {
  lwmq_tli_options made{};
  made.size = sizeof made;
  made.buffers_send = kBuffers;
  made.buffer_bytes = kBufferBytes;
  made.purpose = LWMQ_TLI_FOR_RAW;
  return made;
}

// Moves everything that `from` has for `to`; what `to` says of the last of it.
Status carry(Mirror& from, Mirror& to, bool with_account = true) {
  Mirror::Piece piece{};
  const auto put = [&] {
    std::uint8_t* where = nullptr;
    if (const Status status = to.place(piece.head, &where); status != LWMQ_OK) return status;
    if (piece.head.bytes > 0) std::memcpy(where, piece.bytes, piece.head.bytes);
    return to.take(piece.head);
  };
  while (from.next_piece(&piece)) {
    if (const Status status = put(); status != LWMQ_OK) return status;
  }
  return with_account && from.account(&piece) ? put() : LWMQ_OK;
}

class MirrorTest : public testing::Test {
 protected:
  MirrorTest() {
    EXPECT_TRUE(sending_.init(options(), kBuffers, kBufferBytes));
    EXPECT_TRUE(receiving_.init(options(), kBuffers, kBufferBytes));
  }
  Status show(lwmq_tli_buffer* buffer, const std::string& text) {
    std::memcpy(buffer->next, text.data(), text.size());
    const Status status = sending_.sender().show(buffer, text.size(), 5);
    sending_.shown(LaneSender::place_of(*buffer));
    return status;
  }
  void ship(lwmq_tli_buffer* buffer) {
    const auto place = LaneSender::place_of(*buffer);
    sending_.sender().ship(buffer);
    sending_.shipped(place);
  }
  std::string land() {
    Extent extent;
    if (receiving_.receiver().land(1, &extent, &extent.landing) != LWMQ_OK) return "<none>";
    std::string text(reinterpret_cast<const char*>(extent.data), extent.bytes);
    receiving_.receiver().release_last(extent.landing, 1);
    return text;
  }
  // As the peer would say it.
  static MirrorHead head(MirrorKind kind, std::uint16_t buffer, std::uint64_t at, std::uint64_t bytes) {
    return {static_cast<std::uint32_t>(kind), buffer, 1, at, 0, bytes};
  }

  Mirror sending_;
  Mirror receiving_;
};

TEST_F(MirrorTest, WhatIsShownIsThereWhenItWasCarriedAndNotBefore) {
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(sending_.sender().acquire(&buffer), LWMQ_OK);
  ASSERT_EQ(show(&buffer, "one"), LWMQ_OK);
  EXPECT_EQ(land(), "<none>");
  ASSERT_EQ(carry(sending_, receiving_), LWMQ_OK);
  EXPECT_EQ(land(), "one");
  EXPECT_EQ(land(), "<none>");
  ASSERT_EQ(show(&buffer, "two"), LWMQ_OK);
  ASSERT_EQ(show(&buffer, ""), LWMQ_OK);
  ASSERT_EQ(carry(sending_, receiving_), LWMQ_OK);
  EXPECT_EQ(land(), "two");
  EXPECT_EQ(land(), "");
}

// A piece is believed when its first word is there, which is stored last.
TEST_F(MirrorTest, NothingOfAPieceIsBelievedBeforeItIsTaken) {
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(sending_.sender().acquire(&buffer), LWMQ_OK);
  ASSERT_EQ(show(&buffer, "first"), LWMQ_OK);
  ASSERT_EQ(show(&buffer, "second"), LWMQ_OK);
  Mirror::Piece piece{};
  ASSERT_TRUE(sending_.next_piece(&piece));
  std::uint8_t* where = nullptr;
  ASSERT_EQ(receiving_.place(piece.head, &where), LWMQ_OK);
  std::memcpy(where, piece.bytes, piece.head.bytes);
  EXPECT_EQ(land(), "<none>");
  ASSERT_EQ(receiving_.take(piece.head), LWMQ_OK);
  EXPECT_EQ(land(), "first");
  EXPECT_EQ(land(), "second");
}

TEST_F(MirrorTest, CarriesAnyLengthsThroughItsBuffersAgainAndAgain) {
  std::mt19937 random(2611);
  std::vector<std::string> expected;
  std::size_t landed = 0;
  lwmq_tli_buffer buffer{};
  bool has_buffer = false;
  for (int i = 0; i < 3000; ++i) {
    const std::string text(random() % (i % 10 == 0 ? kBufferBytes : 200), static_cast<char>('a' + i % 26));
    if (has_buffer && buffer.room < text.size()) {
      ship(&buffer);
      has_buffer = false;
    }
    for (int tries = 0; !has_buffer && tries < 10; ++tries) {
      has_buffer = sending_.sender().acquire(&buffer) == LWMQ_OK;
      if (has_buffer) break;
      ASSERT_EQ(carry(sending_, receiving_), LWMQ_OK) << last_error();
      while (landed < expected.size()) ASSERT_EQ(land(), expected[landed++]) << landed;
      ASSERT_EQ(land(), "<none>");  // leaves the last buffer
      ASSERT_EQ(carry(receiving_, sending_), LWMQ_OK) << last_error();
    }
    ASSERT_TRUE(has_buffer) << i;
    ASSERT_EQ(show(&buffer, text), LWMQ_OK) << last_error();
    expected.push_back(text);
    if (random() % 3 == 0) {
      ASSERT_EQ(carry(sending_, receiving_), LWMQ_OK) << last_error();
    }
  }
  ASSERT_EQ(carry(sending_, receiving_), LWMQ_OK) << last_error();
  while (landed < expected.size()) ASSERT_EQ(land(), expected[landed++]);
  ASSERT_EQ(carry(receiving_, sending_), LWMQ_OK) << last_error();
  EXPECT_EQ(sending_.sender().unread_extents(), 0u);
}

TEST_F(MirrorTest, ABufferThatOpensBeforeAnotherEndsIsReadBehindIt) {
  lwmq_tli_buffer one{}, other{};
  ASSERT_EQ(sending_.sender().acquire(&one), LWMQ_OK);
  ASSERT_EQ(sending_.sender().acquire(&other), LWMQ_OK);
  ASSERT_EQ(show(&one, "1"), LWMQ_OK);
  ASSERT_EQ(show(&other, "3"), LWMQ_OK);
  ASSERT_EQ(show(&one, "2"), LWMQ_OK);
  ship(&one);
  ASSERT_EQ(carry(sending_, receiving_), LWMQ_OK);
  for (const char* text : {"1", "2", "3"}) EXPECT_EQ(land(), text);
}

TEST_F(MirrorTest, AnEndIsHeardWithWhatWasGivenUp) {
  auto closing = head(MirrorKind::kClosing, 0, 7, 0);
  std::uint8_t* where = nullptr;
  ASSERT_EQ(receiving_.place(closing, &where), LWMQ_OK);
  ASSERT_EQ(receiving_.take(closing), LWMQ_OK);
  EXPECT_TRUE(receiving_.peer_has_closed());
  lwmq_tli_figures figures{};
  receiving_.sender().fill(&figures);
  EXPECT_EQ(figures.unsent, 7u);
}

// What a stranger may say.
TEST_F(MirrorTest, RefusesWhatLiesOutsideOfTheBuffers) {
  std::uint8_t* where = nullptr;
  const std::uint64_t stride = SideLayout::of(kBuffers, kBufferBytes).stride;
  const MirrorHead lies[] = {
      head(MirrorKind::kOpening, kBuffers, 56, 8),           // no such buffer
      head(MirrorKind::kOpening, 0, 64, 8),                  // begins elsewhere
      head(MirrorKind::kRange, 0, 48, 8),                    // before its first word
      head(MirrorKind::kRange, 0, 60, 8),                    // between words
      head(MirrorKind::kRange, 0, stride, 0),                // behind its end
      head(MirrorKind::kRange, 0, UINT64_MAX - 7, 8),        // far behind
      head(MirrorKind::kRange, 0, 56, stride - 56),          // too long
      head(MirrorKind::kRange, 0, 56, UINT64_MAX),           // much too long
      head(MirrorKind::kAccount, 0, 0, 5),                   // parts of an entry
      head(MirrorKind::kAccount, 0, 0, 6 * (kBuffers + 1)),  // more than there are
      head(MirrorKind::kClosing, 0, 0, 1),                   // with bytes
      head(static_cast<MirrorKind>(0), 0, 0, 0),
      head(static_cast<MirrorKind>(77), 0, 0, 0),
  };
  for (const MirrorHead& lie : lies) {
    EXPECT_EQ(receiving_.place(lie, &where), LWMQ_E_CORRUPT) << lie.kind << " " << lie.at;
    EXPECT_NE(std::string(last_error()), "");
  }
}

TEST_F(MirrorTest, RefusesABufferThatBeginsTwice) {
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(sending_.sender().acquire(&buffer), LWMQ_OK);
  ASSERT_EQ(show(&buffer, "one"), LWMQ_OK);
  Mirror::Piece piece{};
  ASSERT_TRUE(sending_.next_piece(&piece));
  std::uint8_t* where = nullptr;
  for (const Status expected : {LWMQ_OK, LWMQ_E_CORRUPT}) {
    ASSERT_EQ(receiving_.place(piece.head, &where), LWMQ_OK);
    std::memcpy(where, piece.bytes, piece.head.bytes);
    EXPECT_EQ(receiving_.take(piece.head), expected);
  }
}

TEST_F(MirrorTest, RefusesAnAccountOfABufferThatDoesNotExist) {
  const auto account = head(MirrorKind::kAccount, 0, 0, kGivenBackBytes);
  std::uint8_t* where = nullptr;
  ASSERT_EQ(receiving_.place(account, &where), LWMQ_OK);
  std::memset(where, 0xff, kGivenBackBytes);
  EXPECT_EQ(receiving_.take(account), LWMQ_E_CORRUPT);
}

// An extent that says that it is longer than its buffer is found out where it lands.
TEST_F(MirrorTest, LandsNoExtentThatReachesOutOfItsBuffer) {
  auto opening = head(MirrorKind::kOpening, 0, 56, 8);
  opening.word = (std::uint64_t{kBufferBytes} * 2) | std::uint64_t{1} << 40 | std::uint64_t{1} << 48;
  std::uint8_t* where = nullptr;
  ASSERT_EQ(receiving_.place(opening, &where), LWMQ_OK);
  ASSERT_EQ(receiving_.take(opening), LWMQ_OK);
  Extent extent;
  EXPECT_EQ(receiving_.receiver().land(1, &extent, &extent.landing), LWMQ_E_CORRUPT);
}

}  // namespace
}  // namespace lwmq::lane
