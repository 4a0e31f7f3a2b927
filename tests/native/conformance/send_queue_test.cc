// What send queues promise, through whole channels over every provider.
#include <atomic>
#include <map>
#include <set>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "conformance/transport_group.h"

namespace lwmq::conformance {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kMulti = LWMQ_QUEUE_MULTI_UNBOUNDED;
constexpr std::uint32_t kTagged = LWMQ_QUEUE_MULTI_UNBOUNDED_TAGGED;
constexpr std::uint32_t kOldest = LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST;
constexpr std::uint32_t kNewest = LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST;

lwmq_send_queue_options options_of(std::uint32_t kind, std::uint64_t capacity = 0,
                                   std::uint32_t priority = 0) {
  lwmq_send_queue_options options{};
  options.size = sizeof options;
  options.kind = kind;
  options.capacity = capacity;
  options.priority = priority;
  return options;
}

lwmq_send_queue* add(const End& end, std::uint32_t kind, std::uint64_t capacity = 0,
                     std::uint32_t priority = 0) {
  const auto options = options_of(kind, capacity, priority);
  lwmq_send_queue* queue = nullptr;
  EXPECT_EQ(lwmq_channel_add_send_queue(end.channel, &options, &queue), LWMQ_OK) << lwmq_last_error();
  return queue;
}

lwmq_status post(lwmq_send_queue* queue, const std::string& text, std::uint64_t tag = 0,
                 std::uint32_t timeout_ms = 0, bool or_discard = true) {
  lwmq_message* message = make_message({text});
  const lwmq_status status = lwmq_send_queue_post_wait(queue, tag, timeout_ms, or_discard ? 1 : 0, &message);
  EXPECT_EQ(message == nullptr, status == LWMQ_OK);
  lwmq_message_destroy(message);
  return status;
}

std::string joined(const End& end, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += (i > 0 ? " " : "") + end.receive_text();
  return all;
}

class SendQueuesOver : public ::testing::TestWithParam<Subject> {
 protected:
  std::string address_ = GetParam().fresh_address();
};

// ---- Kinds

// The seed's example, with company: every kind at once, at one priority.
// rows: L42 L44
TEST_P(SendQueuesOver, TakeEveryKindAndMixAtOnceAndLoseNothingThatIsNotDiscarded) {
  const Meeting meeting(address_, channel_options(1024, 4));
  constexpr int kEach = 3000;
  struct Plan {
    std::uint32_t kind;
    std::uint64_t capacity;
    int threads;
    lwmq_send_queue* queue;
  };
  std::vector<Plan> plans;
  for (int i = 0; i < 5; ++i) plans.push_back({LWMQ_QUEUE_MONO_UNBOUNDED, 0, 1, nullptr});
  plans.push_back({kOldest, 8, 2, nullptr});
  plans.push_back({kNewest, 8, 2, nullptr});
  plans.push_back({LWMQ_QUEUE_MULTI_UNBOUNDED, 0, 3, nullptr});
  plans.push_back({kTagged, 0, 2, nullptr});
  std::vector<std::thread> posting;
  for (std::size_t q = 0; q < plans.size(); ++q) {
    Plan& plan = plans[q];
    plan.queue = add(meeting.client, plan.kind, plan.capacity);
    for (int t = 0; t < plan.threads; ++t) {
      posting.emplace_back([&plan, q, t] {
        for (int i = 0; i < kEach; ++i) {
          const std::uint64_t tag = plan.kind == kTagged ? 1 + i % 3 : 0;
          ASSERT_EQ(
              post(plan.queue, std::to_string(q) + ":" + std::to_string(t) + ":" + std::to_string(i), tag),
              LWMQ_OK);
        }
      });
    }
  }
  std::atomic<bool> over{false};
  std::map<std::string, int> last;
  std::map<std::size_t, std::uint64_t> received;
  std::thread receiving([&] {
    for (;;) {
      const bool last_look = over;
      const std::string text = meeting.server.receive_text(last_look ? 0 : 20);
      if (text[0] == '<') {
        if (last_look) return;
        continue;
      }
      const std::size_t cut = text.rfind(':');
      const int number = std::stoi(text.substr(cut + 1));
      const auto [at, fresh] = last.try_emplace(text.substr(0, cut), -1);
      ASSERT_GT(number, at->second) << text;
      at->second = number;
      ++received[std::stoul(text)];
    }
  });
  for (auto& thread : posting) thread.join();
  EXPECT_EQ(lwmq_channel_flush(meeting.client.channel, kLimitMs), LWMQ_OK);
  over = true;
  receiving.join();
  for (std::size_t q = 0; q < plans.size(); ++q) {
    const auto counts = statistics_of(plans[q].queue);
    EXPECT_EQ(counts.posted, static_cast<std::uint64_t>(plans[q].threads) * kEach);
    EXPECT_EQ(counts.collected, received[q]);
    EXPECT_EQ(counts.queued, 0u);
    EXPECT_EQ(counts.posted, counts.collected + counts.discarded + counts.replaced);
    EXPECT_TRUE(counts.discarded == 0 || plans[q].kind == kOldest || plans[q].kind == kNewest) << q;
    EXPECT_TRUE(counts.replaced == 0 || plans[q].kind == kTagged) << q;
  }
  EXPECT_EQ(meeting.client.statistics().messages_shipped, meeting.server.statistics().messages_received);
}

// rows: S02
TEST_P(SendQueuesOver, KeepTheNewestOrTheOldestOfABoundedQueue) {
  for (const auto& [kind, kept] : {std::pair{kOldest, "7 8 9"}, {kNewest, "0 1 2"}}) {
    const std::string address = GetParam().fresh_address();
    const End client(address, LWMQ_ROLE_CLIENT);
    lwmq_send_queue* queue = add(client, kind, 3);
    for (int i = 0; i < 10; ++i) ASSERT_EQ(post(queue, std::to_string(i)), LWMQ_OK);
    auto counts = statistics_of(queue);
    EXPECT_EQ(counts.posted, 10u);
    EXPECT_EQ(counts.discarded, 7u);
    EXPECT_EQ(counts.queued, 3u);
    EXPECT_EQ(counts.capacity, 3u);
    const End server(address, LWMQ_ROLE_SERVER);
    EXPECT_EQ(joined(server, 3), kept);
    EXPECT_TRUE(eventually([&] { return statistics_of(queue).collected == 3; }));
  }
}

// rows: S03
TEST_P(SendQueuesOver, ConflateByTagAndSendNothingOfTheTag) {
  const End client(address_, LWMQ_ROLE_CLIENT);
  lwmq_send_queue* queue = add(client, kTagged);
  for (const auto& [text, tag] : std::vector<std::pair<std::string, std::uint64_t>>{
           {"a1", 1}, {"p1", 0}, {"b1", UINT64_MAX}, {"a2", 1}, {"p2", 0}, {"a3", 1}, {"b2", UINT64_MAX}}) {
    ASSERT_EQ(post(queue, text, tag), LWMQ_OK);
  }
  const auto counts = statistics_of(queue);
  EXPECT_EQ(counts.replaced, 3u);
  EXPECT_EQ(counts.queued, 4u);
  const End server(address_, LWMQ_ROLE_SERVER);
  EXPECT_EQ(joined(server, 4), "p1 p2 a3 b2");
  EXPECT_TRUE(eventually([&] { return client.statistics().messages_shipped == 4; }));
  EXPECT_EQ(client.statistics().bytes_shipped, 8u) << "two bytes each: the tag stays here";
}

// rows: S03
TEST_P(SendQueuesOver, NeverRecallWhatWasShipped) {
  const Meeting meeting(address_, channel_options(256, 2));
  lwmq_send_queue* queue = add(meeting.client, kTagged);
  const auto text = [](int number) { return std::string(200, 'x') + std::to_string(number); };
  // As many as there is room for; the rest stays here, one of a tag. A flush also waits for a thread of the
  // library that is just about to ship.
  int shipped = -1;
  do {
    ASSERT_EQ(post(queue, text(++shipped), 5), LWMQ_OK);
  } while (lwmq_channel_flush(meeting.client.channel, 300) == LWMQ_OK);
  ASSERT_GE(shipped, 2);
  for (int i = 1; i <= 7; ++i) ASSERT_EQ(post(queue, text(shipped + i), 5), LWMQ_OK);
  EXPECT_EQ(statistics_of(queue).queued, 1u);
  EXPECT_EQ(statistics_of(queue).replaced, 7u);
  for (int i = 0; i < shipped; ++i) EXPECT_EQ(meeting.server.receive_text(), text(i));
  EXPECT_EQ(meeting.server.receive_text(), text(shipped + 7));
  EXPECT_EQ(meeting.server.receive_text(20), "<LWMQ_E_TIMED_OUT>");
}

TEST_P(SendQueuesOver, RefuseOptionsThatCannotBeWithTheNumbers) {
  const End end(address_, LWMQ_ROLE_SERVER);
  const auto refusal = [&](const lwmq_send_queue_options& options) {
    lwmq_send_queue* queue = nullptr;
    EXPECT_EQ(lwmq_channel_add_send_queue(end.channel, &options, &queue), LWMQ_E_INVALID);
    return std::string(lwmq_last_error());
  };
  EXPECT_NE(refusal(options_of(7)).find("no kind 7 of send queue; there are 0 to 6"), std::string::npos);
  EXPECT_NE(refusal(options_of(kOldest)).find("capacity 0 of a bounded send queue (kind 3)"),
            std::string::npos);
  EXPECT_NE(refusal(options_of(kTagged, 10)).find("capacity 10 of an unbounded send queue (kind 2)"),
            std::string::npos);
  EXPECT_NE(refusal(options_of(0, 0, 8)).find("priority 8; there are 1"), std::string::npos);
  EXPECT_EQ(post(end.queue, "tagged", 77), LWMQ_E_INVALID);
  EXPECT_NE(std::string(lwmq_last_error()).find("tag 77 for a send queue without tags (kind 0)"),
            std::string::npos);
  EXPECT_EQ(post(end.queue, "late", 0, 5), LWMQ_E_INVALID);
  EXPECT_NE(std::string(lwmq_last_error()).find("a timeout of 5 ms for an unbounded send queue"),
            std::string::npos);
  EXPECT_EQ(statistics_of(end.queue).posted, 0u);
  EXPECT_EQ(lwmq_send_queue_set_priority(end.queue, 0), LWMQ_E_INVALID);
  constexpr std::uint32_t kWeights[] = {1, 2, 3, 4, 65536};
  EXPECT_EQ(lwmq_channel_set_weights(end.channel, kWeights, 4), LWMQ_E_INVALID);
  EXPECT_NE(std::string(lwmq_last_error()).find("4 weights; there are 5"), std::string::npos);
  EXPECT_EQ(lwmq_channel_set_weights(end.channel, kWeights, 5), LWMQ_E_INVALID);
  EXPECT_NE(std::string(lwmq_last_error()).find("weight 65536 of priority 6; 0 to 65535"), std::string::npos);
}

// ---- Waiting for room

// rows: S02
TEST_P(SendQueuesOver, WaitForRoomAndThenApplyTheRule) {
  const End client(address_, LWMQ_ROLE_CLIENT);
  for (const std::uint32_t kind : {kOldest, kNewest}) {
    lwmq_send_queue* queue = add(client, kind, 2);
    for (int i = 0; i < 2; ++i)
      ASSERT_EQ(post(queue, std::to_string(i), 0, 10000), LWMQ_OK) << "there is room";
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(post(queue, "nothing is discarded for it", 0, 0, false), LWMQ_E_FULL);
    ASSERT_EQ(post(queue, "nor for it", 0, 1, false), LWMQ_E_TIMED_OUT);
    ASSERT_EQ(statistics_of(queue).posted, 2u);
    ASSERT_EQ(post(queue, "2", 0, 50), LWMQ_OK);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 45ms);
    EXPECT_EQ(statistics_of(queue).discarded, 1u);
  }
  const End server(address_, LWMQ_ROLE_SERVER);
  EXPECT_EQ(joined(server, 4), "1 0 2 1") << "two queues in turn";
}

