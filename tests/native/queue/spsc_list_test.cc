// links: base os queue
#include "queue/spsc_list.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lwmq::queue {
namespace {

TEST(SpscList, ShowsNothingWhenEmpty) {
  SpscList<int> list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.front(), nullptr);
  EXPECT_EQ(list.chunk_count(), 0u) << "a queue that was never used costs nothing";
}

TEST(SpscList, ReturnsWhatWasPushedInOrder) {
  SpscList<int, 4> list;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(list.try_push(i));
  EXPECT_EQ(list.size(), 100u);
  for (int i = 0; i < 100; ++i) {
    ASSERT_NE(list.front(), nullptr);
    EXPECT_EQ(*list.front(), i);
    EXPECT_EQ(*list.front(), i) << "asking twice changes nothing";
    list.pop();
  }
  EXPECT_EQ(list.front(), nullptr);
  EXPECT_TRUE(list.empty());
}

TEST(SpscList, TakesAFrontThatLiesAtTheStartOfAChunkTwice) {
  SpscList<int, 2> list;
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(list.try_push(i));
  for (int i = 0; i < 6; ++i) {
    for (int again = 0; again < 3; ++again) ASSERT_EQ(*list.front(), i);
    list.pop();
  }
}

TEST(SpscList, ReusesItsChunksWhileItMoves) {
  SpscList<int, 4, 4> list;
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(list.try_push(i));
  const std::size_t before = list.chunk_count();
  for (int i = 8; i < 10000; ++i) {
    ASSERT_NE(list.front(), nullptr);
    list.pop();
    ASSERT_TRUE(list.try_push(i));
  }
  EXPECT_LE(list.chunk_count(), before + 2);
}

// rows: M18
TEST(SpscList, GivesMemoryBackAfterABurst) {
  SpscList<int, 4, 2> list;
  for (int i = 0; i < 4000; ++i) ASSERT_TRUE(list.try_push(i));
  EXPECT_GE(list.chunk_count(), 1000u);
  while (list.front() != nullptr) list.pop();
  EXPECT_LE(list.chunk_count(), 3u) << "two spare ones and the one in use";
}

// rows: L43 K20
TEST(SpscList, BringsEverythingAcrossTwoThreads) {
  constexpr int kItems = 300000;
  SpscList<int, 64> list;
  std::thread producer([&] {
    for (int i = 0; i < kItems; ++i) {
      while (!list.try_push(i)) std::this_thread::yield();
    }
  });
  for (int i = 0; i < kItems;) {
    const int* item = list.front();
    if (item == nullptr) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(*item, i);
    list.pop();
    ++i;
  }
  producer.join();
  EXPECT_TRUE(list.empty());
}

// Thread i writes the pipes of row i and reads those of column i, and nothing else is shared.
// rows: K19 K20 Z17
TEST(SpscList, MakesAMatrixOfPipesBetweenAllThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 20000;
  SpscList<int, 64> pipes[kThreads][kThreads];
  std::vector<std::thread> threads;
  for (int me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      int sent[kThreads] = {};
      int received[kThreads] = {};
      for (int open = 2 * kThreads; open > 0;) {
        open = 0;
        for (int other = 0; other < kThreads; ++other) {
          if (sent[other] < kEach) {
            if (pipes[me][other].try_push(me * kEach + sent[other])) ++sent[other];
            ++open;
          }
          if (received[other] == kEach) continue;
          ++open;
          const int* item = pipes[other][me].front();
          if (item == nullptr) continue;
          ASSERT_EQ(*item, other * kEach + received[other]++);
          pipes[other][me].pop();
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& row : pipes) {
    for (const auto& pipe : row) EXPECT_TRUE(pipe.empty());
  }
}

}  // namespace
}  // namespace lwmq::queue
