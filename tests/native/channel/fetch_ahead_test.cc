// When the next run is asked for, and when not.
#include "channel/fetch_ahead.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lwmq::channel {
namespace {

constexpr std::uint64_t kRunBytes = 4096;

// `runs` full ones, then nothing: for how many of them the next one was asked for.
int series(FetchAhead& ahead, int runs) {
  int asked = 0;
  for (int i = 0; i < runs; ++i) {
    ahead.begin_run(kRunBytes, true);
    if (ahead.distance() != 0) ++asked;
  }
  ahead.caught_up();
  return asked;
}

TEST(FetchAhead, AsksForWhatLiesARunAhead) {
  FetchAhead ahead;
  series(ahead, 3);
  ahead.begin_run(kRunBytes, true);
  EXPECT_EQ(ahead.distance(), kRunBytes);
}

TEST(FetchAhead, AsksForNothingBehindTheLastRunOfASeriesAsLongAsTheOneBefore) {
  FetchAhead ahead;
  series(ahead, 10);
  EXPECT_EQ(series(ahead, 10), 9);
  EXPECT_EQ(series(ahead, 10), 9);
  EXPECT_EQ(series(ahead, 3), 3) << "one that ends early has told of too much once";
  EXPECT_EQ(series(ahead, 3), 2);
}

TEST(FetchAhead, LeavesTheLinesOfAWriterAloneThatItChases) {
  FetchAhead ahead;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(series(ahead, 1), 0);
}

TEST(FetchAhead, ExpectsMoreBehindAFloodWhateverCameBefore) {
  FetchAhead ahead;
  series(ahead, 2);
  constexpr int kRuns = 1000;
  EXPECT_GT(series(ahead, kRuns), kRuns - 20);
}

TEST(FetchAhead, AsksForNothingBehindARunThatIsNotFull) {
  FetchAhead ahead;
  series(ahead, 10);
  ahead.begin_run(kRunBytes, true);
  ahead.begin_run(kRunBytes / 4, false);
  EXPECT_EQ(ahead.distance(), 0u);
  ahead.begin_run(kRunBytes, true);
  EXPECT_EQ(ahead.distance(), kRunBytes) << "the end of a buffer is not the end of a series";
}

// Never more than a run ahead, which may lie behind all that is mapped: that is only a hint.
TEST(FetchAhead, PassesBytesAtTheEndOfMemory) {
  FetchAhead ahead;
  series(ahead, 10);
  ahead.begin_run(kRunBytes, true);
  const std::uint8_t last = 0;
  ahead.pass(&last, 1);
  ahead.pass(nullptr, 0);
}

}  // namespace
}  // namespace lwmq::channel
