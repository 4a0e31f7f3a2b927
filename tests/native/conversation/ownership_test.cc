// links: base os stats queue tli
// Who may touch one half of a channel: never two threads at once, with a home thread and without.
#include "conversation/ownership.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lwmq::conversation {
namespace {

class OwnershipOf : public ::testing::TestWithParam<bool> {};

// rows: K14
TEST_P(OwnershipOf, ManyThreadsIsNeverTwosAndIsAlwaysFreeAgain) {
  constexpr int kTurns = 20000;
  constexpr int kGuests = 3;
  Ownership ownership;
  std::uint64_t first = 0;  // both plain: two holders at once lose a count, and a sanitizer sees them
  std::uint64_t second = 0;
  std::atomic<int> working{kGuests + 1};
  const auto work = [&](int handing_over) {
    for (int turn = 0; turn < kTurns;) {
      if (!ownership.try_take()) {
        sched_yield();
        continue;
      }
      ++first;
      ASSERT_EQ(first, ++second);
      ++turn;
      if (handing_over != 0 && turn % handing_over == 0) {
        ownership.hand_over();
      } else {
        ownership.release();
      }
    }
    --working;
  };
  if (GetParam()) ownership.make_home();
  EXPECT_EQ(ownership.is_home(), GetParam());
  std::vector<std::thread> threads;
  for (int i = 0; i < kGuests; ++i) threads.emplace_back(work, i == 0 ? 7 : 0);
  std::atomic<std::uint64_t> adopted{0};
  threads.emplace_back([&] {
    while (working.load() > 0) {
      if (!ownership.adopt()) {
        sched_yield();
        continue;
      }
      ++first;
      ++second;
      ++adopted;
      ownership.release();
    }
  });
  work(5);
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(ownership.may_be_free() || ownership.adopt());
  EXPECT_EQ(first, second);
  EXPECT_EQ(first, std::uint64_t{kTurns} * (kGuests + 1) + adopted);
  EXPECT_GT(adopted, 0u);
}

INSTANTIATE_TEST_SUITE_P(HomeThread, OwnershipOf, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "With" : "Without"; });

}  // namespace
}  // namespace lwmq::conversation