// rows: S02 L55
TEST_P(SendQueuesOver, HoldAPosterBackUntilThereIsRoomSoThatNothingIsDiscarded) {
  const Meeting meeting(address_, channel_options(256, 2));
  for (const std::uint32_t kind : {kOldest, kNewest}) {
    lwmq_send_queue* queue = add(meeting.client, kind, 4);
    constexpr int kThreads = 3;
    constexpr int kEach = 300;
    std::vector<std::thread> posting;
    for (int t = 0; t < kThreads; ++t) {
      posting.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          ASSERT_EQ(post(queue, std::string(100, 'x') + std::to_string(1000 * t + i), 0, LWMQ_FOREVER),
                    LWMQ_OK);
        }
      });
    }
    std::set<std::string> received;
    for (int i = 0; i < kThreads * kEach; ++i) received.insert(meeting.server.receive_text());
    for (auto& thread : posting) thread.join();
    EXPECT_EQ(received.size(), static_cast<std::size_t>(kThreads * kEach));
    EXPECT_EQ(statistics_of(queue).discarded, 0u);
  }
}

TEST_P(SendQueuesOver, EndAWaitForRoomWhenAnotherThreadCloses) {
  const End client(address_, LWMQ_ROLE_CLIENT);
  lwmq_send_queue* queue = add(client, kOldest, 1);
  ASSERT_EQ(post(queue, "first"), LWMQ_OK);
  lwmq_status status = LWMQ_OK;
  std::thread waiting([&] { status = post(queue, "second", 0, LWMQ_FOREVER); });
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(client.close(0), LWMQ_E_TIMED_OUT);
  waiting.join();
  EXPECT_EQ(status, LWMQ_E_CLOSED);
}

