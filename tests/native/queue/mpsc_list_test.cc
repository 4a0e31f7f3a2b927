// links: base os queue
#include "queue/mpsc_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "seed.h"

namespace lwmq::queue {
namespace {

struct Item {
  int value = 0;
  Item* next = nullptr;
};

TEST(MpscList, ReturnsWhatWasPushedInOrder) {
  MpscList<Item> list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.front(), nullptr);
  std::vector<Item> items(10);
  for (int i = 0; i < 10; ++i) items[i].value = i;
  for (int i = 0; i < 5; ++i) list.push(&items[i]);
  EXPECT_EQ(list.front(), &items[0]);
  for (int i = 5; i < 10; ++i) list.push(&items[i]);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(list.size(), 10u - i);
    EXPECT_FALSE(list.empty());
    ASSERT_EQ(list.front(), &items[i]);
    ASSERT_EQ(list.front(), &items[i]) << "asking twice changes nothing";
    list.pop();
  }
  EXPECT_EQ(list.front(), nullptr);
  EXPECT_TRUE(list.empty());
}

// rows: L44
TEST(MpscList, TakesAChainByOneSwap) {
  MpscList<Item> list;
  std::vector<Item> items(4);
  list.push(&items[0]);
  items[3].next = &items[2];
  items[2].next = &items[1];
  list.push_chain(&items[3], &items[1], 3);
  for (Item& item : items) {
    ASSERT_EQ(list.front(), &item);
    list.pop();
  }
  EXPECT_EQ(list.pushed(), 4u);
}

// rows: L44
TEST(MpscList, KeepsTheOrderOfEachOfManyProducersAndLosesNothing) {
  constexpr int kThreads = 4;
  constexpr int kEach = 100000;
  MpscList<Item> list;
  std::vector<std::vector<Item>> items(kThreads, std::vector<Item>(kEach));
  std::vector<std::thread> producers;
  for (int t = 0; t < kThreads; ++t) {
    producers.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        items[t][i].value = t * kEach + i;
        list.push(&items[t][i]);
      }
    });
  }
  std::vector<int> next(kThreads, 0);
  for (int taken = 0; taken < kThreads * kEach;) {
    const Item* item = list.front();
    if (item == nullptr) {
      std::this_thread::yield();
      continue;
    }
    const int thread = item->value / kEach;
    ASSERT_EQ(item->value % kEach, next[thread]++);
    list.pop();
    ++taken;
  }
  for (auto& producer : producers) producer.join();
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.pushed(), list.popped());
}

// ---- Is it linearizable?

// One call of a history: between `called` and `answered`, ticks of one clock, it took effect.
struct Call {
  int value;  // pushed or popped; kNothing: a pop that found nothing
  bool is_push;
  std::uint64_t called;
  std::uint64_t answered;
};
constexpr int kNothing = -1;

// Whether some order of the calls, which keeps those apart that were one after the other, is that of a queue:
// depth first, one call after the other (Wing and Gong), a state being what was done and what is queued.
class Search {
 public:
  explicit Search(std::vector<Call> calls) : calls_(std::move(calls)) {}
  bool is_queue() {
    std::vector<int> queued;
    return from(0, queued);
  }

 private:
  bool from(std::uint32_t done, std::vector<int>& queued) {
    if (done == (1u << calls_.size()) - 1) return true;
    if (!seen_.insert({done, queued}).second) return false;
    std::uint64_t first_answer = UINT64_MAX;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if ((done >> i & 1) == 0) first_answer = std::min(first_answer, calls_[i].answered);
    }
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const Call& call = calls_[i];
      if ((done >> i & 1) != 0 || call.called > first_answer) continue;
      std::vector<int> after = queued;
      if (call.is_push) {
        after.push_back(call.value);
      } else if (call.value == kNothing) {
        if (!queued.empty()) continue;
      } else {
        if (queued.empty() || queued.front() != call.value) continue;
        after.erase(after.begin());
      }
      if (from(done | 1u << i, after)) return true;
    }
    return false;
  }

  std::vector<Call> calls_;
  std::set<std::pair<std::uint32_t, std::vector<int>>> seen_;
};

