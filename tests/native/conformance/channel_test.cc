// What a channel promises, over every provider: the same program, only the address differs.
#include <poll.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <tuple>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "conformance/transport_pair.h"
#include "least_of.h"
#include "tli/registry.h"

namespace lwmq::conformance {
namespace {

using namespace std::chrono_literals;

class ChannelOver : public ::testing::TestWithParam<Subject> {
 protected:
  std::string address_ = GetParam().fresh_address();
};

// ---- Messages

// rows: M01 M02 M11
TEST_P(ChannelOver, BringsMessagesBothWays) {
  const Meeting meeting(address_);
  EXPECT_EQ(meeting.client.post("buy 100"), LWMQ_OK);
  EXPECT_EQ(meeting.server.receive_text(), "buy 100");
  EXPECT_EQ(meeting.server.post("done"), LWMQ_OK);
  EXPECT_EQ(meeting.client.receive_text(), "done");
}

// rows: M01 L40
TEST_P(ChannelOver, BringsAllFramesOfAMessageTogether) {
  const Meeting meeting(address_);
  const std::vector<Frames> messages = {{"head", "body"},
                                        {},
                                        {""},
                                        {"", ""},
                                        {"a", "b", "c", "d", "e"},
                                        {std::string(300, 'x'), std::string(301, 'y')}};
  for (const auto& frames : messages) ASSERT_EQ(meeting.client.post(frames), LWMQ_OK);
  for (const auto& frames : messages) EXPECT_EQ(meeting.server.receive(), frames);
}

TEST_P(ChannelOver, KeepsTheOrderOfAQueueUnderLoad) {
  const Meeting meeting(address_);
  constexpr int kMessages = 20000;
  std::thread posting([&] {
    for (int i = 0; i < kMessages; ++i) ASSERT_EQ(meeting.client.post(std::to_string(i)), LWMQ_OK);
  });
  for (int i = 0; i < kMessages; ++i) ASSERT_EQ(meeting.server.receive_text(), std::to_string(i));
  posting.join();
  EXPECT_EQ(meeting.client.statistics().messages_posted, static_cast<std::uint64_t>(kMessages));
  EXPECT_EQ(meeting.server.statistics().messages_received, static_cast<std::uint64_t>(kMessages));
}

// rows: L42
TEST_P(ChannelOver, TakesMessagesOfManyQueuesFromManyThreads) {
  const Meeting meeting(address_);
  constexpr int kQueues = 5;
  constexpr int kEach = 2000;
  std::vector<std::thread> posting;
  for (int q = 0; q < kQueues; ++q) {
    lwmq_send_queue_options options{};
    options.size = sizeof options;
    options.priority = static_cast<std::uint32_t>(LWMQ_PRIORITY_HIGHEST + q % 3);
    lwmq_send_queue* queue = nullptr;
    ASSERT_EQ(lwmq_channel_add_send_queue(meeting.client.channel, &options, &queue), LWMQ_OK);
    posting.emplace_back([queue, q] {
      for (int i = 0; i < kEach; ++i) {
        const std::string text = std::to_string(q) + ":" + std::to_string(i);
        ASSERT_EQ(lwmq_send_queue_post_bytes(queue, text.data(), text.size()), LWMQ_OK);
      }
    });
  }
  std::map<char, int> next;
  for (int i = 0; i < kQueues * kEach; ++i) {
    const std::string text = meeting.server.receive_text();
    ASSERT_EQ(text.substr(2), std::to_string(next[text[0]]++)) << text;
  }
  for (auto& thread : posting) thread.join();
}

// rows: S04
TEST_P(ChannelOver, ClosesWithoutLingerAndMissesNothingThatWasReceived) {
  if (GetParam().is_late) GTEST_SKIP() << "what was sent is on its way for a while";
  for (const int left : {0, 3}) {
    const Meeting meeting(GetParam().fresh_address());
    for (int i = 0; i < 10; ++i) ASSERT_EQ(meeting.client.post(std::to_string(i)), LWMQ_OK);
    // The buffer that they lie in is not full: it stays the peer's.
    for (int i = 0; i < 10 - left; ++i) ASSERT_EQ(meeting.server.receive_text(), std::to_string(i));
    // Over memory the close sees it.
    if (GetParam().name == kFar.name) {
      ASSERT_TRUE(
          eventually([&] { return meeting.client.statistics().messages_unread == std::uint64_t(left); }));
    }
    const lwmq_status status = meeting.client.close(0);
    if (left == 0) {
      EXPECT_EQ(status, LWMQ_OK) << lwmq_last_error();
    } else {
      EXPECT_EQ(status, LWMQ_E_TIMED_OUT);
      // Some that were received may have landed in a run with the others.
      EXPECT_NE(std::string(lwmq_last_error()).find(" were shipped and not seen read"), std::string::npos);
    }
  }
}

// rows: L53
TEST_P(ChannelOver, RejectsAMessageThatDoesNotFitABufferAndLeavesItToTheCaller) {
  const Meeting meeting(address_);
  EXPECT_EQ(meeting.client.post(std::string(1023, 'a')), LWMQ_OK);
  EXPECT_EQ(meeting.client.post(std::string(1024, 'b')), LWMQ_OK);
  EXPECT_EQ(meeting.client.post(std::string(1025, 'c')), LWMQ_E_TOO_BIG);
  lwmq_message* message = make_message({std::string(1025, 'd')});
  EXPECT_EQ(lwmq_send_queue_post(meeting.client.queue, &message), LWMQ_E_TOO_BIG);
  const std::string text = lwmq_last_error();
  EXPECT_NE(text.find("message of 1025 bytes does not fit a buffer of 1024"), std::string::npos) << text;
  EXPECT_NE(text.find(address_), std::string::npos) << text;
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(frames_of(message), Frames{std::string(1025, 'd')}) << "it is still ours, and whole";
  lwmq_message_destroy(message);
  // Two frames have headers: 16 for the message, 8 for each frame.
  EXPECT_EQ(meeting.client.post(Frames{std::string(496, 'e'), std::string(496, 'f')}), LWMQ_OK);
  EXPECT_EQ(meeting.client.post(Frames{std::string(496, 'e'), std::string(497, 'f')}), LWMQ_E_TOO_BIG);
  EXPECT_EQ(meeting.client.post("after all that"), LWMQ_OK);
  for (const char first : {'a', 'b'}) EXPECT_EQ(meeting.server.receive_text()[0], first);
  EXPECT_EQ(meeting.server.receive().size(), 2u);
  EXPECT_EQ(meeting.server.receive_text(), "after all that") << "nothing of what was rejected was sent";
}

// rows: L55 S06
TEST_P(ChannelOver, TakesMessagesThatWereMadeBeforeItAndShownElsewhere) {
  lwmq_message* message = make_message({"kept", std::string(600, 'k')});
  const Meeting first(address_);
  const Meeting second(GetParam().fresh_address());
  for (const Meeting* meeting : {&first, &second, &first}) {
    lwmq_message* reference = nullptr;
    ASSERT_EQ(lwmq_message_reference(message, &reference), LWMQ_OK);
    ASSERT_EQ(lwmq_send_queue_post(meeting->client.queue, &reference), LWMQ_OK);
  }
  lwmq_message_destroy(message);
  for (const Meeting* meeting : {&first, &second, &first}) {
    EXPECT_EQ(meeting->server.receive(), (Frames{"kept", std::string(600, 'k')}));
  }
}

// rows: M01 S05
TEST_P(ChannelOver, CarriesAsManyFramesAsAMessageCanHaveAndRefusesOneMore) {
  constexpr std::uint32_t kMost = 65535;
  lwmq_limits limits{};
  limits.size = sizeof limits;
  ASSERT_EQ(lwmq_query_limits(address_.c_str(), &limits), LWMQ_OK);
  EXPECT_EQ(limits.frames_max, kMost);
  if (limits.buffer_bytes_max < std::uint64_t{kMost} * 16 + 16) GTEST_SKIP() << "the largest unit is smaller";
  const Meeting meeting(address_, channel_options(2 << 20, 2));
  for (const std::uint32_t count : {kMost - 1, kMost}) {
    lwmq_message* message = nullptr;
    ASSERT_EQ(lwmq_message_create(0, &message), LWMQ_OK);
    for (std::uint32_t i = 0; i < count; ++i)
      ASSERT_EQ(lwmq_message_append(message, &i, i % 5), LWMQ_OK) << lwmq_last_error();
    if (count == kMost) {
      EXPECT_EQ(lwmq_message_append(message, "x", 1), LWMQ_E_TOO_BIG);
      EXPECT_STREQ(lwmq_last_error(), "frame 65536 of a message: it has at most 65535");
    }
    ASSERT_EQ(lwmq_send_queue_post(meeting.client.queue, &message), LWMQ_OK) << lwmq_last_error();
    ASSERT_EQ(lwmq_channel_receive(meeting.server.channel, kLimitMs, &message), LWMQ_OK);
    ASSERT_EQ(lwmq_message_frame_count(message), count);
    for (std::uint32_t i = 0; i < count; ++i) {
      const void* data = nullptr;
      std::uint64_t bytes = 0;
      ASSERT_EQ(lwmq_message_frame(message, i, &data, &bytes), LWMQ_OK);
      ASSERT_EQ(bytes, i % 5);
      ASSERT_EQ(std::memcmp(data, &i, bytes), 0);
    }
    lwmq_message_destroy(message);
  }
}

// rows: S05
TEST_P(ChannelOver, SaysHowLongAFrameOfMoreThan32BitsIs) {
  const Meeting meeting(address_);
  lwmq_message* message = make_message({});
  ASSERT_EQ(lwmq_message_append_static(message, "not looked at", 5'000'000'000), LWMQ_OK);
  EXPECT_EQ(lwmq_send_queue_post(meeting.client.queue, &message), LWMQ_E_TOO_BIG);
  EXPECT_NE(std::string(lwmq_last_error()).find("message of 5000000000 bytes does not fit a buffer of 1024"),
            std::string::npos)
      << lwmq_last_error();
  lwmq_message_destroy(message);
}

// rows: S07
TEST_P(ChannelOver, CarriesTheTimestampsOfFrames) {
  const Meeting meeting(address_);
  for (const std::size_t frames : {1u, 3u}) {
    lwmq_message* message = make_message(Frames(frames, "frame"));
    const auto last = static_cast<std::uint32_t>(frames - 1);
    ASSERT_EQ(lwmq_message_set_timestamp(message, last, LWMQ_TIMESTAMP_PRECISE, 0), LWMQ_OK);
    std::uint64_t sent = 0;
    ASSERT_EQ(lwmq_message_timestamp(message, last, &sent), LWMQ_OK);
    EXPECT_GT(sent, 0u);
    ASSERT_EQ(lwmq_send_queue_post(meeting.client.queue, &message), LWMQ_OK);
    ASSERT_EQ(lwmq_channel_receive(meeting.server.channel, kLimitMs, &message), LWMQ_OK);
    ASSERT_EQ(lwmq_message_frame_count(message), frames);
    for (std::uint32_t i = 0; i < frames; ++i) {
      std::uint64_t ticks = 1;
      ASSERT_EQ(lwmq_message_timestamp(message, i, &ticks), LWMQ_OK);
      EXPECT_EQ(ticks, i == last ? sent : 0);
    }
    lwmq_message_destroy(message);
  }
}

TEST_P(ChannelOver, PassesAReceivedMessageOn) {
  const Meeting first(address_);
  const Meeting second(GetParam().fresh_address());
  ASSERT_EQ(first.client.post(Frames{"through", "two channels"}), LWMQ_OK);
  lwmq_message* message = nullptr;
  ASSERT_EQ(lwmq_channel_receive(first.server.channel, kLimitMs, &message), LWMQ_OK);
  ASSERT_EQ(lwmq_send_queue_post(second.client.queue, &message), LWMQ_OK);
  EXPECT_EQ(second.server.receive(), (Frames{"through", "two channels"}));
}

// Large messages are views into the peer's buffer: it comes back when the message goes, whoever goes first.
TEST_P(ChannelOver, KeepsALargeMessageReadableAfterBothChannelsAreGone) {
  constexpr std::uint64_t kBytes = 100000;
  lwmq_limits limits{};
  limits.size = sizeof limits;
  ASSERT_EQ(lwmq_query_limits(address_.c_str(), &limits), LWMQ_OK);
  if (limits.buffer_bytes_max < kBytes) GTEST_SKIP() << "the largest unit is smaller";
  lwmq_message* message = nullptr;
  {
    const Meeting meeting(address_, channel_options(kBytes, 2));
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(meeting.client.post(std::string(kBytes, static_cast<char>('a' + i))), LWMQ_OK);
      ASSERT_EQ(meeting.server.receive_text(), std::string(kBytes, static_cast<char>('a' + i)));
    }
    ASSERT_EQ(meeting.client.post(std::string(kBytes, 'z')), LWMQ_OK);
    ASSERT_EQ(lwmq_channel_receive(meeting.server.channel, kLimitMs, &message), LWMQ_OK);
  }
  EXPECT_EQ(frames_of(message), Frames{std::string(kBytes, 'z')});
  std::thread([message] { lwmq_message_destroy(message); }).join();
}

// Each way of receiving, with an application that gives nothing back: the peer has buffers for more all the
// same.
// rows: L14 M01
TEST_P(ChannelOver, BringsEverythingToWhoKeepsAllMessages) {
  lwmq_limits limits{};
  limits.size = sizeof limits;
  ASSERT_EQ(lwmq_query_limits(address_.c_str(), &limits), LWMQ_OK);
  const std::uint64_t buffer_bytes = std::min<std::uint64_t>(limits.buffer_bytes_max, 16 << 10);
  for (const std::uint32_t buffers : {1u, 2u, 3u, 8u, 100u}) {
    const std::uint32_t messages = static_cast<std::uint32_t>(GetParam().rounds(500)) + 2 * buffers;
    const Meeting meeting(GetParam().fresh_address(), channel_options(buffer_bytes, buffers));
    // Those of 4 KiB and more lie where they landed; here three in a buffer, or one.
    const std::uint64_t sizes[] = {buffer_bytes * 2 / 7, buffer_bytes * 9 / 10, 100};
    std::thread posting([&] {
      for (std::uint32_t i = 0; i < messages; ++i) {
        const std::string content(sizes[i % 3], static_cast<char>('a' + i % 26));
        ASSERT_EQ(meeting.client.post(content), LWMQ_OK);
      }
    });
    std::vector<lwmq_message*> kept;
    while (kept.size() < messages) {
      lwmq_message* some[7] = {};
      std::uint32_t count = 1;
      const lwmq_status status =
          kept.size() % 2 == 0 ? lwmq_channel_receive(meeting.server.channel, kLimitMs, &some[0])
                               : lwmq_channel_receive_many(meeting.server.channel, 7, kLimitMs, some, &count);
      ASSERT_EQ(status, LWMQ_OK) << lwmq_last_error() << " after " << kept.size() << " of " << buffers
                                 << " buffers";
      kept.insert(kept.end(), some, some + count);
    }
    posting.join();
    EXPECT_EQ(lwmq_channel_flush(meeting.client.channel, kLimitMs), LWMQ_OK);
    for (std::uint32_t i = 0; i < messages; ++i) {
      const Frames frames = frames_of(kept[i]);
      ASSERT_EQ(frames, Frames{std::string(sizes[i % 3], static_cast<char>('a' + i % 26))}) << i;
      lwmq_message_destroy(kept[i]);
    }
  }
}

// ---- Clubbing and shipping

// rows: L29 L31
TEST_P(ChannelOver, ClubsMessagesUnderLoadAndCountsWhyBuffersWereShipped) {
  const Meeting meeting(address_, channel_options(1024, 2));
  constexpr int kMessages = 1000;
  for (int i = 0; i < kMessages; ++i) ASSERT_EQ(meeting.client.post(std::to_string(i)), LWMQ_OK);
  for (int i = 0; i < kMessages; ++i) ASSERT_EQ(meeting.server.receive_text(), std::to_string(i));
  EXPECT_TRUE(eventually([&] { return meeting.client.statistics().shipped_idle > 0; }))
      << "the last buffer is shipped when the queues stay empty";
  const auto statistics = meeting.client.statistics();
  EXPECT_EQ(statistics.messages_shipped, static_cast<std::uint64_t>(kMessages));
  EXPECT_GT(statistics.shipped_full, 0u);
  EXPECT_EQ(statistics.buffers_shipped, statistics.shipped_full + statistics.shipped_idle);
  EXPECT_LT(statistics.buffers_shipped, static_cast<std::uint64_t>(kMessages) / 10) << "many in a buffer";
}

// rows: L30 L31
TEST_P(ChannelOver, LetsALoneMessageLeaveAtOnce) {
  const Meeting meeting(address_);
  ASSERT_EQ(meeting.client.post("alone"), LWMQ_OK);
  EXPECT_EQ(meeting.server.receive_text(), "alone");
  EXPECT_EQ(meeting.client.statistics().shipped_full, 0u) << "nothing had to fill the buffer first";
}

TEST_P(ChannelOver, DoesNotLoseWhatWasPostedWhileNoBufferWasFree) {
  const Meeting meeting(address_, channel_options(256, 2));
  const int messages = GetParam().rounds(500);
  for (int i = 0; i < messages; ++i)
    ASSERT_EQ(meeting.client.post(std::string(200, 'x') + std::to_string(i)), LWMQ_OK);
  EXPECT_LT(meeting.client.statistics().messages_shipped, static_cast<std::uint64_t>(messages));
  // The application of the sender does nothing any more: the service thread ships the rest.
  for (int i = 0; i < messages; ++i) {
    ASSERT_EQ(meeting.server.receive_text(), std::string(200, 'x') + std::to_string(i));
  }
}

// rows: S04
TEST_P(ChannelOver, AFlushThatWaitsForRoomEndsWithASignal) {
  struct sigaction handled {};
  handled.sa_handler = [](int) {};
  struct sigaction before {};
  sigaction(SIGUSR1, &handled, &before);
  {
    const Meeting meeting(address_, channel_options(256, 2));
    for (int i = 0; i < 20; ++i) ASSERT_EQ(meeting.client.post(std::string(200, 'x')), LWMQ_OK);
    std::atomic<bool> over{false};
    const pthread_t flushing = pthread_self();
    std::thread signalling([&] {
      while (!over) {
        std::this_thread::sleep_for(20ms);
        pthread_kill(flushing, SIGUSR1);
      }
    });
    EXPECT_EQ(lwmq_channel_flush(meeting.client.channel, kLimitMs), LWMQ_E_INTERRUPTED);
    over = true;
    signalling.join();
  }
  sigaction(SIGUSR1, &before, nullptr);
}

// rows: S04
TEST_P(ChannelOver, FlushesOrSaysThatThereWasNoTime) {
  const Meeting meeting(address_, channel_options(256, 2));
  EXPECT_EQ(lwmq_channel_flush(meeting.client.channel, 0), LWMQ_OK) << "nothing to flush";
  for (int i = 0; i < 20; ++i) ASSERT_EQ(meeting.client.post(std::string(200, 'x')), LWMQ_OK);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(lwmq_channel_flush(meeting.client.channel, 50), LWMQ_E_TIMED_OUT);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 45ms);
  std::thread receiving([&] {
    for (int i = 0; i < 20; ++i) meeting.server.receive();
  });
  EXPECT_EQ(lwmq_channel_flush(meeting.client.channel, kLimitMs), LWMQ_OK);
  receiving.join();
  EXPECT_EQ(meeting.client.statistics().messages_shipped, 20u);
}

// ---- Roles and order of start

// rows: S08
TEST_P(ChannelOver, LetsTheServerStartFirst) {
  const End server(address_, LWMQ_ROLE_SERVER);
  ASSERT_EQ(server.post("early"), LWMQ_OK);
  const End client(address_, LWMQ_ROLE_CLIENT);
  EXPECT_EQ(client.receive_text(), "early");
}

// rows: S08
TEST_P(ChannelOver, LetsTheClientStartFirst) {
  const End client(address_, LWMQ_ROLE_CLIENT);
  ASSERT_EQ(client.post("early"), LWMQ_OK);
  EXPECT_EQ(client.wait_connected(30), LWMQ_E_TIMED_OUT);
  const End server(address_, LWMQ_ROLE_SERVER);
  EXPECT_EQ(server.receive_text(), "early");
}

// rows: S08
TEST_P(ChannelOver, LetsTwoAutomaticEndsFindTheirRoles) {
  const End first(address_, LWMQ_ROLE_AUTO);
  const End second(address_, LWMQ_ROLE_AUTO);
  ASSERT_EQ(second.post("hello"), LWMQ_OK);
  EXPECT_EQ(first.receive_text(), "hello");
  EXPECT_EQ(first.statistics().is_server, 1u);
  EXPECT_EQ(second.statistics().is_server, 0u);
}

TEST_P(ChannelOver, RefusesASecondServer) {
  const End server(address_, LWMQ_ROLE_SERVER);
  End second;
  second.create(address_, channel_options(1024, 8));
  EXPECT_EQ(lwmq_channel_open(second.channel, LWMQ_ROLE_SERVER), LWMQ_E_ADDRESS);
  EXPECT_NE(std::string(lwmq_last_error()).find(address_), std::string::npos) << lwmq_last_error();
}

// rows: S08
TEST_P(ChannelOver, GoesOnWithANewClientWhereTheOldOneHasClosed) {
  Meeting meeting(address_);
  ASSERT_EQ(meeting.client.post("from the first"), LWMQ_OK);
  EXPECT_EQ(meeting.client.close(0), LWMQ_E_TIMED_OUT) << "not read yet";
  EXPECT_EQ(meeting.server.receive_text(), "from the first") << "what was shipped is read all the same";
  EXPECT_EQ(meeting.server.receive_text(), "<LWMQ_E_CLOSED>") << "once";
  const End second(address_, LWMQ_ROLE_CLIENT);
  ASSERT_EQ(second.post("from the second"), LWMQ_OK);
  EXPECT_EQ(meeting.server.receive_text(), "from the second");
  ASSERT_EQ(meeting.server.post("answer"), LWMQ_OK);
  EXPECT_EQ(second.receive_text(), "answer");
}

// rows: S08
TEST_P(ChannelOver, GoesOnWithANewServerWhereTheOldOneHasClosed) {
  Meeting meeting(address_);
  meeting.server.destroy();
  EXPECT_EQ(meeting.client.receive_text(), "<LWMQ_E_CLOSED>");
  ASSERT_EQ(meeting.client.post("queued for the next"), LWMQ_OK);
  const End server(address_, LWMQ_ROLE_SERVER);
  EXPECT_EQ(server.receive_text(), "queued for the next");
}

// A client that only posts never asks: it hears of the new server by itself.
TEST_P(ChannelOver, ReconnectsAClientThatOnlyPosts) {
  Meeting meeting(address_);
  meeting.server.destroy();
  const End server(address_, LWMQ_ROLE_SERVER);
  std::atomic<bool> over{false};
  std::thread posting([&] {
    for (int i = 0; !over; ++i) {
      ASSERT_EQ(meeting.client.post(std::to_string(i)), LWMQ_OK);
      std::this_thread::sleep_for(1ms);
    }
  });
  EXPECT_NE(server.receive_text(), "<LWMQ_E_TIMED_OUT>");
  over = true;
  posting.join();
}

TEST_P(ChannelOver, HandsWhatWasOnlyQueuedToTheNextPeerAndCountsTheRestAsLost) {
  Meeting meeting(address_, channel_options(256, 2));
  for (int i = 0; i < 10; ++i)
    ASSERT_EQ(meeting.client.post(std::string(200, 'x') + std::to_string(i)), LWMQ_OK);
  meeting.server.destroy();
  EXPECT_EQ(meeting.client.receive_text(), "<LWMQ_E_CLOSED>");
  const auto statistics = meeting.client.statistics();
  // Two buffers of one message each; a peer may give some back while it closes, and then there was room for
  // more.
  EXPECT_GE(statistics.messages_lost, 2u);
  EXPECT_EQ(statistics.messages_lost, statistics.messages_shipped) << "it had read none";
  const End server(address_, LWMQ_ROLE_SERVER, channel_options(256, 2));
  for (auto i = statistics.messages_shipped; i < 10; ++i) {
    EXPECT_EQ(server.receive_text(), std::string(200, 'x') + std::to_string(i));
  }
}

// rows: L34 L54
TEST_P(ChannelOver, AccountsForEveryMessageWhilePeersComeAndGo) {
  constexpr int kMessages = 30000;
  constexpr int kServers = 15;
  End client(address_, LWMQ_ROLE_CLIENT);
  std::thread posting([&] {
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_EQ(client.post(std::to_string(i)), LWMQ_OK);
      if (i % 500 == 0) std::this_thread::sleep_for(1ms);
    }
  });
  std::uint64_t received = 0;
  int last = -1;
  const auto take = [&](const End& server, std::uint32_t timeout_ms) {
    const std::string text = server.receive_text(timeout_ms);
    if (text[0] == '<') return false;
    EXPECT_GT(std::stoi(text), last) << "in order, and never twice";
    last = std::stoi(text);
    ++received;
    return true;
  };
  for (int s = 0; s < kServers; ++s) {
    const End server(address_, LWMQ_ROLE_SERVER);
    for (int i = 0; i < 100 + 37 * s; ++i) take(server, 1000);
  }
  posting.join();
  {
    const End server(address_, LWMQ_ROLE_SERVER);
    while (last != kMessages - 1 && take(server, kLimitMs)) continue;
  }
  EXPECT_EQ(last, kMessages - 1);
  // The client hears of the last one's end; then the account is closed.
  for (int i = 0; i <= kServers; ++i) EXPECT_EQ(client.receive_text(), "<LWMQ_E_CLOSED>") << i;
  const auto statistics = client.statistics();
  EXPECT_EQ(statistics.messages_shipped, static_cast<std::uint64_t>(kMessages));
  EXPECT_EQ(received + statistics.messages_lost, static_cast<std::uint64_t>(kMessages));
}

// ---- Ends

TEST_P(ChannelOver, WaitsNoLongerThanAsked) {
  const Meeting meeting(address_);
  EXPECT_EQ(meeting.server.receive_text(0), "<LWMQ_E_EMPTY>");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(meeting.server.receive_text(50), "<LWMQ_E_TIMED_OUT>");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 45ms);
}