// Every message that was accepted arrives, is counted as dropped by close, or was never accepted.
TEST_P(SendQueuesOver, AccountForMessagesThatArePostedWhileTheChannelCloses) {
  for (int round = 0; round < 40; ++round) {
    End client(GetParam().fresh_address(), LWMQ_ROLE_CLIENT);
    lwmq_send_queue* shared = add(client, round % 2 == 0 ? kMulti : kTagged);
    std::atomic<int> accepted{0};
    std::atomic<bool> under_way{false};
    std::vector<std::thread> posting;
    for (lwmq_send_queue* queue : {shared, shared, client.queue}) {
      posting.emplace_back([&, queue] {
        while (post(queue, "m") == LWMQ_OK) {
          ++accepted;
          under_way = true;
        }
      });
    }
    while (!under_way) std::this_thread::yield();
    EXPECT_EQ(client.close(0), LWMQ_E_TIMED_OUT);
    const std::string text = lwmq_last_error();
    for (auto& thread : posting) thread.join();
    EXPECT_NE(text.find("; " + std::to_string(accepted) + " messages were dropped"), std::string::npos)
        << accepted << " accepted: " << text;
  }
}

TEST_P(SendQueuesOver, CountWhatACloseDropsAsDiscardedAndNotAsCollected) {
  End client(GetParam().fresh_address(), LWMQ_ROLE_CLIENT);
  std::vector<lwmq_send_queue*> queues = {client.queue, add(client, kMulti), add(client, kTagged),
                                          add(client, kOldest, 3)};
  for (lwmq_send_queue* queue : queues) {
    for (int i = 0; i < 5; ++i) ASSERT_EQ(post(queue, "m"), LWMQ_OK);
  }
  ASSERT_EQ(client.close(0), LWMQ_E_TIMED_OUT);
  for (lwmq_send_queue* queue : queues) {
    const auto now = statistics_of(queue);
    EXPECT_EQ(now.posted, 5u);
    EXPECT_EQ(now.discarded, 5u);
    EXPECT_EQ(now.collected + now.queued, 0u);
  }
}