TEST(Linearizability, IsSeenToFailWhereAHistoryIsNotAQueues) {
  EXPECT_TRUE(Search({{1, true, 0, 1}, {2, true, 2, 3}, {1, false, 4, 5}, {2, false, 6, 7}}).is_queue());
  EXPECT_TRUE(Search({{1, true, 0, 5}, {2, true, 1, 4}, {2, false, 6, 7}, {1, false, 8, 9}}).is_queue());
  EXPECT_FALSE(Search({{1, true, 0, 1}, {2, true, 2, 3}, {2, false, 4, 5}, {1, false, 6, 7}}).is_queue())
      << "the second overtakes the first";
  EXPECT_FALSE(Search({{1, true, 0, 1}, {kNothing, false, 2, 3}}).is_queue()) << "it was there";
  EXPECT_FALSE(Search({{1, true, 0, 1}, {1, false, 2, 3}, {1, false, 4, 5}}).is_queue()) << "twice";
  // A queue that is claimed first and filled later hides what was pushed behind one who sleeps.
  EXPECT_FALSE(
      Search(
          {{1, true, 0, 9}, {2, true, 1, 2}, {kNothing, false, 3, 4}, {1, false, 10, 11}, {2, false, 12, 13}})
          .is_queue());
}

// rows: L44
TEST(Linearizability, HoldsForTheHistoriesOfRealThreads) {
  constexpr int kProducers = 3;
  constexpr int kPushes = 3;
  constexpr int kPops = 10;
  constexpr int kRounds = 3000;
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::atomic<int> go{0};
  std::atomic<int> over{0};
  std::atomic<std::uint64_t> clock{0};
  MpscList<Item>* list = nullptr;
  std::vector<Item> items(kProducers * kPushes);
  std::vector<std::vector<Call>> histories(kProducers + 1);
  const auto pause = [](std::mt19937& random) {
    for (unsigned n = random() % 60; n > 0; --n) asm volatile("");
    if (random() % 50 == 0) std::this_thread::yield();
  };
  std::vector<std::thread> producers;
  for (int t = 0; t < kProducers; ++t) {
    producers.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      for (int round = 1; round <= kRounds; ++round) {
        while (go.load(std::memory_order_acquire) < round) std::this_thread::yield();
        for (int i = 0; i < kPushes; ++i) {
          Item& item = items[t * kPushes + i];
          item.value = t * kPushes + i;
          pause(random);
          Call call{item.value, true, clock.fetch_add(1), 0};
          list->push(&item);
          call.answered = clock.fetch_add(1);
          histories[t].push_back(call);
        }
        over.fetch_add(1, std::memory_order_acq_rel);
      }
    });
  }
  std::mt19937 random(seed + kProducers);
  int overlapped = 0;
  for (int round = 1; round <= kRounds; ++round) {
    MpscList<Item> fresh;
    list = &fresh;
    for (auto& history : histories) history.clear();
    over = 0;
    go.store(round, std::memory_order_release);
    for (int i = 0; i < kPops; ++i) {
      pause(random);
      Call call{kNothing, false, clock.fetch_add(1), 0};
      if (const Item* item = fresh.front(); item != nullptr) {
        call.value = item->value;
        fresh.pop();
      }
      call.answered = clock.fetch_add(1);
      histories[kProducers].push_back(call);
    }
    while (over.load(std::memory_order_acquire) < kProducers) std::this_thread::yield();
    std::vector<Call> all;
    for (const auto& history : histories) all.insert(all.end(), history.begin(), history.end());
    const int found = static_cast<int>(std::count_if(
        all.begin(), all.end(), [](const Call& call) { return !call.is_push && call.value >= 0; }));
    overlapped += found > 0 && found < kProducers * kPushes;
    ASSERT_TRUE(Search(all).is_queue()) << "round " << round;
  }
  for (auto& producer : producers) producer.join();
  EXPECT_GT(overlapped, 0) << "the threads never met";
}

}  // namespace
}  // namespace lwmq::queue
