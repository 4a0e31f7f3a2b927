// What each kind of send queue keeps, against a model that is a list of (tag, number).
// links: base os message scheduler codec
#include "scheduler/send_queue.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "scheduler/queues.h"
#include "seed.h"

namespace lwmq::scheduler {
namespace {

constexpr std::uint32_t kAllKinds[] = {LWMQ_QUEUE_MONO_UNBOUNDED,
                                       LWMQ_QUEUE_MULTI_UNBOUNDED,
                                       LWMQ_QUEUE_MULTI_UNBOUNDED_TAGGED,
                                       LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST,
                                       LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST,
                                       LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST_TAGGED,
                                       LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST_TAGGED};

// The rules, in as few words as possible.
struct Model {
  std::uint32_t kind;
  std::uint64_t capacity;
  std::deque<std::pair<std::uint64_t, int>> waiting;
  SendQueue::Counts counts{};

  // What had to go; -1: nothing.
  int post(std::uint64_t tag, int number) {
    ++counts.posted;
    int gone = -1;
    const auto same = std::find_if(waiting.begin(), waiting.end(),
                                   [tag](const auto& one) { return tag != 0 && one.first == tag; });
    if (same != waiting.end()) {
      gone = same->second;
      waiting.erase(same);
      ++counts.replaced;
    } else if (SendQueue::is_bounded(kind) && waiting.size() == capacity) {
      ++counts.discarded;
      if (kind == LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST || kind == LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST_TAGGED)
        return number;
      gone = waiting.front().second;
      waiting.pop_front();
    }
    waiting.emplace_back(tag, number);
    return gone;
  }
  int collect() {
    if (waiting.empty()) return -1;
    ++counts.collected;
    const int number = waiting.front().second;
    waiting.pop_front();
    return number;
  }
};

int number_of(Message* message) { return message == nullptr ? -1 : std::stoi(text_of(message)); }

// rows: S02 S03 L42
TEST(SendQueueRules, KeepExactlyWhatTheModelKeepsForRandomSchedules) {
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t kind = kAllKinds[round % 7];
    const std::uint64_t capacity = SendQueue::is_bounded(kind) ? 1 + random() % 100 : 0;
    SCOPED_TRACE("kind " + std::to_string(kind) + ", capacity " + std::to_string(capacity));
    SendQueue queue(kind, LWMQ_PRIORITY_NORMAL, capacity);
    Model model{kind, capacity, {}, {}};
    const std::uint64_t tags = 1 + random() % 50;
    for (int step = 0; step < 1000; ++step) {
      if (random() % 3 != 0) {
        const std::uint64_t tag =
            queue.is_tagged() && random() % 4 != 0 ? (random() % tags) << (random() % 60) : 0;
        Message* gone = nullptr;
        ASSERT_EQ(queue.push(message_of(std::to_string(step)), tag, true, &gone), queue::Pushed::kTaken);
        ASSERT_EQ(number_of(gone), model.post(tag, step)) << "step " << step;
      } else {
        ASSERT_EQ(number_of(queue.collect()), model.collect()) << "step " << step;
      }
      ASSERT_EQ(queue.size(), model.waiting.size());
      ASSERT_EQ(queue.empty(), model.waiting.empty());
    }
    model.counts.queued = model.waiting.size();
    const SendQueue::Counts counts = queue.counts();
    EXPECT_EQ(counts.posted, model.counts.posted);
    EXPECT_EQ(counts.collected, model.counts.collected);
    EXPECT_EQ(counts.discarded, model.counts.discarded);
    EXPECT_EQ(counts.replaced, model.counts.replaced);
    EXPECT_EQ(counts.queued, model.counts.queued);
    EXPECT_EQ(counts.posted, counts.collected + counts.discarded + counts.replaced + counts.queued);
    while (!model.waiting.empty()) ASSERT_EQ(number_of(queue.collect()), model.collect());
    EXPECT_EQ(queue.collect(), nullptr);
  }
}

// rows: S03
TEST(SendQueueRules, HaveAtMostOneUnsentMessagePerTagAndTheNewOneGoesToTheEnd) {
  Queues queues;
  queues.add("q", LWMQ_PRIORITY_NORMAL, LWMQ_QUEUE_MULTI_UNBOUNDED_TAGGED);
  queues.post_text("q", "bid 1", 7);
  queues.post_text("q", "plain 1");
  queues.post_text("q", "ask 1", 8);
  queues.post_text("q", "plain 2");
  queues.post_text("q", "bid 2", 7);
  EXPECT_EQ(queues.next(), "plain 1");
  queues.post_text("q", "ask 2", 8);
  EXPECT_EQ(queues.next(), "plain 2");
  EXPECT_EQ(queues.next(), "bid 2");
  queues.post_text("q", "bid 3", 7);
  EXPECT_EQ(queues.all(), "ask 2 bid 3") << "what was collected is not recalled";
}

// rows: S03
TEST(SendQueueRules, LeaveAMessageAloneThatIsOnItsWay) {
  SendQueue queue(LWMQ_QUEUE_MULTI_UNBOUNDED_TAGGED, LWMQ_PRIORITY_NORMAL);
  Message* gone = nullptr;
  ASSERT_EQ(queue.push(message_of("old"), 5, true, &gone), queue::Pushed::kTaken);
  codec::Encoding encoding;
  ASSERT_TRUE(queue.front(&encoding));
  EXPECT_EQ(encoding.bytes, 3u);
  ASSERT_EQ(queue.push(message_of("a longer one"), 5, true, &gone), queue::Pushed::kTaken);
  EXPECT_EQ(text_of(gone), "old") << "shown is not yet on its way";
  EXPECT_EQ(queue.claim(3, &encoding), nullptr) << "the other needs more room than the first";
  Message* claimed = queue.claim(12, &encoding);
  ASSERT_NE(claimed, nullptr);
  EXPECT_EQ(encoding.bytes, 12u);
  ASSERT_EQ(queue.push(message_of("new"), 5, true, &gone), queue::Pushed::kTaken);
  EXPECT_EQ(gone, nullptr) << "claimed is on its way";
  EXPECT_EQ(text_of(claimed), "a longer one");
  queue.done();
  EXPECT_EQ(text_of(queue.collect()), "new");
}

// rows: S02 S03
TEST(SendQueueRules, TakeBackWhatDidNotLeaveByTheSameRules) {
  const auto claim = [](SendQueue& queue) {
    codec::Encoding encoding;
    EXPECT_TRUE(queue.front(&encoding));
    return queue.claim(UINT64_MAX, &encoding);
  };
  const auto push = [](SendQueue& queue, const char* text, std::uint64_t tag) {
    Message* gone = nullptr;
    ASSERT_EQ(queue.push(message_of(text), tag, true, &gone), queue::Pushed::kTaken);
    ASSERT_EQ(gone, nullptr);
  };
  for (const std::uint32_t kind : kAllKinds) {
    SendQueue queue(kind, LWMQ_PRIORITY_NORMAL, SendQueue::is_bounded(kind) ? 2 : 0);
    push(queue, "1", queue.is_tagged() ? 9 : 0);
    push(queue, "2", 0);
    EXPECT_EQ(queue.put_back(claim(queue)), nullptr);
    EXPECT_EQ(text_of(queue.collect()), "1") << "it is the next one again, kind " << kind;
    EXPECT_EQ(text_of(queue.collect()), "2");
    EXPECT_EQ(queue.counts().collected, 2u);
  }
  SendQueue tagged(LWMQ_QUEUE_MULTI_UNBOUNDED_TAGGED, LWMQ_PRIORITY_NORMAL);
  push(tagged, "old", 3);
  Message* claimed = claim(tagged);
  push(tagged, "new", 3);
  EXPECT_EQ(text_of(tagged.put_back(claimed)), "old") << "its tag was posted again meanwhile";
  EXPECT_EQ(tagged.counts().replaced, 1u);
  EXPECT_EQ(text_of(tagged.collect()), "new");
  for (const auto& [kind, loser] :
       {std::pair{LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST, "a"}, {LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST, "c"}}) {
    SendQueue bounded(kind, LWMQ_PRIORITY_NORMAL, 2);
    push(bounded, "a", 0);
    push(bounded, "b", 0);
    claimed = claim(bounded);
    push(bounded, "c", 0);
    EXPECT_EQ(text_of(bounded.put_back(claimed)), loser) << "its place was taken meanwhile";
    EXPECT_EQ(bounded.size(), 2u);
    EXPECT_EQ(bounded.counts().discarded, 1u);
  }
}

// rows: S03
TEST(SendQueueRules, GrowNotByWhatWasReplaced) {
  queue::RuledList<const int*> list(queue::WhenFull::kGrow, 0, true);
  static constexpr int kItems[2] = {};
  const int* gone = nullptr;
  ASSERT_EQ(list.push(&kItems[0], 0, true, &gone), queue::Pushed::kTaken);  // waits in front of all
  for (int i = 0; i < 1000000; ++i) {
    ASSERT_EQ(list.push(&kItems[1], 1 + i % 3, true, &gone), queue::Pushed::kTaken);
    ASSERT_EQ(gone == nullptr, i < 3);
  }
  EXPECT_EQ(list.size(), 4u);
  EXPECT_EQ(list.entry_count(), list.kEntriesMin) << "holes are given up";
}

// rows: M18
TEST(SendQueueRules, GiveMemoryBackAfterABurst) {
  queue::RuledList<const int*> list(queue::WhenFull::kGrow, 0, true);
  static constexpr int kItem = 0;
  const int* gone = nullptr;
  for (std::uint64_t i = 0; i < 100000; ++i)
    ASSERT_EQ(list.push(&kItem, i, true, &gone), queue::Pushed::kTaken);
  EXPECT_GE(list.entry_count(), 100000u);
  while (list.size() > 100) ASSERT_EQ(list.take([](const int*) { return true; }), &kItem);
  EXPECT_LE(list.entry_count(), list.kEntriesKept);
  for (std::uint64_t i = 99900; i < 100000; ++i) {
    ASSERT_EQ(list.push(&kItem, i, true, &gone), queue::Pushed::kTaken);
    ASSERT_EQ(gone, &kItem) << "tags were kept through it";
  }
}

// Each producer's messages keep their order, and every one is accounted for, whatever the rule removes.
// rows: S02 S03 L44
TEST(SendQueueRules, AccountForEveryMessageOfManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 20000;
  for (const std::uint32_t kind : kAllKinds) {
    if (kind == LWMQ_QUEUE_MONO_UNBOUNDED) continue;
    SendQueue queue(kind, LWMQ_PRIORITY_NORMAL, SendQueue::is_bounded(kind) ? 16 : 0);
    std::atomic<int> gone_count{0};
    std::atomic<int> at_work{kThreads};
    std::vector<std::thread> posting;
    for (int t = 0; t < kThreads; ++t) {
      posting.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          Message* gone = nullptr;
          const std::uint64_t tag = queue.is_tagged() ? 1 + (t + i) % 5 : 0;
          ASSERT_EQ(queue.push(message_of(std::to_string(t * kEach + i)), tag, true, &gone),
                    queue::Pushed::kTaken);
          if (gone == nullptr) continue;
          Message::destroy(gone);
          ++gone_count;
        }
        --at_work;
      });
    }
    int collected = 0;
    std::vector<int> last(kThreads, -1);
    for (;;) {
      const bool over = at_work == 0;
      const int number = number_of(queue.collect());
      if (number < 0) {
        if (over) break;
        std::this_thread::yield();
        continue;
      }
      ASSERT_GT(number, last[number / kEach]) << "kind " << kind;
      last[number / kEach] = number;
      ++collected;
    }
    for (auto& thread : posting) thread.join();
    const SendQueue::Counts counts = queue.counts();
    EXPECT_EQ(collected + gone_count, kThreads * kEach);
    EXPECT_EQ(counts.posted, static_cast<std::uint64_t>(kThreads * kEach));
    EXPECT_EQ(counts.collected, static_cast<std::uint64_t>(collected));
    EXPECT_EQ(counts.discarded + counts.replaced, static_cast<std::uint64_t>(gone_count));
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which say so first, in their own words

// A queue for one thread has no lock and no read-modify-write; that it is used by two is seen all the same.
// rows: K25
TEST(SendQueueMisuse, IsRefusedWhereTwoThreadsPostToAQueueForOneAtOnce) {
  auto& queue = *new SendQueue(LWMQ_QUEUE_MONO_UNBOUNDED, 4);  // nobody may look into it behind that
  std::atomic<bool> refused{false};
  const auto post = [&] {
    for (int i = 0; i < 5'000'000 && !refused; ++i) {
      Message* gone = nullptr;
      Message* message = Message::create(0);
      const auto pushed = queue.push(message, 0, true, &gone);
      if (pushed != queue::Pushed::kTaken) Message::destroy(message);
      if (pushed == queue::Pushed::kCrowded) refused = true;
    }
  };
  std::thread other(post);
  post();
  other.join();
  EXPECT_TRUE(refused);
}

#endif

}  // namespace
}  // namespace lwmq::scheduler