// ---- Many at once

TEST_P(SendQueuesOver, PostManyMessagesInOneCall) {
  const Meeting meeting(address_, channel_options(1024, 2));
  constexpr std::uint64_t kCount = 3000;
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < kCount; ++i) texts.push_back(std::to_string(i));
  std::vector<lwmq_bytes> frames;
  for (const std::string& text : texts) frames.push_back({text.data(), text.size()});
  for (const std::uint32_t kind : {0u, 1u, 2u}) {
    lwmq_send_queue* queue = add(meeting.client, kind);
    std::uint64_t posted = 0;
    ASSERT_EQ(lwmq_send_queue_post_many(queue, frames.data(), kCount, &posted), LWMQ_OK);
    EXPECT_EQ(posted, kCount);
    for (const std::string& text : texts) ASSERT_EQ(meeting.server.receive_text(), text);
    EXPECT_EQ(statistics_of(queue).posted, kCount);
    std::vector<lwmq_message*> messages;
    for (const std::string& text : texts) messages.push_back(make_message({text, "second frame"}));
    ASSERT_EQ(lwmq_send_queue_post_messages(queue, messages.data(), kCount, &posted), LWMQ_OK);
    EXPECT_EQ(posted, kCount);
    for (const std::string& text : texts) ASSERT_EQ(meeting.server.receive(), (Frames{text, "second frame"}));
    EXPECT_EQ(messages, std::vector<lwmq_message*>(kCount)) << "all were taken";
  }
  const std::string large(1025, 'x');
  frames[7] = {large.data(), large.size()};
  std::uint64_t posted = 99;
  EXPECT_EQ(lwmq_send_queue_post_many(meeting.client.queue, frames.data(), kCount, &posted), LWMQ_E_TOO_BIG);
  EXPECT_EQ(posted, 0u);
  EXPECT_NE(
      std::string(lwmq_last_error()).find("message 7 of 3000, of 1025 bytes, does not fit a buffer of 1024"),
      std::string::npos)
      << lwmq_last_error();
}

