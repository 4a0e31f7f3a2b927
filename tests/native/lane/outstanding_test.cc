// Who has the last of what a closed transport has lent.
#include "lane/outstanding.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace lwmq::lane {
namespace {

TEST(Outstanding, EndsAtTheCloseWhereAllHasComeBack) {
  Outstanding outstanding;
  outstanding.landed(3);
  outstanding.released_last(1);
  EXPECT_FALSE(outstanding.came_back(2));
  EXPECT_TRUE(outstanding.close(0));
}

TEST(Outstanding, EndsWithTheLastBehindTheClose) {
  Outstanding outstanding;
  outstanding.landed(2);
  EXPECT_FALSE(outstanding.keeps_lent());
  EXPECT_FALSE(outstanding.close(1));
  EXPECT_TRUE(outstanding.keeps_lent());
  EXPECT_FALSE(outstanding.came_back(0));
  EXPECT_FALSE(outstanding.came_back(2));
  EXPECT_FALSE(outstanding.came_back(0));
  EXPECT_TRUE(outstanding.came_back(1));
}

TEST(Outstanding, EndsOnceWhoeverIsLast) {
  for (int round = 0; round < 200; ++round) {
    Outstanding outstanding;
    outstanding.landed(2);
    std::atomic<int> ends{0};
    const auto give_back = [&] {
      if (outstanding.came_back(1)) ends.fetch_add(1);
    };
    std::thread one(give_back);
    std::thread other(give_back);
    if (outstanding.close(0)) ends.fetch_add(1);
    one.join();
    other.join();
    ASSERT_EQ(ends.load(), 1);
  }
}

}  // namespace
}  // namespace lwmq::lane