// rows: S04 Z12
TEST_P(ChannelOver, LingersUntilThePeerHasReadEverything) {
  const Meeting meeting(address_, channel_options(256, 2));
  for (int i = 0; i < 50; ++i) ASSERT_EQ(meeting.client.post(std::string(100, 'x')), LWMQ_OK);
  std::thread receiving([&] {
    for (int i = 0; i < 50; ++i) ASSERT_EQ(meeting.server.receive_text(), std::string(100, 'x'));
    // No further receive: what was read must be seen to be read without one.
  });
  EXPECT_EQ(meeting.client.close(kLimitMs), LWMQ_OK) << lwmq_last_error();
  receiving.join();
}

// A peer that closes right after its last receive could not give the buffer back any more: it says what it
// has received.
// rows: S04
TEST_P(ChannelOver, KnowsThatAPeerHadReadEverythingBeforeItClosed) {
  for (int round = 0; round < 20; ++round) {
    Meeting meeting(GetParam().fresh_address());
    for (int i = 0; i < 5; ++i) ASSERT_EQ(meeting.client.post(std::to_string(i)), LWMQ_OK);
    for (int i = 0; i < 5; ++i) ASSERT_EQ(meeting.server.receive_text(), std::to_string(i));
    meeting.server.destroy();
    ASSERT_EQ(meeting.client.close(kLimitMs), LWMQ_OK) << lwmq_last_error();
  }
}

