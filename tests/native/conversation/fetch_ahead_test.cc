// When the next run is asked for, and when not.
#include "conversation/fetch_ahead.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lwmq::conversation {
namespace {

constexpr std::uint64_t kRunBytes = 4096;

// `runs` full ones, then nothing, which a receive that waits sees twice: for how many of them the next one
// was asked for.
int series(FetchAhead& ahead, int runs) {
  int asked = 0;
  for (int i = 0; i < runs; ++i) {
    ahead.begin_run(kRunBytes, true);
    if (ahead.distance() != 0) ++asked;
  }
  ahead.caught_up();
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

// It is only a hint: what lies a run ahead may be mapped by nobody, and addresses may come to their end.
TEST(FetchAhead, PassesBytesAtTheEndOfMemory) {
  FetchAhead ahead;
  series(ahead, 10);
  ahead.begin_run(kRunBytes, true);
  for (const std::uintptr_t before_end : {std::uintptr_t{1}, std::uintptr_t{64}, std::uintptr_t{kRunBytes}})
    ahead.pass(reinterpret_cast<const void*>(std::uintptr_t{0} - before_end), 200);
  ahead.pass(nullptr, 0);
}

}  // namespace
}  // namespace lwmq::conversation
