// When a reader holds back, and when not. Seconds do not count here: whether it pauses is what we see.
#include "lane/pace.h"

#include <gtest/gtest.h>

#include <utility>

namespace lwmq::lane {
namespace {

bool nothing() { return false; }

// rows: Z08
TEST(Pace, NeverHoldsWhoGetsOneMessageAtATime) {
  Pace pace;
  for (int i = 0; i < 10'000; ++i) {
    pace.landed(1);
    pace.hold(nothing);
    ASSERT_EQ(pace.pauses(), 0u);
  }
}

TEST(Pace, HoldsLongerWhileTheRunsGrowAndNotAtAllOnceTheyAreShort) {
  Pace pace;
  std::uint32_t longest = 0;
  for (int i = 0; i < 20; ++i) {
    pace.landed(50);
    pace.hold(nothing);
    EXPECT_GE(pace.pauses(), longest);
    longest = pace.pauses();
  }
  EXPECT_EQ(longest, Pace::kPausesMax);
  pace.landed(1);
  pace.hold(nothing);
  EXPECT_EQ(pace.pauses(), 0u);
}

// Behind a flood it looks now and then whether more has come, and goes on only then.
TEST(Pace, HoldsOnBehindAFloodWhileMoreOfItComes) {
  Pace pace;
  pace.init(true, kMiB);
  int looks = 0;
  const auto flood = [&looks] { return ++looks > 0; };
  const auto fall_behind = [&](std::uint32_t run) {
    looks = 0;
    pace.landed(run);
    pace.hold(flood);
    return looks;
  };
  for (int i = 0; i < 20; ++i) EXPECT_EQ(fall_behind(10), 0) << "no flood";
  EXPECT_EQ(pace.pauses(), Pace::kPausesMax);
  for (int i = 0; i < 20; ++i) fall_behind(50);
  EXPECT_EQ(pace.slices(), Pace::kSlicesMax);
  EXPECT_EQ(fall_behind(50), static_cast<int>(Pace::kSlicesMax) - 1);
  int asked = 0;
  pace.landed(50);
  pace.hold([&asked] { return ++asked == 0; });
  EXPECT_EQ(asked, 1) << "nothing more has come";
  EXPECT_EQ(fall_behind(10), 0);
  EXPECT_EQ(pace.slices(), 1u);
}

// The writer would wait for us, and not we for it.
TEST(Pace, NeverHoldsOnWhereARingIsSmallOrBuffersAreHandedOver) {
  for (const auto& [messages, ring_bytes] : {std::pair{true, 64 * kKiB}, std::pair{false, kMiB}}) {
    Pace pace;
    pace.init(messages, ring_bytes);
    int looks = 0;
    for (int i = 0; i < 40; ++i) {
      pace.landed(50);
      pace.hold([&looks] { return ++looks > 0; });
    }
    EXPECT_EQ(pace.pauses(), Pace::kPausesMax);
    EXPECT_EQ(looks, 0);
  }
}

// Who chases has landed three when it holds back: one that it waited for, and two runs of one.
TEST(Pace, DoesNotPayWhereNoMoreCameThanWhoeverChasesHasLandedAnyway) {
  Pace pace;
  int held = 0;
  for (int i = 0; i < 5000; ++i) {
    pace.landed(3);
    pace.hold(nothing);
    held += pace.pauses() > 0 ? 1 : 0;
  }
  EXPECT_LE(held, 15);
}

// Pairs of messages that are answered come in runs of two for ever: what does not pay is tried ever less.
TEST(Pace, TriesLessAndLessWhereItDoesNotPay) {
  Pace pace;
  int held[2] = {};
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 5000; ++i) {
      pace.landed(2);
      pace.hold(nothing);
      held[half] += pace.pauses() > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(held[0], 0);
  EXPECT_LE(held[1], 5);
}

}  // namespace
}  // namespace lwmq::lane