TEST_P(ChannelOver, CountsExactlyWhatAPeerHadNotReadWhenItClosed) {
  Meeting meeting(address_);
  for (int i = 0; i < 7; ++i) ASSERT_EQ(meeting.client.post(std::to_string(i)), LWMQ_OK);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(meeting.server.receive_text(), std::to_string(i));
  meeting.server.destroy();
  EXPECT_EQ(meeting.client.receive_text(), "<LWMQ_E_CLOSED>");
  EXPECT_NE(std::string(lwmq_last_error()).find("4 messages were shipped to it and not seen read"),
            std::string::npos)
      << lwmq_last_error();
  EXPECT_EQ(meeting.client.statistics().messages_lost, 4u);
}

// While somebody waits for room, too, and nobody gets at the transport to ask.
TEST_P(ChannelOver, CountsWhatAPeerDoesNotReadWhileMoreWaits) {
  const Meeting meeting(address_, channel_options(256, 2));
  for (int i = 0; i < 10; ++i) ASSERT_EQ(meeting.client.post(std::string(100, 'x')), LWMQ_OK);
  EXPECT_TRUE(eventually([&] { return meeting.client.statistics().messages_unread == 4; }))
      << meeting.client.statistics().messages_unread;
  EXPECT_EQ(meeting.client.statistics().messages_shipped, 4u);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(meeting.server.receive_text(), std::string(100, 'x'));
  EXPECT_TRUE(eventually([&] { return meeting.client.statistics().messages_unread == 0; }));
}

