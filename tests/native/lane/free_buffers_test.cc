#include "lane/free_buffers.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace lwmq::lane {
namespace {

constexpr std::uint32_t kBuffers = 32;
constexpr std::uint32_t kCirculating = FreeBuffers::kCirculatingBytes / kMiB;

constexpr std::uint32_t kBehind = 2;  // buffers that a peer has not read which does not keep up

// `count` times: takes one and gives it back. Which ones.
std::set<std::uint32_t> flow(FreeBuffers& buffers, int count, std::uint32_t unread = kBehind) {
  std::set<std::uint32_t> used;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t index = buffers.take(unread);
    used.insert(index);
    buffers.put(index);
  }
  return used;
}

TEST(FreeBuffers, NoMoreCirculateThanACacheHolds) {
  FreeBuffers buffers;
  ASSERT_TRUE(buffers.init(kBuffers, kMiB));
  EXPECT_EQ(flow(buffers, 1000).size(), kCirculating);
  EXPECT_EQ(buffers.fresh(), kCirculating);
  EXPECT_EQ(buffers.count(), kBuffers);
}

TEST(FreeBuffers, ThoseThatASlowPeerMadeNecessaryLieIdleAfterwards) {
  FreeBuffers buffers;
  ASSERT_TRUE(buffers.init(kBuffers, kMiB));
  std::vector<std::uint32_t> held;
  while (buffers.has_any()) held.push_back(buffers.take(kBehind));
  EXPECT_EQ(std::set(held.begin(), held.end()).size(), kBuffers) << "each one once";
  for (const std::uint32_t index : held) buffers.put(index);
  EXPECT_EQ(flow(buffers, 1000), std::set(held.end() - kCirculating, held.end()))
      << "the last that came back";
  held.clear();
  while (buffers.has_any()) held.push_back(buffers.take(kBehind));
  EXPECT_EQ(std::set(held.begin(), held.end()).size(), kBuffers) << "the idle ones are there when needed";
}

TEST(FreeBuffers, ThreeCirculateHoweverLargeTheyAre) {
  FreeBuffers buffers;
  ASSERT_TRUE(buffers.init(kBuffers, kGiB));
  EXPECT_EQ(flow(buffers, 1000).size(), FreeBuffers::kFewest);
  FreeBuffers two;
  ASSERT_TRUE(two.init(2, kGiB));
  EXPECT_EQ(flow(two, 1000).size(), 2u) << "where there are as many";
}

TEST(FreeBuffers, FreshOnesComeNowAndThenOrFirst) {
  FreeBuffers buffers;
  ASSERT_TRUE(buffers.init(kBuffers, kKiB));
  EXPECT_EQ(flow(buffers, 9).size(), 2u);
  buffers.use_fresh_first();
  EXPECT_EQ(flow(buffers, kBuffers, 0).size(), kBuffers);
}

// Who asks and waits for the answer touches no page for the first time again and again: that costs
// microseconds.
TEST(FreeBuffers, NoFreshOneComesWhileThePeerKeepsUp) {
  FreeBuffers buffers;
  ASSERT_TRUE(buffers.init(kBuffers, kKiB));
  EXPECT_EQ(flow(buffers, 1000, 1).size(), 1u);
  EXPECT_EQ(flow(buffers, 1000).size(), kBuffers) << "once it does not";
}

}  // namespace
}  // namespace lwmq::lane
