// links: base os message scheduler codec
#include "scheduler/scheduler.h"

#include <random>
#include <thread>
#include <vector>

#include "os/membarrier.h"
#include "scheduler/queues.h"

namespace lwmq::scheduler {
namespace {

TEST(SchedulerOrder, HasNothingWithoutQueuesAndWithEmptyOnes) {
  Queues queues;
  EXPECT_EQ(queues.next(), "");
  queues.add("a", LWMQ_PRIORITY_NORMAL);
  EXPECT_EQ(queues.next(), "");
  EXPECT_EQ(queues.scheduler.message_count(), 0u);
}

// rows: L46
TEST(SchedulerOrder, KeepsTheOrderInsideAQueue) {
  Queues queues;
  queues.add("a", LWMQ_PRIORITY_NORMAL);
  queues.post("a", 5);
  EXPECT_EQ(queues.scheduler.message_count(), 5u);
  EXPECT_EQ(queues.all(), "a0 a1 a2 a3 a4");
}

// rows: L46
TEST(SchedulerOrder, GoesRoundTheQueuesOfOnePriority) {
  Queues queues;
  for (const char* name : {"a", "b", "c"}) queues.add(name, LWMQ_PRIORITY_NORMAL);
  queues.post("a", 3);
  queues.post("b", 1);
  queues.post("c", 2);
  EXPECT_EQ(queues.all(), "a0 b0 c0 a1 c1 a2");
}

// rows: L41 M19
TEST(SchedulerOrder, SharesBetweenPrioritiesByWeightAndStarvesNone) {
  Queues queues;
  const std::map<std::string, std::uint32_t> shares = {{"h", 2}, {"a", 3}, {"n", 4}, {"b", 5}, {"l", 6}};
  for (const auto& [name, priority] : shares) {
    queues.add(name, priority);
    queues.post(name, 1000);
  }
  std::map<char, int> served;
  constexpr int kTurns = 20;
  for (int i = 0; i < 31 * kTurns; ++i) ++served[queues.next()[0]];
  EXPECT_EQ(served['h'], 16 * kTurns);
  EXPECT_EQ(served['a'], 8 * kTurns);
  EXPECT_EQ(served['n'], 4 * kTurns);
  EXPECT_EQ(served['b'], 2 * kTurns);
  EXPECT_EQ(served['l'], 1 * kTurns);
}

// rows: L41
TEST(SchedulerOrder, SharesByTheWeightsThatWereSet) {
  Queues queues;
  const std::string names = "hanbl";
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    queues.add(names.substr(i, 1), LWMQ_PRIORITY_HIGHEST + i);
    queues.post(names.substr(i, 1), 2000);
  }
  queues.scheduler.set_weights({1, 0, 7, 0, 2});
  std::map<char, int> served;
  for (int i = 0; i < 1000; ++i) ++served[queues.next()[0]];
  EXPECT_EQ(served, (std::map<char, int>{{'h', 100}, {'n', 700}, {'l', 200}}));
  for (int i = 0; i < 5000; ++i) served[queues.next()[0]]++;
  EXPECT_EQ(served, (std::map<char, int>{{'h', 2000}, {'n', 2000}, {'l', 2000}})) << "weight 0 waits for all";
  EXPECT_EQ(queues.next()[0], 'a') << "and then the higher goes first";
}

TEST(SchedulerOrder, GivesAnIdleGroupsShareToTheOthers) {
  Queues queues;
  queues.add("h", LWMQ_PRIORITY_HIGHEST);
  queues.add("l", LWMQ_PRIORITY_LOWEST);
  queues.post("l", 100);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(queues.next(), "l" + std::to_string(i));
  EXPECT_EQ(queues.next(), "");
}

// rows: S01 M19
TEST(SchedulerOrder, ServesTimeCriticalBeforeAllAndIdleAfterAll) {
  Queues queues;
  queues.add("t", LWMQ_PRIORITY_TIME_CRITICAL);
  queues.add("n", LWMQ_PRIORITY_NORMAL);
  queues.add("i", LWMQ_PRIORITY_IDLE);
  queues.post("i", 2);
  queues.post("n", 2);
  queues.post("t", 2);
  EXPECT_EQ(queues.next(), "t0");
  EXPECT_EQ(queues.next(), "t1");
  EXPECT_EQ(queues.next(), "n0");
  codec::Encoding shown;
  ASSERT_TRUE(queues.scheduler.front(&shown));
  queues.post("t");
  EXPECT_EQ(queues.next(), "t2") << "also where another message was shown and found no room";
  EXPECT_EQ(queues.all(), "n1 i0 i1");
}

// rows: S01
TEST(SchedulerOrder, LetsTheStrictEndsStarveTheOthers) {
  Queues queues;
  for (const char* name : {"t", "n", "i"}) queues.add(name, name[0] == 't' ? 1 : name[0] == 'n' ? 4 : 7);
  queues.post("n");
  queues.post("i");
  for (int i = 0; i < 10000; ++i) {
    queues.post("t");
    ASSERT_EQ(queues.next()[0], 't');
  }
  EXPECT_EQ(queues.next(), "n0");
  for (int i = 0; i < 10000; ++i) {
    queues.post("n");
    ASSERT_EQ(queues.next()[0], 'n');
  }
  EXPECT_EQ(queues.next(), "i0");
}

// rows: L50
TEST(SchedulerOrder, MovesAQueueWithAllItsMessagesToAnotherPriority) {
  Queues queues;
  for (const char* name : {"a", "b", "c"}) queues.add(name, LWMQ_PRIORITY_NORMAL);
  for (const char* name : {"a", "b", "c"}) queues.post(name, 3);
  EXPECT_EQ(queues.next(), "a0");
  queues.scheduler.set_priority(&queues["c"], LWMQ_PRIORITY_TIME_CRITICAL);
  queues.scheduler.set_priority(&queues["b"], LWMQ_PRIORITY_IDLE);
  EXPECT_EQ(queues["b"].priority(), static_cast<std::uint32_t>(LWMQ_PRIORITY_IDLE));
  EXPECT_EQ(queues.all(), "c0 c1 c2 a1 a2 b0 b1 b2");
  queues.scheduler.set_priority(&queues["b"], LWMQ_PRIORITY_NORMAL);
  queues.post("b", 2);
  queues.post("a", 2);
  EXPECT_EQ(queues.all(), "a3 b3 a4 b4");
}

// rows: K26
TEST(SchedulerOrder, ServesQueuesOfUnequalRatesEqually) {
  Queues queues;
  const std::string names = "abcd";
  for (const char name : names) queues.add(std::string(1, name), LWMQ_PRIORITY_NORMAL);
  std::map<char, int> served;
  for (int round = 0; round < 1000; ++round) {
    for (int i = 0; i < 4; ++i) queues.post(names.substr(i, 1), 1 << (2 * i));  // 1, 4, 16, 64 per round
    for (int i = 0; i < 4; ++i) ++served[queues.next()[0]];
  }
  for (const char name : names) EXPECT_EQ(served[name], 1000) << name;
}

// rows: L49
TEST(SchedulerOrder, LooksAtFewOfAThousandQueuesOnceTheOthersAreEmpty) {
  Queues queues;
  constexpr int kQueues = 1000;
  for (int i = 0; i < kQueues; ++i) queues.add("q" + std::to_string(i) + ".", 1 + i % 7);
  EXPECT_EQ(queues.scheduler.ring_count(), static_cast<std::uint32_t>(kQueues));
  for (int i = 0; i < 100; ++i) {
    queues.post("q3.");
    ASSERT_EQ(queues.next(), "q3." + std::to_string(i));
    ASSERT_EQ(queues.next(), "");
  }
  EXPECT_LT(queues.scheduler.ring_count(), 20u) << "those without messages went to rest";
  for (int i = 0; i < kQueues; ++i) queues.post("q" + std::to_string(i) + ".");
  EXPECT_EQ(queues.scheduler.message_count(), static_cast<std::uint64_t>(kQueues));
  int found = 0;
  while (!queues.next().empty()) ++found;
  EXPECT_EQ(found, kQueues) << "each that got a message was awake again";
}

// rows: L49
TEST(SchedulerOrder, MovesAQueueThatIsAtRest) {
  Queues queues;
  for (int i = 0; i < 100; ++i) queues.add("q" + std::to_string(i) + ".", LWMQ_PRIORITY_NORMAL);
  for (int i = 0; i < 200; ++i) {
    queues.post("q0.");
    while (!queues.next().empty()) continue;
  }
  ASSERT_LT(queues.scheduler.ring_count(), 10u);
  queues.scheduler.set_priority(&queues["q7."], LWMQ_PRIORITY_TIME_CRITICAL);
  queues.post("q1.");
  queues.post("q7.");
  EXPECT_EQ(queues.all(), "q7.0 q1.0");
}

// A queue goes to rest while its poster posts: neither may miss the other. The pump here never looks again by
// itself, so that a message which was missed stays behind.
// rows: L49
TEST(SchedulerOrder, MissesNoMessageOfAQueueThatGoesToRestJustNow) {
  Scheduler scheduler;
  constexpr int kQueues = 64;
  constexpr int kMessages = 20000;
  std::vector<std::unique_ptr<SendQueue>> queues;
  for (int i = 0; i < kQueues; ++i) {
    queues.push_back(std::make_unique<SendQueue>(LWMQ_QUEUE_MONO_UNBOUNDED, LWMQ_PRIORITY_NORMAL));
    scheduler.add(queues.back().get());
  }
  const bool light = os::membarrier_available();
  std::atomic<int> posted{0};
  std::thread posting([&] {
    std::mt19937 random(1);
    for (int i = 0; i < kMessages; ++i) {
      SendQueue* queue = queues[random() % kQueues].get();
      Message* gone = nullptr;
      ASSERT_EQ(queue->push(message_of("m"), 0, true, &gone), queue::Pushed::kTaken);
      os::light_barrier(light);
      scheduler.note_pushed(queue);
      posted.fetch_add(1);
      if (i % 64 == 0) std::this_thread::yield();
    }
  });
  int taken = 0;
  codec::Encoding encoding;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (taken < kMessages && std::chrono::steady_clock::now() < end) {
    if (!scheduler.front(&encoding)) continue;
    Message::destroy(scheduler.claim(encoding.bytes, &encoding));
    scheduler.done();
    ++taken;
  }
  posting.join();
  EXPECT_EQ(taken, kMessages);
}

}  // namespace
}  // namespace lwmq::scheduler