// rows: S04
TEST_P(ChannelOver, SaysAfterTheLingerHowManyMessagesWereDropped) {
  const Meeting meeting(address_, channel_options(256, 2));
  for (int i = 0; i < 10; ++i) ASSERT_EQ(meeting.client.post(std::string(200, 'x')), LWMQ_OK);
  EXPECT_EQ(meeting.client.close(50), LWMQ_E_TIMED_OUT);
  const std::string text = lwmq_last_error();
  EXPECT_NE(
      text.find("8 messages were dropped before they were shipped, and 2 were shipped and not seen read"),
      std::string::npos)
      << text;
}

TEST_P(ChannelOver, AnswersClosedToEverythingAfterAClose) {
  const Meeting meeting(address_);
  EXPECT_EQ(meeting.client.close(kLimitMs), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(meeting.client.close(kLimitMs), LWMQ_E_CLOSED) << "closed twice";
  EXPECT_EQ(meeting.client.post("x"), LWMQ_E_CLOSED);
  EXPECT_EQ(meeting.client.post(Frames{"x", "y"}), LWMQ_E_CLOSED);
  EXPECT_EQ(meeting.client.receive_text(), "<LWMQ_E_CLOSED>");
  EXPECT_EQ(meeting.client.wait_connected(), LWMQ_E_CLOSED);
  EXPECT_EQ(lwmq_channel_flush(meeting.client.channel, 0), LWMQ_E_CLOSED);
  EXPECT_EQ(lwmq_channel_open(meeting.client.channel, LWMQ_ROLE_CLIENT), LWMQ_E_CLOSED);
  lwmq_send_queue* queue = nullptr;
  EXPECT_EQ(lwmq_channel_add_send_queue(meeting.client.channel, nullptr, &queue), LWMQ_E_CLOSED);
}

TEST_P(ChannelOver, SaysItsLastFiguresBehindAClose) {
  if (GetParam().is_late) GTEST_SKIP() << "what was sent is on its way for a while";
  const Meeting meeting(address_);
  ASSERT_EQ(meeting.client.post("read"), LWMQ_OK);
  EXPECT_EQ(meeting.server.receive_text(), "read");
  if (GetParam().name == kFar.name) {  // over memory the close sees it
    ASSERT_TRUE(eventually([&] { return meeting.client.statistics().messages_unread == 0; }));
  }
  ASSERT_EQ(meeting.client.post("not read"), LWMQ_OK);
  ASSERT_EQ(meeting.server.post("nor this"), LWMQ_OK);
  EXPECT_EQ(meeting.client.close(0), LWMQ_E_TIMED_OUT);
  lwmq_channel_statistics statistics{};
  statistics.size = sizeof statistics;
  ASSERT_EQ(lwmq_channel_query(meeting.client.channel, &statistics), LWMQ_OK);
  EXPECT_EQ(statistics.messages_posted, 2u);
  EXPECT_EQ(statistics.messages_shipped, 2u);
  EXPECT_EQ(statistics.messages_lost, 1u);
  EXPECT_EQ(statistics.connected, 0u);
  EXPECT_EQ(statistics.messages_unread, 0u);
  EXPECT_EQ(statistics.buffers_free, 0u);
  lwmq_send_queue_statistics queue{};
  queue.size = sizeof queue;
  ASSERT_EQ(lwmq_send_queue_query(meeting.client.queue, &queue), LWMQ_OK);
  EXPECT_EQ(queue.posted, 2u);
  EXPECT_EQ(queue.collected, 2u);
  EXPECT_EQ(queue.queued, 0u);
}

TEST_P(ChannelOver, EndsAReceiveThatWaitsWhenAnotherThreadCloses) {
  const Meeting meeting(address_);
  std::string got;
  std::thread receiving([&] { got = meeting.server.receive_text(LWMQ_FOREVER); });
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(meeting.server.close(0), LWMQ_OK);
  receiving.join();
  EXPECT_EQ(got, "<LWMQ_E_CLOSED>");
  const End lonely(GetParam().fresh_address(), LWMQ_ROLE_SERVER);
  std::thread waiting([&] { got = lonely.receive_text(LWMQ_FOREVER); });
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(lonely.close(0), LWMQ_OK);
  waiting.join();
  EXPECT_EQ(got, "<LWMQ_E_CLOSED>");
}

TEST_P(ChannelOver, LingersOnForTheNextPeerWhereOneCloses) {
  Meeting meeting(address_, channel_options(256, 2));
  for (int i = 0; i < 10; ++i)
    ASSERT_EQ(meeting.client.post(std::string(200, 'x') + std::to_string(i)), LWMQ_OK);
  lwmq_status closed = LWMQ_OK;
  std::string text;
  std::thread closing([&] {
    closed = meeting.client.close(kLimitMs);
    text = lwmq_last_error();
  });
  const Frames never_taken = {std::string(200, 'n'),
                              std::string(200, 'n')};  // too big while the channel is open
  ASSERT_TRUE(eventually([&] { return meeting.client.post(never_taken) == LWMQ_E_CLOSED; })) << "it lingers";
  EXPECT_EQ(meeting.server.receive_text(), std::string(200, 'x') + "0");
  meeting.server.destroy();
  const End server(address_, LWMQ_ROLE_SERVER, channel_options(256, 2));
  std::string last;
  while (last != std::string(200, 'x') + "9") last = server.receive_text();
  closing.join();
  // What the first had not read is lost, and said so, after everything else was delivered.
  EXPECT_EQ(closed, LWMQ_E_TIMED_OUT);
  EXPECT_NE(text.find("0 messages were dropped before they were shipped"), std::string::npos) << text;
}

// rows: L38
TEST_P(ChannelOver, MeetsItsPeerWhereAFilterWasAddedBeforeItOpened) {
  for (const std::int32_t first : {LWMQ_ROLE_SERVER, LWMQ_ROLE_CLIENT}) {
    End filtered;
    filtered.create("filters+" + address_, channel_options(1024, 4));
    ASSERT_EQ(lwmq_channel_add_filter(filtered.channel, "delay=1ms", LWMQ_FILTER_LAST), LWMQ_OK);
    ASSERT_EQ(lwmq_channel_add_filter(filtered.channel, "delay=2ms", LWMQ_FILTER_LAST), LWMQ_OK);
    ASSERT_EQ(lwmq_channel_remove_filter(filtered.channel, 0), LWMQ_OK);
    ASSERT_EQ(lwmq_channel_open(filtered.channel, first), LWMQ_OK) << lwmq_last_error();
    {
      const End other(address_, first == LWMQ_ROLE_SERVER ? LWMQ_ROLE_CLIENT : LWMQ_ROLE_SERVER);
      ASSERT_EQ(filtered.wait_connected(), LWMQ_OK) << lwmq_last_error();
      ASSERT_EQ(filtered.post("through it"), LWMQ_OK);
      EXPECT_EQ(other.receive_text(), "through it");
    }
    EXPECT_EQ(filtered.receive_text(), "<LWMQ_E_CLOSED>");
  }
}

// A peer that speaks the transport's language and none of ours.
TEST_P(ChannelOver, DropsAPeerThatSendsNonsenseAndServesTheNext) {
  const End server(address_, LWMQ_ROLE_SERVER);
  const auto& tli = provider_of(address_);
  lwmq_tli_options options = options_of(2, 1024, LWMQ_TLI_FOR_MESSAGES);
  lwmq_tli_transport* liar = nullptr;
  ASSERT_TRUE(eventually(
      [&] { return lwmq::tli::connect(tli, address_.c_str(), options, 60000, &liar) == LWMQ_OK; }));
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(tli.transport->acquire(liar, &buffer), LWMQ_OK);
  std::memcpy(buffer.next, "fine", 4);
  ASSERT_EQ(tli.transport->show(liar, &buffer, 4, 1), LWMQ_OK);
  std::memset(buffer.next, 0xff, 64);
  ASSERT_EQ(tli.transport->show(liar, &buffer, 64, 2), LWMQ_OK);
  ASSERT_EQ(tli.transport->ship(liar, &buffer), LWMQ_OK);
  EXPECT_EQ(server.receive_text(), "fine");
  const Frames answer = server.receive();
  ASSERT_EQ(answer.size(), 3u);
  EXPECT_EQ(answer[0], "LWMQ_E_CORRUPT");
  EXPECT_NE(answer[2].find("18446744073709551615 bytes, 4294967295 frames"), std::string::npos) << answer[2];
  tli.transport->close(liar, 0, 0);
  const End client(address_, LWMQ_ROLE_CLIENT);
  ASSERT_EQ(client.post("honest"), LWMQ_OK);
  EXPECT_EQ(server.receive_text(), "honest") << "and of the liar nothing more";
}

// rows: S05
TEST_P(ChannelOver, ReleasesExternalFramesOnceWhetherShippedDroppedOrRejected) {
  struct Counts {
    std::atomic<int> acquired{0};
    std::atomic<int> released{0};
  } counts;
  const auto callback = [](void* context, std::int32_t event) {
    auto* mine = static_cast<Counts*>(context);
    ++(event == LWMQ_FRAME_ACQUIRE ? mine->acquired : mine->released);
  };
  static const std::string kContent(200, 'e');
  const auto post = [&](lwmq_send_queue* queue, std::uint64_t bytes) {
    lwmq_message* message = make_message({});
    EXPECT_EQ(lwmq_message_append_external(message, kContent.data(), bytes, callback, &counts), LWMQ_OK);
    const lwmq_status status = lwmq_send_queue_post(queue, &message);
    lwmq_message_destroy(message);
    return status;
  };
  Meeting meeting(address_, channel_options(256, 2));
  for (int i = 0; i < 10; ++i) ASSERT_EQ(post(meeting.client.queue, 200), LWMQ_OK);
  lwmq_limits limits{};
  limits.size = sizeof limits;
  ASSERT_EQ(lwmq_query_limits(address_.c_str(), &limits), LWMQ_OK);
  const bool passes = (limits.capabilities & LWMQ_IS_IN_PROCESS) != 0;
  if (!passes) {
    EXPECT_TRUE(eventually([&] { return counts.released == 2; })) << counts.released << ": two were encoded";
  }
  for (int i = 0; i < 5; ++i) EXPECT_EQ(meeting.server.receive_text(), kContent);
  meeting.client.destroy();
  EXPECT_EQ(counts.released, passes ? 5 : 10) << "what the peer may still read is not released";
  meeting.server.destroy();
  EXPECT_EQ(counts.released, 10) << "what was still queued is released, too";
  const End small(GetParam().fresh_address(), LWMQ_ROLE_SERVER, channel_options(256, 2));
  lwmq_message* message = make_message({std::string(100, 'h')});
  ASSERT_EQ(lwmq_message_append_external(message, kContent.data(), 200, callback, &counts), LWMQ_OK);
  EXPECT_EQ(lwmq_send_queue_post(small.queue, &message), LWMQ_E_TOO_BIG);
  EXPECT_EQ(counts.released, 10) << "a rejected message is still the caller's";
  lwmq_message_destroy(message);
  EXPECT_EQ(counts.acquired, 11);
  EXPECT_EQ(counts.released, 11);
}

// rows: S05
TEST_P(ChannelOver, CallsBackUnderNoLockSoThatACallBackMayPost) {
  struct Context {
    const End* end;
    int posted = 0;
  };
  const Meeting meeting(address_);
  Context context{&meeting.client};
  const auto callback = [](void* argument, std::int32_t event) {
    auto* mine = static_cast<Context*>(argument);
    if (event == LWMQ_FRAME_RELEASE && mine->end->post("from the call-back") == LWMQ_OK) ++mine->posted;
  };
  lwmq_message* message = make_message({});
  ASSERT_EQ(lwmq_message_append_external(message, "external", 8, callback, &context), LWMQ_OK);
  ASSERT_EQ(lwmq_send_queue_post(meeting.client.queue, &message), LWMQ_OK);
  EXPECT_EQ(meeting.server.receive_text(), "external");
  EXPECT_EQ(meeting.server.receive_text(), "from the call-back");
  EXPECT_EQ(context.posted, 1);
}

// No layer below waits for a timer, or for more to send together: what this thread has posted it receives by
// its next call, however seldom it posts, and all of what it posts at once. How many it waits for instead.
void count_late(const Meeting& meeting, int* late) {
  lwmq_message* message = nullptr;
  std::mt19937 random(3);
  *late = 0;
  for (int round = 0; round < 60; ++round) {
    const int count = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < count; ++i) ASSERT_EQ(meeting.client.post(std::to_string(i)), LWMQ_OK);
    for (int i = 0; i < count; ++i) {
      lwmq_status status = lwmq_channel_receive(meeting.server.channel, 0, &message);
      if (status == LWMQ_E_EMPTY) {
        ++*late;
        status = lwmq_channel_receive(meeting.server.channel, kLimitMs, &message);
      }
      ASSERT_EQ(status, LWMQ_OK) << round << "/" << i;
      EXPECT_EQ(frames_of(message)[0], std::to_string(i));
      lwmq_message_destroy(message);
    }
    if (round % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 12));
  }
}

