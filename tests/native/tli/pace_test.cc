// When a reader holds back, and when not. Seconds do not count here: whether it pauses is what we see.
#include "tli/pace.h"

#include <gtest/gtest.h>

namespace lwmq::tli {
namespace {

// rows: Z08
TEST(Pace, NeverHoldsWhoGetsOneMessageAtATime) {
  Pace pace;
  for (int i = 0; i < 10'000; ++i) {
    pace.landed(1);
    pace.hold();
    ASSERT_EQ(pace.pauses(), 0u);
  }
}

TEST(Pace, HoldsLongerWhileTheRunsGrowAndNotAtAllOnceTheyAreShort) {
  Pace pace;
  std::uint32_t longest = 0;
  for (int i = 0; i < 20; ++i) {
    pace.landed(50);
    pace.hold();
    EXPECT_GE(pace.pauses(), longest);
    longest = pace.pauses();
  }
  EXPECT_EQ(longest, Pace::kPausesMax);
  pace.landed(1);
  pace.hold();
  EXPECT_EQ(pace.pauses(), 0u);
}

// Pairs of messages that are answered come in runs of two for ever: what does not pay is tried ever less.
TEST(Pace, TriesLessAndLessWhereItDoesNotPay) {
  Pace pace;
  int held[2] = {};
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 5000; ++i) {
      pace.landed(2);
      pace.hold();
      held[half] += pace.pauses() > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(held[0], 0);
  EXPECT_LE(held[1], 5);
}

}  // namespace
}  // namespace lwmq::tli