// Over one transport, over two, and over two that are redundant.
TEST_P(SendQueuesOver, PostNoneOfManyWhereOneOfThemCannotBe) {
  const auto refuse = [](const End& end) {
    lwmq_send_queue* queue = add(end, kMulti);
    const std::string large(1025, 'x');
    std::uint64_t posted = 99;
    for (const auto& [bad, status] : {std::pair{lwmq_bytes{nullptr, 5}, LWMQ_E_INVALID},
                                      {lwmq_bytes{large.data(), large.size()}, LWMQ_E_TOO_BIG}}) {
      const lwmq_bytes frames[] = {{"first", 5}, bad, {"third", 5}};
      posted = 99;
      EXPECT_EQ(lwmq_send_queue_post_many(queue, frames, 3, &posted), status) << lwmq_last_error();
      EXPECT_EQ(posted, 0u);
    }
    for (const auto& [bad, status] : {std::pair{static_cast<lwmq_message*>(nullptr), LWMQ_E_INVALID},
                                      {make_message({large}), LWMQ_E_TOO_BIG}}) {
      lwmq_message* messages[] = {make_message({"first"}), bad, make_message({"third"})};
      posted = 99;
      EXPECT_EQ(lwmq_send_queue_post_messages(queue, messages, 3, &posted), status) << lwmq_last_error();
      EXPECT_EQ(posted, 0u);
      ASSERT_NE(messages[0], nullptr);
      EXPECT_EQ(frames_of(messages[0]), Frames{"first"}) << "still ours";
      EXPECT_EQ(messages[1], bad);
      for (lwmq_message* message : messages) lwmq_message_destroy(message);
    }
    EXPECT_EQ(statistics_of(queue).posted, 0u);
    EXPECT_EQ(end.statistics().messages_posted, 0u);
  };
  refuse(End(address_, LWMQ_ROLE_SERVER));
  for (const bool redundant : {false, true}) {
    refuse(
        end_at_both({GetParam().fresh_address(), GetParam().fresh_address()}, LWMQ_ROLE_SERVER, redundant));
  }
}