// Late is a message where the service thread holds the pump, and does not run just now: not each time, and on
// a busy machine more often.
void expect_that_nothing_is_held_back(const Meeting& meeting) {
  const int late = least_of(10, 9, [&] {
    int counted = 0;
    count_late(meeting, &counted);
    return counted;
  });
  EXPECT_LT(late, 10);
}

// rows: Z07
TEST_P(ChannelOver, HoldsNothingBackBelowThePost) {
  if (GetParam().is_late) GTEST_SKIP() << "what was sent is on its way for a while";
  expect_that_nothing_is_held_back(Meeting(address_));
}

// Those of them that the provider has.
std::vector<std::uint64_t> sizes_of_buffers(const std::string& address) {
  lwmq_limits limits{};
  limits.size = sizeof limits;
  EXPECT_EQ(lwmq_query_limits(address.c_str(), &limits), LWMQ_OK);
  std::vector<std::uint64_t> sizes = {1 << 10, 64 << 10, 4 << 20};
  std::erase_if(sizes, [&](std::uint64_t size) { return size > limits.buffer_bytes_max; });
  return sizes;
}

// rows: L30 L31
TEST_P(ChannelOver, HoldsNothingBackHoweverMuchABufferHasRoomFor) {
  if (GetParam().is_late) GTEST_SKIP() << "what was sent is on its way for a while";
  for (const std::uint64_t size : sizes_of_buffers(address_)) {
    SCOPED_TRACE(size);
    const Meeting meeting(GetParam().fresh_address(), channel_options(size, 4));
    expect_that_nothing_is_held_back(meeting);
    const auto is_counted = [&] {
      const auto counted = meeting.client.statistics();
      return counted.messages_shipped == counted.messages_posted && counted.shipped_idle > 0;
    };
    EXPECT_TRUE(eventually(is_counted));
    if (size > 1 << 10) {
      EXPECT_EQ(meeting.client.statistics().shipped_full, 0u);
    }
  }
}

