// links: base os message scheduler
#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

namespace lwmq::scheduler {
namespace {

// Queues by name; each message is one frame with the name of its queue and its number.
class Queues {
 public:
  ~Queues() {
    while (!next().empty()) continue;
  }
  SendQueue& add(const std::string& name, std::uint32_t priority) {
    auto& queue = queues_[name];
    queue = std::make_unique<SendQueue>(LWMQ_QUEUE_MONO_UNBOUNDED, priority);
    scheduler.add(queue.get());
    return *queue;
  }
  void post(const std::string& name, int count = 1) {
    for (int i = 0; i < count; ++i) {
      const std::string text = name + std::to_string(posted_[name]++);
      Message* message = Message::create();
      ASSERT_EQ(message->append(text.data(), text.size()), LWMQ_OK);
      ASSERT_TRUE(queues_[name]->push(message));
    }
  }
  // The text of the next message; "" when there is none.
  std::string next() {
    Message* message = scheduler.front();
    if (message == nullptr) return "";
    EXPECT_EQ(scheduler.front(), message) << "asking again gives the same one";
    EXPECT_EQ(scheduler.take(), message);
    std::string text(reinterpret_cast<const char*>(message->frames()[0].data), message->frames()[0].bytes);
    Message::destroy(message);
    return text;
  }
  std::string all() {
    std::string text;
    for (std::string one = next(); !one.empty(); one = next()) text += (text.empty() ? "" : " ") + one;
    return text;
  }

  Scheduler scheduler;

 private:
  std::map<std::string, std::unique_ptr<SendQueue>> queues_;
  std::map<std::string, int> posted_;
};

TEST(SchedulerOrder, HasNothingWithoutQueuesAndWithEmptyOnes) {
  Queues queues;
  EXPECT_EQ(queues.scheduler.front(), nullptr);
  queues.add("a", LWMQ_PRIORITY_NORMAL);
  EXPECT_EQ(queues.scheduler.front(), nullptr);
  EXPECT_FALSE(queues.scheduler.has_messages());
}

// rows: L46
TEST(SchedulerOrder, KeepsTheOrderInsideAQueue) {
  Queues queues;
  queues.add("a", LWMQ_PRIORITY_NORMAL);
  queues.post("a", 5);
  EXPECT_TRUE(queues.scheduler.has_messages());
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

// rows: L41
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

TEST(SchedulerOrder, GivesAnIdleGroupsShareToTheOthers) {
  Queues queues;
  queues.add("h", LWMQ_PRIORITY_HIGHEST);
  queues.add("l", LWMQ_PRIORITY_LOWEST);
  queues.post("l", 100);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(queues.next(), "l" + std::to_string(i));
  EXPECT_EQ(queues.next(), "");
}

// rows: S01
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
  queues.post("t");
  EXPECT_EQ(queues.next(), "t2");
  EXPECT_EQ(queues.all(), "n1 i0 i1");
}

}  // namespace
}  // namespace lwmq::scheduler