// rows: Z06
TEST_P(SendQueuesOver, ClubAsManyMessagesAsTheLoadMakesAndOneWhereItIsSparse) {
  const Meeting meeting(address_, channel_options(1024, 2));
  const auto sparse = [&] {
    for (int i = 0; i < 3; ++i) {
      const auto before = meeting.client.statistics();
      ASSERT_EQ(meeting.client.post("alone"), LWMQ_OK);
      ASSERT_EQ(meeting.server.receive_text(), "alone");
      ASSERT_EQ(statistics_of(meeting.client.queue).queued, 0u) << "it waited for nothing";
      ASSERT_TRUE(eventually(
          [&] { return meeting.client.statistics().buffers_shipped == before.buffers_shipped + 1; }));
      ASSERT_EQ(meeting.client.statistics().shipped_full, before.shipped_full) << "one message in a buffer";
    }
  };
  sparse();
  const auto before = meeting.client.statistics();
  constexpr int kMessages = 5000;
  for (int i = 0; i < kMessages; ++i) ASSERT_EQ(meeting.client.post("many"), LWMQ_OK);
  EXPECT_GT(statistics_of(meeting.client.queue).queued, 0u) << "more come than are read";
  for (int i = 0; i < kMessages; ++i) ASSERT_EQ(meeting.server.receive_text(), "many");
  const auto after = meeting.client.statistics();
  EXPECT_GT(after.messages_shipped - before.messages_shipped,
            20 * (after.buffers_shipped - before.buffers_shipped));
  ASSERT_EQ(lwmq_channel_flush(meeting.client.channel, kLimitMs), LWMQ_OK);
  sparse();
}

// ---- Priorities

// Everything is queued before a peer comes, so that the order of arrival is the order of choice.
// rows: L41 L46 M19 S01
TEST_P(SendQueuesOver, ShareAChannelByWeightBetweenStrictEnds) {
  const End client(address_, LWMQ_ROLE_CLIENT);
  std::map<char, std::uint32_t> priorities = {{'t', 1}, {'h', 2}, {'a', 3}, {'n', 4},
                                              {'b', 5}, {'l', 6}, {'i', 7}};
  constexpr int kEach = 4000;
  for (const auto& [name, priority] : priorities) {
    lwmq_send_queue* queue = add(client, LWMQ_QUEUE_MULTI_UNBOUNDED, 0, priority);
    for (int i = 0; i < kEach; ++i) ASSERT_EQ(lwmq_send_queue_post_bytes(queue, &name, 1), LWMQ_OK);
  }
  const End server(address_, LWMQ_ROLE_SERVER);
  for (int i = 0; i < kEach; ++i) ASSERT_EQ(server.receive_text(), "t");
  std::map<char, double> served;
  constexpr int kSeen = 7000;  // saturated: the heaviest has 4000 * 31 / 16 = 7750 rounds' worth
  for (int i = 0; i < kSeen; ++i) ++served[server.receive_text()[0]];
  const std::map<char, double> weights = {{'h', 16}, {'a', 8}, {'n', 4}, {'b', 2}, {'l', 1}};
  for (const auto& [name, weight] : weights) {
    EXPECT_NEAR(served[name] / kSeen, weight / 31, 0.02 * weight / 31) << name;
  }
  EXPECT_EQ(served.count('i'), 0u);
  for (int i = kSeen; i < 5 * kEach; ++i) ASSERT_NE(server.receive_text(), "i");
  for (int i = 0; i < kEach; ++i) ASSERT_EQ(server.receive_text(), "i");
}

// Everything is queued before a peer comes, as above: who has posted how quickly decides nothing.
// rows: L41
TEST_P(SendQueuesOver, ShareByWeightsThatAreSetWhileManyThreadsPost) {
  const End client(address_, LWMQ_ROLE_CLIENT);
  constexpr std::uint32_t kWeights[] = {5, 4, 3, 2, 1};
  constexpr int kEach = 6000;
  std::vector<std::thread> posting;
  for (std::uint32_t i = 0; i < 5; ++i) {
    lwmq_send_queue* queue = add(client, LWMQ_QUEUE_MULTI_UNBOUNDED, 0, LWMQ_PRIORITY_HIGHEST + i);
    posting.emplace_back([queue, i] {
      const char name = static_cast<char>('a' + i);
      for (int n = 0; n < kEach; ++n) ASSERT_EQ(lwmq_send_queue_post_bytes(queue, &name, 1), LWMQ_OK);
    });
  }
  ASSERT_EQ(lwmq_channel_set_weights(client.channel, kWeights, 5), LWMQ_OK);
  for (auto& thread : posting) thread.join();
  const End server(address_, LWMQ_ROLE_SERVER);
  std::map<char, double> served;
  constexpr int kSeen = 15000;  // the heaviest lasts for kEach * 15 / 5 of them
  for (int i = 0; i < kSeen; ++i) ++served[server.receive_text()[0]];
  for (std::uint32_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(served[static_cast<char>('a' + i)] / kSeen, kWeights[i] / 15.0, 0.02 * kWeights[i] / 15.0)
        << i;
  }
}