// rows: L23 L27 M15
TEST_P(ChannelOver, RunsManyChannelsSideBySideEachInItsOwnOrder) {
  constexpr int kChannels = 100;
  std::vector<std::unique_ptr<Meeting>> meetings;
  for (int i = 0; i < kChannels; ++i) {
    meetings.push_back(std::make_unique<Meeting>(GetParam().fresh_address(), channel_options(256, 2)));
  }
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < kChannels; ++i) {
      ASSERT_EQ(meetings[i]->client.post(std::to_string(i) + "/" + std::to_string(round)), LWMQ_OK);
    }
  }
  for (int i = kChannels - 1; i >= 0; --i) {
    for (int round = 0; round < 5; ++round) {
      ASSERT_EQ(meetings[i]->server.receive_text(), std::to_string(i) + "/" + std::to_string(round));
    }
  }
}

// As lwmq_selector_receive.
lwmq_status wait_and_take(lwmq_selector* selector, std::uint32_t timeout_ms, lwmq_channel** out_channel,
                          lwmq_message** out_message) {
  lwmq_status status = LWMQ_E_EMPTY;
  while (status == LWMQ_E_EMPTY) {
    status = lwmq_selector_wait(selector, timeout_ms, out_channel);
    if (status != LWMQ_OK) return status;
    status = lwmq_selector_take(selector, out_message);
  }
  return status;
}

