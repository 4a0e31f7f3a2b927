// rows: L51
#include "reliability/merge.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lwmq::reliability {
namespace {

constexpr std::uint64_t kQueue = 7;

// Two ways to one peer, whose messages are "queue:place".
struct MergeOfTwo : testing::Test {
  void bring(std::size_t way, std::uint64_t place, std::uint64_t queue = kQueue) {
    ASSERT_FALSE(merge.holds(way));
    const std::string text = std::to_string(queue) + ":" + std::to_string(place);
    Message* message = Message::copy_of(text.data(), text.size());
    ASSERT_EQ(message->put_number({queue, place}), LWMQ_OK);
    merge.put(way, message, now_ns);
  }
  std::vector<std::string> taken() {
    std::vector<std::string> texts;
    while (Message* message = merge.take(sources, now_ns)) {
      EXPECT_EQ(message->frame_count(), 1u);
      EXPECT_FALSE(message->is_numbered());
      const Frame& frame = message->frames()[0];
      texts.emplace_back(reinterpret_cast<const char*>(frame.data), frame.bytes);
      Message::destroy(message);
    }
    return texts;
  }

  using Texts = std::vector<std::string>;
  Merge merge;
  std::int64_t now_ns = 1'000'000'000;
  std::uint64_t sources = 0b11;
};

TEST_F(MergeOfTwo, GivesOutEachOnceInItsOrder) {
  bring(0, 1);
  EXPECT_EQ(taken(), Texts{"7:1"});
  bring(1, 1);
  EXPECT_EQ(taken(), Texts{});
  bring(1, 2);
  EXPECT_EQ(taken(), Texts{"7:2"});
  bring(0, 2);
  EXPECT_EQ(taken(), Texts{});
  EXPECT_EQ(merge.duplicates(), 2u);
  EXPECT_EQ(merge.holds_until(), INT64_MAX);
}

TEST_F(MergeOfTwo, KeepsAQueueApartFromAnother) {
  bring(0, 1, 1);
  bring(1, 1, 2);
  EXPECT_EQ(taken(), (Texts{"1:1", "2:1"}));
  EXPECT_EQ(merge.duplicates(), 0u);
}

TEST_F(MergeOfTwo, WaitsForWhatTheOtherWayMayBring) {
  bring(0, 1);
  EXPECT_EQ(taken(), Texts{"7:1"});
  bring(0, 4);
  EXPECT_EQ(taken(), Texts{});
  for (std::uint64_t place : {1, 2, 3}) {
    bring(1, place);
    EXPECT_EQ(taken(), place == 3 ? (Texts{"7:3", "7:4"}) : place == 2 ? Texts{"7:2"} : Texts{}) << place;
  }
  bring(1, 4);
  EXPECT_EQ(taken(), Texts{});
  EXPECT_EQ(merge.duplicates(), 2u);
}

TEST_F(MergeOfTwo, DoesNotWaitForAWayThatIsDown) {
  sources = 0b01;
  bring(0, 5);
  EXPECT_EQ(taken(), Texts{"7:5"});
}

TEST_F(MergeOfTwo, DoesNotWaitForWhatBothHaveLost) {
  bring(1, 6);
  EXPECT_EQ(taken(), Texts{});
  bring(0, 5);
  EXPECT_EQ(taken(), (Texts{"7:5", "7:6"}));
}

TEST_F(MergeOfTwo, GoesOnBehindAGapAfterAWhile) {
  bring(0, 3);
  EXPECT_EQ(merge.holds_until(), now_ns + Merge::kGapWaitNs);
  now_ns += Merge::kGapWaitNs - 1;
  EXPECT_EQ(taken(), Texts{});
  ++now_ns;
  EXPECT_EQ(taken(), Texts{"7:3"});
  bring(1, 2);  // too late
  EXPECT_EQ(taken(), Texts{});
  EXPECT_EQ(merge.duplicates(), 1u);
}

// A peer that begins again and again cannot make us remember more and more.
TEST_F(MergeOfTwo, ForgetsTheOldestOfTooManyQueues) {
  for (std::uint64_t queue = 1; queue <= kNumberedQueuesMax; ++queue) {
    bring(0, 1, queue);
    ASSERT_EQ(taken().size(), 1u);
  }
  bring(1, 1, 1);
  EXPECT_EQ(taken().size(), 0u);
  bring(0, 1, kNumberedQueuesMax + 1);
  EXPECT_EQ(taken().size(), 1u);
  bring(1, 1, 1);  // forgotten: as if new
  EXPECT_EQ(taken().size(), 1u);
  bring(1, 1, 3);
  EXPECT_EQ(taken().size(), 0u);
}

}  // namespace
}  // namespace lwmq::reliability