// rows: L50
TEST_P(SendQueuesOver, MoveAQueueWithItsMessagesToAnotherPriority) {
  const End client(address_, LWMQ_ROLE_CLIENT);
  lwmq_send_queue* first = add(client, LWMQ_QUEUE_MULTI_UNBOUNDED, 0, LWMQ_PRIORITY_TIME_CRITICAL);
  lwmq_send_queue* second = add(client, kTagged, 0, LWMQ_PRIORITY_IDLE);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(post(first, "f" + std::to_string(i)), LWMQ_OK);
    ASSERT_EQ(post(second, "s" + std::to_string(i)), LWMQ_OK);
  }
  ASSERT_EQ(lwmq_send_queue_set_priority(first, LWMQ_PRIORITY_IDLE), LWMQ_OK);
  ASSERT_EQ(lwmq_send_queue_set_priority(second, LWMQ_PRIORITY_HIGHEST), LWMQ_OK);
  EXPECT_EQ(statistics_of(second).priority, static_cast<std::uint32_t>(LWMQ_PRIORITY_HIGHEST));
  const End server(address_, LWMQ_ROLE_SERVER);
  EXPECT_EQ(joined(server, 6), "s0 s1 s2 f0 f1 f2");
}

// rows: L49
TEST_P(SendQueuesOver, CarryAThousandQueuesOnOneChannel) {
  const Meeting meeting(address_);
  constexpr int kQueues = 1000;
  constexpr int kRounds = 10;
  std::vector<lwmq_send_queue*> queues;
  for (int i = 0; i < kQueues; ++i)
    queues.push_back(add(meeting.client, i % 3, 0, static_cast<std::uint32_t>(2 + i % 5)));
  std::vector<std::thread> posting;
  for (int t = 0; t < 2; ++t) {
    posting.emplace_back([&, t] {
      for (int round = 0; round < kRounds; ++round) {
        for (int i = t; i < kQueues; i += 2) {
          const std::string text = std::to_string(i) + ":" + std::to_string(round);
          ASSERT_EQ(lwmq_send_queue_post_bytes(queues[i], text.data(), text.size()), LWMQ_OK);
        }
      }
    });
  }
  std::vector<int> next(kQueues, 0);
  for (int i = 0; i < kQueues * kRounds; ++i) {
    const std::string text = meeting.server.receive_text();
    ASSERT_NE(text[0], '<') << text << " after " << i;
    ASSERT_EQ(text.substr(text.find(':') + 1), std::to_string(next[std::stoul(text)]++));
  }
  for (auto& thread : posting) thread.join();
}

// ---- Completions

// rows: S05 S02 S03
TEST_P(SendQueuesOver, ReleaseDiscardedMessagesUnderNoLockSoThatACallBackMayPost) {
  struct Context {
    lwmq_send_queue* queue;
    int released = 0;
  };
  const End client(address_, LWMQ_ROLE_CLIENT);
  for (const std::uint32_t kind : {kOldest, kNewest, kTagged}) {
    Context context{add(client, kind, kind == kTagged ? 0 : 1)};
    const auto callback = [](void* argument, std::int32_t event) {
      auto* mine = static_cast<Context*>(argument);
      if (event != LWMQ_FRAME_RELEASE) return;
      ++mine->released;
      EXPECT_EQ(post(mine->queue, "from the call-back"), LWMQ_OK);
      EXPECT_GE(statistics_of(mine->queue).posted, 2u);
    };
    for (int i = 0; i < 2; ++i) {
      lwmq_message* message = make_message({});
      if (i == (kind == kNewest ? 1 : 0)) {
        ASSERT_EQ(lwmq_message_append_external(message, "external", 8, callback, &context), LWMQ_OK);
      }
      ASSERT_EQ(lwmq_send_queue_post_tagged(context.queue, kind == kTagged ? 4 : 0, &message), LWMQ_OK);
    }
    EXPECT_EQ(context.released, 1) << "kind " << kind;
  }
}

LWMQ_OVER_PROVIDERS(SendQueuesOver);

}  // namespace
}  // namespace lwmq::conformance