// rows: K26 K11
TEST_P(ChannelOver, ASelectorServesChannelsInTurns) {
  if (GetParam().is_late) GTEST_SKIP() << "what was sent is on its way for a while";
  const Meeting one(GetParam().fresh_address());
  const Meeting other(GetParam().fresh_address());
  lwmq_selector* selector = nullptr;
  ASSERT_EQ(lwmq_selector_create(&selector), LWMQ_OK);
  ASSERT_EQ(lwmq_selector_add(selector, one.server.channel), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(lwmq_selector_add(selector, other.server.channel), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(lwmq_selector_add(selector, one.server.channel), LWMQ_E_INVALID);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(one.client.post("one"), LWMQ_OK);
  ASSERT_EQ(other.client.post("other"), LWMQ_OK);
  ASSERT_EQ(lwmq_channel_flush(one.client.channel, kLimitMs), LWMQ_OK);
  ASSERT_EQ(lwmq_channel_flush(other.client.channel, kLimitMs), LWMQ_OK);
  std::vector<lwmq_channel*> served;
  for (int i = 0; i < 4; ++i) {
    lwmq_channel* channel = nullptr;
    lwmq_message* message = nullptr;
    ASSERT_EQ(lwmq_selector_receive(selector, kLimitMs, &channel, &message), LWMQ_OK) << lwmq_last_error();
    lwmq_message_destroy(message);
    served.push_back(channel);
  }
  EXPECT_TRUE(served[0] == other.server.channel || served[1] == other.server.channel);
  lwmq_channel* channel = one.server.channel;
  lwmq_message* message = nullptr;
  EXPECT_EQ(lwmq_selector_receive(selector, 0, &channel, &message), LWMQ_E_EMPTY);
  EXPECT_EQ(channel, nullptr);
  EXPECT_EQ(lwmq_selector_remove(selector, other.server.channel), LWMQ_OK);
  EXPECT_EQ(lwmq_selector_remove(selector, other.server.channel), LWMQ_E_INVALID);
  lwmq_selector_destroy(selector);
}

// rows: K26 K11
TEST_P(ChannelOver, WhatASelectorHasWaitedForIsTakenInTurns) {
  if (GetParam().is_late) GTEST_SKIP() << "what was sent is on its way for a while";
  const Meeting one(GetParam().fresh_address());
  const Meeting other(GetParam().fresh_address());
  lwmq_selector* selector = nullptr;
  lwmq_channel* channel = nullptr;
  lwmq_message* message = nullptr;
  ASSERT_EQ(lwmq_selector_create(&selector), LWMQ_OK);
  EXPECT_EQ(lwmq_selector_take(selector, &message), LWMQ_E_EMPTY) << "nobody has waited";
  for (const Meeting* meeting : {&one, &other}) {
    ASSERT_EQ(lwmq_selector_add(selector, meeting->server.channel), LWMQ_OK) << lwmq_last_error();
    for (int i = 0; i < 50; ++i) ASSERT_EQ(meeting->client.post(std::to_string(i)), LWMQ_OK);
    ASSERT_EQ(lwmq_channel_flush(meeting->client.channel, kLimitMs), LWMQ_OK);
  }
  std::map<lwmq_channel*, int> taken;
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(wait_and_take(selector, kLimitMs, &channel, &message), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(frames_of(message)[0], std::to_string(taken[channel]++));
    lwmq_message_destroy(message);
    EXPECT_LE(std::abs(taken[one.server.channel] - taken[other.server.channel]), 1);
    EXPECT_EQ(lwmq_selector_take(selector, &message), LWMQ_E_EMPTY) << "once for each wait";
  }
  // What a wait has given and nobody takes comes by the next receive, and is taken no more.
  ASSERT_EQ(lwmq_selector_wait(selector, kLimitMs, &channel), LWMQ_OK);
  for (int i = 60; i < 100; ++i) {
    ASSERT_EQ(lwmq_selector_receive(selector, kLimitMs, &channel, &message), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(frames_of(message)[0], std::to_string(taken[channel]++));
    lwmq_message_destroy(message);
    EXPECT_EQ(lwmq_selector_take(selector, &message), LWMQ_E_EMPTY);
  }
  // Nor what was removed between the two.
  ASSERT_EQ(one.client.post("left"), LWMQ_OK);
  do {
    ASSERT_EQ(lwmq_selector_wait(selector, kLimitMs, &channel), LWMQ_OK);
  } while (channel != one.server.channel);
  ASSERT_EQ(lwmq_selector_remove(selector, channel), LWMQ_OK);
  EXPECT_EQ(lwmq_selector_take(selector, &message), LWMQ_E_EMPTY);
  lwmq_selector_destroy(selector);
  EXPECT_EQ(one.server.receive_text(), "left");
}

// The kernel is not asked for each message: one that was silent waits for as many small ones, or for bytes.
// rows: K26
TEST_P(ChannelOver, ASelectorLetsAChannelThatWasSilentJoinAfter64MessagesOr64KiBAtMost) {
  if (GetParam().is_late) GTEST_SKIP() << "what was sent is on its way for a while";
  lwmq_limits limits{};
  limits.size = sizeof limits;
  ASSERT_EQ(lwmq_query_limits(address_.c_str(), &limits), LWMQ_OK);
  const std::uint64_t buffer_bytes = std::min<std::uint64_t>(64 << 10, limits.buffer_bytes_max);
  for (const auto& [bytes, posted, before_max] : {std::tuple{8, 500, 64}, std::tuple{60'000, 6, 3}}) {
    if (bytes + 16u > buffer_bytes) continue;  // the largest unit is smaller
    const Meeting busy(GetParam().fresh_address(), channel_options(buffer_bytes, 8));
    const Meeting silent(GetParam().fresh_address());
    lwmq_selector* selector = nullptr;
    ASSERT_EQ(lwmq_selector_create(&selector), LWMQ_OK);
    ASSERT_EQ(lwmq_selector_add(selector, busy.server.channel), LWMQ_OK) << lwmq_last_error();
    ASSERT_EQ(lwmq_selector_add(selector, silent.server.channel), LWMQ_OK) << lwmq_last_error();
    lwmq_channel* channel = nullptr;
    lwmq_message* message = nullptr;
    EXPECT_EQ(lwmq_selector_receive(selector, 0, &channel, &message), LWMQ_E_EMPTY);  // nobody has a turn
    for (int i = 0; i < posted; ++i) ASSERT_EQ(busy.client.post(std::string(bytes, 'b')), LWMQ_OK);
    std::map<lwmq_channel*, int> served;
    int before = 0;
    for (int i = 0; i < posted + 1; ++i) {
      ASSERT_EQ(lwmq_selector_receive(selector, kLimitMs, &channel, &message), LWMQ_OK) << lwmq_last_error();
      lwmq_message_destroy(message);
      if (++served[channel] == 1 && channel == silent.server.channel) before = i - 1;
      if (i > 0) continue;
      ASSERT_EQ(silent.client.post("s"), LWMQ_OK);
      ASSERT_EQ(lwmq_channel_flush(silent.client.channel, kLimitMs), LWMQ_OK);
    }
    EXPECT_EQ(served[busy.server.channel], posted);
    EXPECT_LE(before, before_max) << bytes;
    if (bytes == 8) {
      EXPECT_GT(before, 0) << "else it need not be said";
    }
    lwmq_selector_destroy(selector);
  }
}

// Between a look in vain and the sleep lies the arming: whoever posts there, and stays silent afterwards, is
// heard all the same.
// rows: K26 K16
TEST_P(ChannelOver, ASelectorSleepsThroughNoMessage) {
  constexpr int kChannels = 3, kBursts = 200;
  std::vector<std::unique_ptr<Meeting>> meetings;
  lwmq_selector* selector = nullptr;
  ASSERT_EQ(lwmq_selector_create(&selector), LWMQ_OK);
  for (int i = 0; i < kChannels; ++i) {
    meetings.push_back(std::make_unique<Meeting>(GetParam().fresh_address()));
    ASSERT_EQ(lwmq_selector_add(selector, meetings[i]->server.channel), LWMQ_OK) << lwmq_last_error();
  }
  std::atomic<int> answered{0};
  std::thread sender([&] {
    std::mt19937 random(7);
    int posted = 0;
    for (int burst = 0; burst < kBursts; ++burst) {
      for (std::uint32_t left = 1 + random() % 3; left > 0; --left, ++posted)
        EXPECT_EQ(meetings[random() % kChannels]->client.post("m"), LWMQ_OK);
      while (answered < posted) continue;  // nobody posts what would wake it by chance
      for (std::uint32_t pause = 1u << random() % 20; pause > 0; --pause) asm volatile("");
    }
    EXPECT_EQ(meetings[0]->client.post("last"), LWMQ_OK);
  });
  for (std::string last; last != "last";) {
    lwmq_channel* channel = nullptr;
    lwmq_message* message = nullptr;
    const auto receive = answered / 10 % 2 == 0 ? lwmq_selector_receive : wait_and_take;
    if (receive(selector, kLimitMs, &channel, &message) != LWMQ_OK) {
      ADD_FAILURE() << "slept through message " << answered << ": " << lwmq_last_error();
      std::abort();  // the sender waits for it
    }
    last = frames_of(message)[0];
    lwmq_message_destroy(message);
    ++answered;
  }
  sender.join();
  lwmq_selector_destroy(selector);
}

// rows: K26 K27
TEST_P(ChannelOver, IsGoneFromSelectorsAndRoutersWhenItIsDestroyed) {
  auto going = std::make_unique<Meeting>(GetParam().fresh_address());
  const Meeting staying(GetParam().fresh_address());
  lwmq_selector* selector = nullptr;
  lwmq_router* router = nullptr;
  ASSERT_EQ(lwmq_selector_create(&selector), LWMQ_OK);
  ASSERT_EQ(lwmq_router_create(&router), LWMQ_OK);
  for (const Meeting* one : std::initializer_list<const Meeting*>{going.get(), &staying}) {
    ASSERT_EQ(lwmq_selector_add(selector, one->server.channel), LWMQ_OK) << lwmq_last_error();
    ASSERT_EQ(lwmq_router_add(router, 0, "#", nullptr, one->client.queue), LWMQ_OK) << lwmq_last_error();
  }
  lwmq_message* message = nullptr;
  lwmq_channel* channel = nullptr;
  ASSERT_EQ(going->client.post("for the selector to know of"), LWMQ_OK);
  ASSERT_EQ(lwmq_selector_wait(selector, kLimitMs, &channel), LWMQ_OK);
  while (channel != going->server.channel) {
    ASSERT_EQ(lwmq_selector_wait(selector, kLimitMs, &channel), LWMQ_OK);
  }
  going.reset();
  EXPECT_EQ(lwmq_selector_take(selector, &message), LWMQ_E_EMPTY);
  std::uint32_t queues = 0;
  ASSERT_EQ(lwmq_message_create(0, &message), LWMQ_OK);
  ASSERT_EQ(lwmq_message_append(message, "to one", 6), LWMQ_OK);
  EXPECT_EQ(lwmq_router_post(router, &message, &queues), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(queues, 1u);
  ASSERT_EQ(lwmq_selector_receive(selector, kLimitMs, &channel, &message), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(channel, staying.server.channel);
  lwmq_message_destroy(message);
  EXPECT_EQ(lwmq_selector_receive(selector, 0, &channel, &message), LWMQ_E_EMPTY);
  lwmq_selector_destroy(selector);
  lwmq_router_destroy(router);
}

// Also of a transport that has no descriptor of its own.
// rows: S02 K16
TEST_P(ChannelOver, APollerHearsOfWhatComesBehindAReceiveThatHasTimedOut) {
  for (const std::uint32_t kind : {LWMQ_QUEUE_MONO_UNBOUNDED, LWMQ_QUEUE_MULTI_UNBOUNDED}) {
    lwmq_channel_options options = channel_options(1024, 8);
    options.receive_queue = kind;
    const Meeting meeting(GetParam().fresh_address(), options);
    std::int32_t fd = -1;
    ASSERT_EQ(lwmq_channel_descriptor(meeting.server.channel, &fd), LWMQ_OK);
    for (int round = 0; round < 5; ++round) {
      lwmq_message* message = nullptr;
      ASSERT_EQ(lwmq_channel_receive(meeting.server.channel, 12, &message), LWMQ_E_TIMED_OUT);
      std::this_thread::sleep_for(std::chrono::milliseconds(40));  // the service thread is quiet again
      ASSERT_EQ(meeting.client.post("m"), LWMQ_OK);
      for (bool received = false; !received;) {
        pollfd item{fd, POLLIN, 0};
        ASSERT_EQ(poll(&item, 1, kLimitMs), 1) << "round " << round << ", kind " << kind;
        received = lwmq_channel_receive(meeting.server.channel, 0, &message) == LWMQ_OK;
      }
      lwmq_message_destroy(message);
    }
  }
}

// Whoever polls sleeps while another thread waits in the transport for both.
// rows: S02 K16
TEST_P(ChannelOver, APollerOfAReceiveQueueSleepsBesideAThreadThatWaits) {
  lwmq_channel_options options = channel_options(1024, 8);
  options.receive_queue = LWMQ_QUEUE_MULTI_UNBOUNDED;
  const Meeting meeting(address_, options);
  std::int32_t fd = -1;
  ASSERT_EQ(lwmq_channel_descriptor(meeting.server.channel, &fd), LWMQ_OK);
  constexpr int kMessages = 20;
  std::atomic<int> received{0};
  std::atomic<int> vain{0};
  std::thread waits([&] {
    lwmq_message* message = nullptr;
    while (received < kMessages) {
      if (lwmq_channel_receive(meeting.server.channel, 50, &message) != LWMQ_OK) continue;
      lwmq_message_destroy(message);
      ++received;
    }
  });
  std::thread polls([&] {
    lwmq_message* message = nullptr;
    pollfd item{fd, POLLIN, 0};
    while (received < kMessages) {
      if (poll(&item, 1, 50) == 0) continue;
      ++vain;
      while (lwmq_channel_receive(meeting.server.channel, 0, &message) == LWMQ_OK) {
        lwmq_message_destroy(message);
        ++received;
      }
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(meeting.client.post("m"), LWMQ_OK);
  }
  waits.join();
  polls.join();
  EXPECT_EQ(received, kMessages);
  EXPECT_LT(vain, 10 * kMessages) << "it does not spin";
}

LWMQ_OVER_ALL_PROVIDERS(ChannelOver);

// However much has come, what the rule would have discarded is not received.
TEST(AReceiveFromABoundedQueue, FirstLandsAllThatHasCome) {
  for (const Subject* subject : {&kLoop, &kIpc}) {
    lwmq_channel_options options = channel_options(64 << 10, 16);
    options.receive_queue = LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST;
    options.receive_capacity = 1;
    const Meeting meeting(subject->fresh_address(), options);
    constexpr int kPosted = 20'000;
    for (int i = 1; i <= kPosted; ++i) ASSERT_EQ(meeting.client.post(std::to_string(i)), LWMQ_OK);
    ASSERT_EQ(lwmq_channel_flush(meeting.client.channel, kLimitMs), LWMQ_OK);
    EXPECT_EQ(meeting.server.receive_text(), std::to_string(kPosted)) << subject->name;
  }
}

// rows: S10 L11
TEST(SecureErase, IsRefusedWhereTheTransportCannot) {
  lwmq_channel_options options = channel_options(512, 2);
  options.secure_erase = 1;
  lwmq_channel* channel = nullptr;
  EXPECT_EQ(lwmq_channel_create(kStubDatagram.fresh_address().c_str(), &options, &channel),
            LWMQ_E_UNSUPPORTED);
  EXPECT_NE(std::string(lwmq_last_error()).find("cannot erase its buffers (stub://"), std::string::npos)
      << lwmq_last_error();
}

// The same content goes over each of them.
// rows: S10 L11
TEST(SecureErase, IsAskedOfEveryTransportOfAChannel) {
  lwmq_channel_options options = channel_options(512, 2);
  options.secure_erase = 1;
  End end;
  end.create(kLoop.fresh_address(), options);
  lwmq_transport_options further{};
  further.size = sizeof further;
  EXPECT_EQ(lwmq_channel_add_transport(end.channel, kStubDatagram.fresh_address().c_str(), &further),
            LWMQ_E_UNSUPPORTED);
  EXPECT_EQ(lwmq_channel_add_transport(end.channel, kIpc.fresh_address().c_str(), &further), LWMQ_OK)
      << lwmq_last_error();
}

// A client that is told that it is connected gives away what it has: few are while they wait for their turn.
TEST(WaitingClients, KeepWhatTheyHaveUntilItIsTheirTurnOrNearly) {
  const std::string address = kIpc.fresh_address();
  const End server(address, LWMQ_ROLE_SERVER);
  End first(address, LWMQ_ROLE_CLIENT);
  ASSERT_EQ(first.wait_connected(), LWMQ_OK);
  constexpr int kClients = 12;
  std::vector<End> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back(address, LWMQ_ROLE_CLIENT);
    ASSERT_EQ(clients.back().post(std::to_string(i)), LWMQ_OK);
  }
  const auto connected = [&] {
    return std::count_if(clients.begin(), clients.end(), [](const End& client) {
      return lwmq_channel_wait_connected(client.channel, 0) == LWMQ_OK;
    });
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // they come to the listener
  EXPECT_LE(connected(), 4);
  first.destroy();
  EXPECT_EQ(server.receive_text(), "<LWMQ_E_CLOSED>");
  std::set<std::string> heard;
  while (!clients.empty()) {
    const std::string text = server.receive_text();
    EXPECT_TRUE(heard.insert(text).second) << text;
    EXPECT_LE(connected(), 5) << "one has its turn, and four may have our answer";
    auto its = clients.end();
    ASSERT_TRUE(eventually([&] {
      its = std::find_if(clients.begin(), clients.end(), [](const End& client) {
        return lwmq_channel_wait_connected(client.channel, 0) == LWMQ_OK &&
               client.statistics().messages_unread == 0;
      });
      return its != clients.end();
    }));
    clients.erase(its);
    EXPECT_EQ(server.receive_text(), "<LWMQ_E_CLOSED>");
  }
  EXPECT_EQ(heard.size(), std::size_t{kClients});
}

// rows: L47
TEST(SeveralTransports, AreAddedBeforeTheFirstPost) {
  End end;
  end.create(kLoop.fresh_address(), channel_options(512, 2));
  lwmq_transport_options further{};
  further.size = sizeof further;
  ASSERT_EQ(lwmq_channel_add_transport(end.channel, kIpc.fresh_address().c_str(), &further), LWMQ_OK);
  ASSERT_EQ(end.post("early"), LWMQ_OK);
  EXPECT_EQ(lwmq_channel_add_transport(end.channel, kIpc.fresh_address().c_str(), &further), LWMQ_E_INVALID);
  EXPECT_NE(std::string(lwmq_last_error()).find("before the first post"), std::string::npos)
      << lwmq_last_error();
}

// rows: S02
TEST(SeveralTransports, SayOfWhatNobodyTookWhoseItWas) {
  const std::string places[2] = {kIpc.fresh_address(), kIpc.fresh_address()};
  auto options = channel_options(1024, 4);
  options.receive_queue = LWMQ_QUEUE_MULTI_UNBOUNDED;
  End server;
  server.create(places[0], options);
  lwmq_transport_options further{};
  further.size = sizeof further;
  ASSERT_EQ(lwmq_channel_add_transport(server.channel, places[1].c_str(), &further), LWMQ_OK);
  ASSERT_EQ(lwmq_channel_open(server.channel, LWMQ_ROLE_SERVER), LWMQ_OK) << lwmq_last_error();
  const End clients[2] = {End(places[0], LWMQ_ROLE_CLIENT), End(places[1], LWMQ_ROLE_CLIENT)};
  for (const End& client : clients) ASSERT_EQ(client.wait_connected(), LWMQ_OK);
  int posted[2] = {10, 20};
  for (int place = 0; place < 2; ++place) {
    for (int i = 0; i < posted[place]; ++i) ASSERT_EQ(clients[place].post(std::to_string(place)), LWMQ_OK);
  }
  ASSERT_TRUE(eventually([&] { return server.statistics().receive_queued == 30; }))
      << "they land by themselves";
  for (int i = 0; i < 5; ++i) --posted[std::stoi(server.receive_text())];
  EXPECT_EQ(server.close(0), LWMQ_OK);
  for (int place = 0; place < 2; ++place) {
    ASSERT_GT(posted[place], 0);
    const Frames end = clients[place].receive();
    ASSERT_EQ(end[0], "LWMQ_E_CLOSED");
    EXPECT_NE(end[2].find(std::to_string(posted[place]) + " messages were shipped to it and not seen read"),
              std::string::npos)
        << end[2];
  }
}

}  // namespace
}  // namespace lwmq::conformance
