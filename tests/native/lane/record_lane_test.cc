// links: base os stats tli lane
// What the two ends of a lane owe each other where no transport is around them.
#include "lane/record_lane.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace lwmq::lane {
namespace {

// A waker that was late by a whole sleep: it shows something that the sleeper has taken long ago, sees the
// announcement of the next sleep, and rings for it. It is the only ring that this sleep will get.
TEST(RecordLane, ASleepEndsByTheRingForItHoweverEarlyThatComes) {
  const auto ours = std::make_unique<SideHeader>();
  const auto theirs = std::make_unique<SideHeader>();
  const Sides sleeping{reinterpret_cast<std::uint8_t*>(ours.get()),
                       reinterpret_cast<std::uint8_t*>(theirs.get())};
  const Sides waking{reinterpret_cast<std::uint8_t*>(theirs.get()),
                     reinterpret_cast<std::uint8_t*>(ours.get())};
  std::atomic<bool> over{false};
  std::thread late([&] {
    Waker waker;
    waker.init(waking);
    while (!over) {
      if (ours->waiting_extent.load() != 0) waker.extent_shown();
    }
  });
  int timed_out = 0;
  for (int round = 0; round < 1000 && timed_out == 0; ++round) {
    const os::WaitResult result = sleep_until_rung(sleeping, ours->waiting_extent, nullptr, nullptr, 0,
                                                   1'000'000'000, [] { return false; });
    timed_out += result == os::WaitResult::kTimedOut ? 1 : 0;
  }
  over = true;
  late.join();
  EXPECT_EQ(timed_out, 0);
}

// What one side writes for each message shares no line with what the other one polls for each.
// rows: K18
TEST(RecordLane, SidesMeetOnLinesOfTheirOwn) {
  const std::size_t polled[] = {offsetof(SideHeader, waiting_extent), offsetof(SideHeader, closed)};
  const std::size_t written[] = {offsetof(SideHeader, doorbell), offsetof(SideHeader, released_landing),
                                 SideLayout::kReleasedOffset, SideLayout::kOrderOffset};
  for (const std::size_t one : polled) {
    for (const std::size_t other : written) EXPECT_NE(one / kCacheLine, other / kCacheLine);
  }
  const SideLayout layout = SideLayout::of(8, 1000);
  EXPECT_EQ(layout.data_offset % 4096, 0u);
  EXPECT_EQ(layout.stride % kCacheLine, 0u) << "nor do two buffers";
}

// One direction in plain memory: nothing of processes, handshakes or queues.
class Lane : public testing::Test {
 protected:
  static constexpr std::uint32_t kBuffers = 3;
  static constexpr std::uint64_t kBufferBytes = 4096;

  explicit Lane(std::uint64_t buffer_bytes = kBufferBytes) : layout_(SideLayout::of(kBuffers, buffer_bytes)) {
    const std::uint64_t bytes = layout_.bytes;
    for (auto* side : {&sending_, &receiving_}) {
      side->reset(static_cast<std::uint8_t*>(std::aligned_alloc(4096, bytes)));
      std::memset(side->get(), 0, bytes);
    }
    const Sides from{sending_.get(), receiving_.get()};
    const Sides to{receiving_.get(), sending_.get()};
    sender_waker_.init(from);
    receiver_waker_.init(to);
    EXPECT_TRUE(sender_.init(from, &sender_waker_, kBuffers, buffer_bytes));
    EXPECT_TRUE(receiver_.init(to, &receiver_waker_, kBuffers, buffer_bytes));
  }

  void show(std::uint64_t bytes) {
    if (!open_ || buffer_.room < bytes) {
      if (open_) sender_.ship(&buffer_);
      ASSERT_EQ(sender_.acquire(&buffer_), LWMQ_OK);
      open_ = true;
    }
    std::memset(buffer_.next, static_cast<int>(bytes & 0xff), bytes);
    last_word_ = buffer_.next - 8;
    ASSERT_EQ(sender_.show(&buffer_, bytes, 5), LWMQ_OK) << last_error();
  }

  // Both ends; what was shown has landed.
  void leave_buffer() {
    if (!open_) return;
    sender_.ship(&buffer_);
    open_ = false;
    EXPECT_FALSE(land_one());
  }

  // Of the buffer that was acquired last.
  [[nodiscard]] std::uint64_t index() const {
    const auto offset = static_cast<std::uint64_t>(buffer_.next - sending_.get());
    return (offset - layout_.data_offset) / layout_.stride;
  }

  // The `place`-th of extents whose lengths go in steps of 37.
  static void expect_shown(const std::uint8_t* data, std::uint64_t bytes, std::uint32_t kind,
                           std::uint64_t place) {
    ASSERT_EQ(bytes, place * 37 % (kBufferBytes / 5));
    ASSERT_EQ(kind, 5u);
    for (std::uint64_t k = 0; k < bytes; ++k) ASSERT_EQ(data[k], bytes & 0xff);
  }
  // Whether there was an extent, which goes back.
  bool land_one() {
    std::uint64_t token[2] = {};
    lwmq_tli_piece piece{};
    const bool landed = receiver_.land_one(UINT64_MAX, token, &piece);
    if (landed) receiver_.release_last(token, 1);
    return landed;
  }

  // Up to `limit` of less than `bytes_below` bytes; one has a way of its own.
  std::uint32_t land(std::uint64_t bytes_below, std::uint32_t limit, std::uint64_t (&token)[2],
                     lwmq_tli_piece* run) {
    if (limit > 1) return receiver_.land_run(bytes_below, limit, token, run);
    return receiver_.land_one(bytes_below, token, run) ? 1 : 0;
  }

  struct Free {
    void operator()(std::uint8_t* memory) const { std::free(memory); }
  };
  const SideLayout layout_;
  std::unique_ptr<std::uint8_t, Free> sending_, receiving_;
  Waker sender_waker_, receiver_waker_;
  LaneSender sender_;
  LaneReceiver receiver_;
  lwmq_tli_buffer buffer_{};
  bool open_ = false;
  std::uint8_t* last_word_ = nullptr;  // of the extent shown last
};

// rows: M03
TEST_F(Lane, FramesComeBackWholeAndInOrderWhateverTheirSizes) {
  for (std::uint64_t round = 0; round < 3000; ++round) {
    const std::uint64_t bytes = round * 37 % (kBufferBytes + 1);
    show(bytes);
    lwmq_tli_extent extent{};
    ASSERT_EQ(receiver_.land(&extent), LWMQ_OK) << last_error();
    ASSERT_EQ(extent.bytes, bytes);
    ASSERT_EQ(extent.kind, 5u);
    for (std::uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(extent.data[i], bytes & 0xff);
    receiver_.release_last(extent.token, 1);
    EXPECT_EQ(receiver_.land(&extent), LWMQ_E_EMPTY);
  }
}

// rows: M03
TEST_F(Lane, ARunIsWhatLandWouldHaveGivenOneByOne) {
  std::uint64_t shown = 0;
  std::uint64_t landed = 0;
  for (int round = 0; round < 500; ++round) {
    // At most two buffers' worth: show waits for nobody.
    for (int i = 0; i < 1 + round % 7; ++i, ++shown) show(shown * 37 % (kBufferBytes / 5));
    while (landed < shown) {
      std::uint64_t token[2] = {};
      lwmq_tli_piece run[4] = {};
      const std::uint32_t limit = 1 + round % 4;
      const std::uint32_t count = land(kBufferBytes / 10, limit, token, run);
      ASSERT_LE(count, limit);
      if (count == 0) {
        lwmq_tli_extent extent{};
        ASSERT_EQ(receiver_.land(&extent), LWMQ_OK) << last_error();
        expect_shown(extent.data, extent.bytes, extent.kind, landed++);
        receiver_.release_last(extent.token, 1);
        continue;
      }
      for (std::uint32_t i = 0; i < count; ++i) {
        ASSERT_LT(run[i].bytes, kBufferBytes / 10);
        expect_shown(run[i].data, run[i].bytes, run[i].kind, landed++);
      }
      // Some of a run may be kept, and go back later.
      const std::uint32_t together = count - (round % 3 == 0 ? count / 2 : 0);
      receiver_.release_last(token, together);
      if (together < count) receiver_.release(token, count - together);
    }
    EXPECT_FALSE(land_one());
    lwmq_tli_extent none{};
    EXPECT_EQ(receiver_.land(&none), LWMQ_E_EMPTY);
  }
}

// rows: M03
TEST_F(Lane, ARunOfFramesOfOneSizeEndsWithTheLimitTheBufferAndWhatIsShown) {
  for (const std::uint64_t bytes : {0, 1, 8, 56, 64, 333, 1016, 1023, 1024, 1100}) {
    for (const std::uint32_t limit : {1u, 2u, 5u, 32u, 1000u}) {
      std::uint64_t shown = 0;
      for (show(bytes); ++shown < 100 && buffer_.room > 0 && buffer_.room >= bytes;) show(bytes);
      std::uint64_t landed = 0;
      while (landed < shown) {
        std::array<lwmq_tli_piece, 1000> run{};
        std::uint64_t token[2] = {};
        const std::uint32_t count = land(UINT64_MAX, limit, token, run.data());
        ASSERT_GT(count, 0u) << bytes << " bytes, " << landed << " of " << shown;
        ASSERT_LE(count, limit);
        for (std::uint32_t i = 0; i < count; ++i) {
          ASSERT_EQ(run[i].bytes, bytes);
          ASSERT_EQ(run[i].kind, 5u);
          for (std::uint64_t k = 0; k < bytes; ++k) ASSERT_EQ(run[i].data[k], bytes & 0xff);
        }
        landed += count;
        receiver_.release_last(token, count);
      }
      ASSERT_EQ(landed, shown);
      EXPECT_FALSE(land_one());
      EXPECT_EQ(sender_.unread_extents(), 0u);
    }
  }
}

// Laps have 16 bits: after as many the buffer would be taken for one that the peer has given back.
// rows: M03
TEST_F(Lane, ABufferThatIsAbandonedAgainAndAgainIsNotTakenBackUnread) {
  std::vector<lwmq_tli_buffer> others;
  for (lwmq_tli_buffer buffer{}; sender_.acquire(&buffer) == LWMQ_OK;) others.push_back(buffer);
  for (int turn = 0; turn < 2; ++turn) {
    sender_.abandon(&others.back());
    for (int i = 0; i < 65'535; ++i) {
      ASSERT_EQ(sender_.acquire(&buffer_), LWMQ_OK);
      sender_.abandon(&buffer_);
    }
    ASSERT_EQ(sender_.acquire(&buffer_), LWMQ_OK);
    ASSERT_EQ(sender_.show(&buffer_, 8, 5), LWMQ_OK);
    sender_.ship(&buffer_);
    EXPECT_FALSE(sender_.has_room()) << "the peer has not read it";
    EXPECT_TRUE(land_one());
    EXPECT_FALSE(land_one());  // leaves the buffer
    ASSERT_EQ(sender_.acquire(&others.back()), LWMQ_OK);
  }
}

// A word that is not as the one before is looked at by itself, wherever in a run it lies.
// rows: M03
TEST_F(Lane, ARunOfFramesOfOneSizeEndsBeforeTheWordThatCannotBe) {
  constexpr std::uint64_t kKind = std::uint64_t{0xff} << 40;
  const auto with_kind = [](std::uint64_t word, std::uint64_t kind) { return (word & ~kKind) | kind << 40; };
  for (std::uint32_t wrong = 0; wrong < 9; ++wrong) {
    for (int lie = 0; lie < 6; ++lie) {
      leave_buffer();
      std::vector<std::uint8_t*> words;
      for (int i = 0; i < 9; ++i) {
        show(40);
        words.push_back(last_word_);
      }
      std::uint64_t honest = 0;
      std::memcpy(&honest, words[wrong], sizeof honest);
      const std::uint64_t told[] = {
          honest ^ std::uint64_t{1} << 48,          honest ^ std::uint64_t{1} << 63, with_kind(honest, 0),
          with_kind(honest, LWMQ_TLI_KIND_MAX + 2), with_kind(honest, 254),          honest | 0xffffffffff};
      std::memcpy(words[wrong], &told[lie], sizeof honest);
      std::array<lwmq_tli_piece, 32> run{};
      std::uint64_t token[2] = {};
      EXPECT_EQ(receiver_.land_run(UINT64_MAX, 32, token, run.data()), wrong) << lie;
      if (wrong > 0) receiver_.release_last(token, wrong);
      std::memcpy(words[wrong], &honest, sizeof honest);
      EXPECT_EQ(receiver_.land_run(UINT64_MAX, 32, token, run.data()), 9 - wrong);
      receiver_.release_last(token, 9 - wrong);
    }
  }
}

// Whoever says a word once more where the buffer ends shows nothing of what lies behind it.
// rows: M03
TEST_F(Lane, ARunOfFramesOfOneSizeEndsWithItsBufferWhateverIsSaid) {
  std::uint32_t shown = 0;
  do {
    show(40);
    ++shown;
  } while (buffer_.room >= 40);
  ASSERT_GT(buffer_.room, 0u) << "a word has room";
  std::memcpy(last_word_ + 48, last_word_, 8);
  std::array<lwmq_tli_piece, 1000> run{};
  std::uint64_t token[2] = {};
  EXPECT_EQ(receiver_.land_run(UINT64_MAX, 1000, token, run.data()), shown);
}

// What follows is never an old word, also where a filter above has left the sender less room than there is.
// rows: M03
TEST_F(Lane, NothingOldIsSeenBehindAnExtentThatTheSenderHadNoMoreRoomFor) {
  sender_.use_fresh_buffers_first();
  lwmq_tli_extent extent{};
  for (std::uint32_t i = 0; i < kBuffers; ++i) {
    ASSERT_EQ(sender_.acquire(&buffer_), LWMQ_OK);
    const std::uint64_t room = buffer_.room;
    std::memset(buffer_.next, 0xff, room);
    ASSERT_EQ(sender_.show(&buffer_, room, 5), LWMQ_OK);
    sender_.ship(&buffer_);
    ASSERT_EQ(receiver_.land(&extent), LWMQ_OK);
    receiver_.release_last(extent.token, 1);
    ASSERT_EQ(receiver_.land(&extent), LWMQ_E_EMPTY);
  }
  ASSERT_EQ(sender_.acquire(&buffer_), LWMQ_OK);
  for (const std::uint64_t bytes : {40, 0, 0}) {
    ASSERT_EQ(sender_.show(&buffer_, bytes, 5), LWMQ_OK);
    EXPECT_GT(buffer_.room, 0u);
    buffer_.room = 0;
    ASSERT_EQ(receiver_.land(&extent), LWMQ_OK);
    receiver_.release_last(extent.token, 1);
    EXPECT_EQ(receiver_.land(&extent), LWMQ_E_EMPTY) << last_error();
  }
}

// rows: M03
TEST_F(Lane, ARunEndsBeforeAWordThatCannotBe) {
  show(100);
  show(100);
  std::uint64_t honest = 0;
  std::memcpy(&honest, last_word_, sizeof honest);
  const std::uint64_t told = honest ^ (std::uint64_t{1} << 48);
  std::memcpy(last_word_, &told, sizeof told);
  lwmq_tli_extent extent{};
  ASSERT_EQ(receiver_.land(&extent), LWMQ_OK);
  receiver_.release_last(extent.token, 1);
  EXPECT_FALSE(land_one());
  EXPECT_EQ(receiver_.land(&extent), LWMQ_E_CORRUPT);
  std::memcpy(last_word_, &honest, sizeof honest);
  EXPECT_TRUE(land_one());
}

// rows: M03
TEST_F(Lane, FramesThatAreShownTogetherAreWhatShowWouldHaveMadeOfEach) {
  std::uint64_t shown = 0;
  std::uint64_t landed = 0;
  std::vector<std::string> texts;
  for (int round = 0; round < 2000; ++round) {
    texts.clear();
    std::vector<lwmq_bytes> frames;
    for (std::uint64_t i = 0; i < 1 + static_cast<std::uint64_t>(round) % 9; ++i) {
      const std::uint64_t bytes = (shown + i) * 37 % (kBufferBytes / 5);
      texts.emplace_back(bytes, static_cast<char>(bytes));
    }
    for (const std::string& text : texts) frames.push_back({text.data(), text.size()});
    for (std::uint64_t done = 0; done < frames.size();) {
      std::uint64_t bytes = 0;
      std::uint64_t some = 0;
      if (open_) some = sender_.show_run(&buffer_, &frames[done], frames.size() - done, 5, &bytes);
      if (some == 0) {  // show knows why: there is no room, or no buffer yet
        if (open_) {
          EXPECT_LT(buffer_.room, frames[done].bytes);
        }
        show(frames[done].bytes);
        some = 1;
      } else {
        std::uint64_t expected = 0;
        for (std::uint64_t i = 0; i < some; ++i) expected += frames[done + i].bytes;
        EXPECT_EQ(bytes, expected);
      }
      done += some;
      shown += some;
      EXPECT_EQ(sender_.unread_extents() > 0, true);
      while (landed < shown) {
        lwmq_tli_extent extent{};
        ASSERT_EQ(receiver_.land(&extent), LWMQ_OK) << last_error();
        expect_shown(extent.data, extent.bytes, extent.kind, landed++);
        receiver_.release_last(extent.token, 1);
      }
      lwmq_tli_extent none{};
      ASSERT_EQ(receiver_.land(&none), LWMQ_E_EMPTY) << "nothing old behind it";
    }
  }
}

// rows: M03
TEST_F(Lane, FramesThatAreShownTogetherHaveAKindAndRoom) {
  const lwmq_bytes frames[2] = {{"abc", 3}, {"de", 2}};
  std::uint64_t bytes = 0;
  ASSERT_EQ(sender_.acquire(&buffer_), LWMQ_OK);
  EXPECT_EQ(sender_.show_run(&buffer_, frames, 2, LWMQ_TLI_KIND_MAX + 1, &bytes), 0u);
  EXPECT_EQ(sender_.show_run(&buffer_, frames, 0, 5, &bytes), 0u);
  const std::string large(kBufferBytes, 'x');
  const lwmq_bytes whole[2] = {{large.data(), large.size()}, {"f", 1}};
  EXPECT_EQ(sender_.show_run(&buffer_, whole, 2, 5, &bytes), 1u) << "the second finds no room";
  EXPECT_EQ(bytes, kBufferBytes);
  EXPECT_EQ(sender_.show_run(&buffer_, frames, 2, 5, &bytes), 0u);
  sender_.ship(&buffer_);
}

// Least recently used first: what was read last is in the peer's cache still, and would have to be fetched
// back. What nobody has used is not touched before the peer falls behind: its memory is not there before.
TEST_F(Lane, BuffersAreUsedAgainInTheOrderInWhichTheyWereSentAndNoFreshOneWhileThePeerKeepsUp) {
  constexpr std::uint32_t kFlow = 20 * kBuffers;
  std::vector<std::uint64_t> used;
  const auto send_one = [&] {
    ASSERT_EQ(sender_.acquire(&buffer_), LWMQ_OK);
    used.push_back(index());
    ASSERT_EQ(sender_.show(&buffer_, 10, 5), LWMQ_OK);
    sender_.ship(&buffer_);
  };
  const auto read_one = [&] {
    lwmq_tli_extent extent{};
    ASSERT_EQ(receiver_.land(&extent), LWMQ_OK);
    receiver_.release_last(extent.token, 1);
  };
  lwmq_tli_extent none{};
  for (std::uint32_t i = 0; i < kFlow; ++i) {
    send_one();
    read_one();
    EXPECT_EQ(receiver_.land(&none), LWMQ_E_EMPTY);  // leaves the buffer
    EXPECT_EQ(sender_.free_buffers(), kBuffers);
  }
  EXPECT_EQ(std::set(used.begin(), used.end()).size(), 1u);
  used.clear();
  for (std::uint32_t i = 0; i < kBuffers; ++i) send_one();
  read_one();
  for (std::uint32_t i = 0; i < kFlow; ++i) {
    read_one();  // leaves the buffer before
    send_one();
  }
  EXPECT_EQ(std::set(used.begin(), used.end()).size(), kBuffers);
  for (std::uint32_t i = kBuffers; i < used.size(); ++i) EXPECT_EQ(used[i], used[i - kBuffers]) << i;
}

TEST_F(Lane, AllBuffersAreUsedBeforeAnyIsUsedAgainWhereThatIsSaid) {
  sender_.use_fresh_buffers_first();
  for (std::uint32_t i = 0; i < 5 * kBuffers; ++i) {
    ASSERT_EQ(sender_.acquire(&buffer_), LWMQ_OK);
    EXPECT_EQ(index(), i % kBuffers);
    ASSERT_EQ(sender_.show(&buffer_, 10, 5), LWMQ_OK);
    sender_.ship(&buffer_);
    lwmq_tli_extent extent{};
    ASSERT_EQ(receiver_.land(&extent), LWMQ_OK);
    receiver_.release_last(extent.token, 1);
    EXPECT_EQ(receiver_.land(&extent), LWMQ_E_EMPTY);
  }
}

// A peer that takes nothing is no reason to keep a buffer back.
TEST_F(Lane, EveryBufferIsLentWhileThePeerHoldsTheOthers) {
  std::set<std::uint64_t> ever;
  for (std::uint32_t i = 0; i < kBuffers; ++i) {
    EXPECT_TRUE(sender_.has_room());
    ASSERT_EQ(sender_.acquire(&buffer_), LWMQ_OK);
    ever.insert(index());
    ASSERT_EQ(sender_.show(&buffer_, 10, 5), LWMQ_OK);
    sender_.ship(&buffer_);
  }
  EXPECT_EQ(ever.size(), kBuffers);
  EXPECT_FALSE(sender_.has_room());
  EXPECT_EQ(sender_.acquire(&buffer_), LWMQ_E_FULL);
}

class LaneOfLargeBuffers : public Lane {
 protected:
  LaneOfLargeBuffers() : Lane(16384) {}
};

TEST_F(LaneOfLargeBuffers, FramesThatAreShownTogetherDoNotWaitForALargeOne) {
  const std::string large(8000, 'y');
  const lwmq_bytes frames[4] = {{"g", 1}, {"h", 1}, {large.data(), large.size()}, {"i", 1}};
  std::uint64_t bytes = 0;
  ASSERT_EQ(sender_.acquire(&buffer_), LWMQ_OK);
  EXPECT_EQ(sender_.show_run(&buffer_, frames, 4, 5, &bytes), 2u);
  EXPECT_EQ(sender_.show_run(&buffer_, &frames[2], 2, 5, &bytes), 1u);
  EXPECT_EQ(sender_.show_run(&buffer_, &frames[3], 1, 5, &bytes), 1u);
  sender_.ship(&buffer_);
  for (const lwmq_bytes& frame : frames) {
    lwmq_tli_extent extent{};
    ASSERT_EQ(receiver_.land(&extent), LWMQ_OK);
    EXPECT_EQ(extent.bytes, frame.bytes);
    receiver_.release_last(extent.token, 1);
  }
}

// Who reads a run has to fetch each word of it.
TEST_F(LaneOfLargeBuffers, ARunOfFramesOfOneSizeIsOfSoManyBytes) {
  for (int i = 0; i < 200; ++i) show(64);
  std::array<lwmq_tli_piece, 200> run{};
  std::uint64_t token[2] = {};
  EXPECT_EQ(receiver_.land_run(UINT64_MAX, 200, token, run.data()), 4096u / (64 + 8) + 1);
}

// rows: M03
TEST_F(Lane, AWordThatCannotBeIsCorruptWhicheverPartOfItLies) {
  const std::uint64_t lies[] = {
      (std::uint64_t{1} << 40) - 1,  // a length beyond the buffer
      std::uint64_t{0xff} << 40,     // kind: the end of a buffer is no kind of an extent, with this lap
      std::uint64_t{0x80} << 40,     // a kind beyond the last
      std::uint64_t{1} << 48,        // another lap
      std::uint64_t{0x8000} << 48,
  };
  for (const std::uint64_t lie : lies) {
    show(100);
    std::uint64_t honest = 0;
    std::memcpy(&honest, last_word_, sizeof honest);
    const std::uint64_t told = honest ^ lie;
    std::memcpy(last_word_, &told, sizeof told);
    lwmq_tli_extent extent{};
    const Status status = receiver_.land(&extent);
    if (status != LWMQ_OK) {
      EXPECT_EQ(status, LWMQ_E_CORRUPT) << std::hex << told;
      EXPECT_NE(std::string(last_error()).find("the peer shows an extent"), std::string::npos);
    } else {
      ADD_FAILURE() << "believed " << std::hex << told;
    }
    std::memcpy(last_word_, &honest, sizeof honest);
    ASSERT_EQ(receiver_.land(&extent), LWMQ_OK);
    receiver_.release_last(extent.token, 1);
  }
}

// rows: M03
TEST_F(Lane, ABufferThatDoesNotExistOrIsOpenTwiceIsCorrupt) {
  show(100);
  auto* order = reinterpret_cast<std::uint64_t*>(sending_.get() + SideLayout::kOrderOffset);
  const std::uint64_t honest = order[0];
  order[0] = (honest & ~std::uint64_t{0xffff}) | (kBuffers + 1);
  lwmq_tli_extent extent{};
  EXPECT_EQ(receiver_.land(&extent), LWMQ_E_CORRUPT);
  EXPECT_NE(std::string(last_error()).find("buffer 3 of 3, which does not exist"), std::string::npos);
  order[0] = honest;
  ASSERT_EQ(receiver_.land(&extent), LWMQ_OK);
  sender_.ship(&buffer_);
  order[2] = honest + (std::uint64_t{1} << 32);
  lwmq_tli_extent second{};
  EXPECT_EQ(receiver_.land(&second), LWMQ_E_CORRUPT) << "its first extent is still in our hands";
  EXPECT_NE(std::string(last_error()).find("is still in our hands"), std::string::npos);
}

// ---- Buffers that are handed over whole

// rows: L14 L16
TEST_F(Lane, ABufferHandedOverWholeComesAndGoesBackLikeAnyOther) {
  lwmq_tli_extent held{};
  for (std::uint32_t round = 0; round < 4 * kBuffers; ++round) {
    SCOPED_TRACE(round);
    const std::uint64_t bytes = round % 3 == 0 ? 0 : round % 3 == 1 ? 100 : kBufferBytes;
    ASSERT_EQ(sender_.acquire(&buffer_), LWMQ_OK);
    std::memset(buffer_.next, static_cast<int>('a' + round), bytes);
    ASSERT_EQ(sender_.ship_only(&buffer_, bytes, round % 2), LWMQ_OK);
    if (round % 4 == 3) {  // one with words of its own behind it
      show(8);
      sender_.ship(&buffer_);
      open_ = false;
    }
    lwmq_tli_extent extent{};
    ASSERT_TRUE(receiver_.has_extent());
    ASSERT_EQ(receiver_.land(&extent), LWMQ_OK) << last_error();
    EXPECT_EQ(extent.bytes, bytes);
    EXPECT_EQ(extent.kind, round % 2);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(extent.data), bytes),
              std::string(bytes, static_cast<char>('a' + round)));
    if (round > 0) receiver_.release(held.token, 1);  // one is always in our hands
    held = extent;
    if (round % 4 == 3) {
      ASSERT_EQ(receiver_.land(&extent), LWMQ_OK);
      receiver_.release_last(extent.token, 1);
    }
    EXPECT_EQ(receiver_.land(&extent), LWMQ_E_EMPTY);
    EXPECT_EQ(sender_.free_buffers(), kBuffers - 1);
    EXPECT_EQ(sender_.unread_extents(), 1u);
  }
  receiver_.release_last(held.token, 1);
  EXPECT_EQ(sender_.free_buffers(), kBuffers);
  EXPECT_EQ(sender_.unread_extents(), 0u);
}

TEST_F(Lane, ABufferThatCannotBeHandedOverIsShippedEmpty) {
  ASSERT_EQ(sender_.acquire(&buffer_), LWMQ_OK);
  EXPECT_EQ(sender_.ship_only(&buffer_, kBufferBytes + kCacheLine + 1, 0), LWMQ_E_TOO_BIG);
  EXPECT_NE(std::strstr(last_error(), "has room for 4096"), nullptr) << last_error();
  lwmq_tli_extent extent{};
  EXPECT_EQ(receiver_.land(&extent), LWMQ_E_EMPTY);
  EXPECT_EQ(sender_.free_buffers(), kBuffers);
}

class LaneOfLies : public Lane, public testing::WithParamInterface<std::uint64_t> {};

// rows: M03
TEST_P(LaneOfLies, AnOnlyExtentThatCannotBeIsCorrupt) {
  ASSERT_EQ(sender_.acquire(&buffer_), LWMQ_OK);
  ASSERT_EQ(sender_.ship_only(&buffer_, 100, 0), LWMQ_OK);
  auto* only = reinterpret_cast<std::uint64_t*>(sending_.get() + SideLayout::kOrderOffset) + 1;
  *only ^= GetParam();
  lwmq_tli_extent extent{};
  EXPECT_EQ(receiver_.land(&extent), LWMQ_E_CORRUPT);
  EXPECT_NE(std::string(last_error()).find("the peer shows an extent"), std::string::npos) << last_error();
}

INSTANTIATE_TEST_SUITE_P(Word, LaneOfLies,
                         testing::Values((std::uint64_t{1} << 40) - 1,  // beyond the buffer
                                         std::uint64_t{0xfe} << 40,     // no kind, but the end of a buffer
                                         std::uint64_t{0x80} << 40,     // a kind beyond the last
                                         std::uint64_t{1} << 48));      // another lap

// rows: M03
TEST_F(Lane, ABufferHandedOverTwiceIsCorruptWhileItIsInOurHands) {
  ASSERT_EQ(sender_.acquire(&buffer_), LWMQ_OK);
  ASSERT_EQ(sender_.ship_only(&buffer_, 100, 0), LWMQ_OK);
  auto* order = reinterpret_cast<std::uint64_t*>(sending_.get() + SideLayout::kOrderOffset);
  lwmq_tli_extent extent{};
  ASSERT_EQ(receiver_.land(&extent), LWMQ_OK);
  order[2] = order[0] + (std::uint64_t{1} << 32);
  order[3] = order[1];
  lwmq_tli_extent second{};
  EXPECT_EQ(receiver_.land(&second), LWMQ_E_CORRUPT);
  EXPECT_NE(std::string(last_error()).find("is still in our hands"), std::string::npos) << last_error();
}

}  // namespace
}  // namespace lwmq::lane
