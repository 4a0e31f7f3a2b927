// Direct access to transport buffers, over every provider.
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "conformance/transport_pair.h"
#include "tli/registry.h"
#include "wire/message_header.h"

namespace lwmq::conformance {
namespace {

using namespace std::chrono_literals;

class RawChannelOver : public ::testing::TestWithParam<Subject> {
 protected:
  std::string address_ = GetParam().fresh_address();
};

lwmq_status send(const End& end, const std::string& text, std::uint32_t timeout_ms = kLimitMs) {
  lwmq_buffer buffer{};
  const lwmq_status status = lwmq_raw_get_buffer(end.channel, timeout_ms, &buffer);
  if (status != LWMQ_OK) return status;
  std::memcpy(buffer.data, text.data(), text.size());
  buffer.bytes = text.size();
  return lwmq_raw_send_buffer(end.channel, &buffer);
}

std::string receive(const End& end, std::uint32_t timeout_ms = kLimitMs) {
  lwmq_buffer buffer{};
  const lwmq_status status = lwmq_raw_receive_buffer(end.channel, timeout_ms, &buffer);
  if (status != LWMQ_OK) return std::string("<") + lwmq_status_name(status) + ">";
  std::string text(static_cast<const char*>(buffer.data), buffer.bytes);
  EXPECT_EQ(lwmq_raw_dispose_buffer(end.channel, &buffer), LWMQ_OK);
  return text;
}

// rows: L14
TEST_P(RawChannelOver, BringsAFilledBufferToThePeer) {
  const Meeting meeting(address_, channel_options(1024, 4, true));
  ASSERT_EQ(send(meeting.client, "filled in place"), LWMQ_OK);
  EXPECT_EQ(receive(meeting.server), "filled in place");
  ASSERT_EQ(send(meeting.server, "and back"), LWMQ_OK);
  EXPECT_EQ(receive(meeting.client), "and back");
}

// rows: L14
TEST_P(RawChannelOver, BringsBuffersInTheOrderSentNotInTheOrderObtained) {
  const Meeting meeting(address_, channel_options(1024, 4, true));
  lwmq_buffer buffers[3] = {};
  for (auto& buffer : buffers) ASSERT_EQ(lwmq_raw_get_buffer(meeting.client.channel, 0, &buffer), LWMQ_OK);
  for (const int i : {2, 0, 1}) {
    std::memcpy(buffers[i].data, &i, sizeof i);
    buffers[i].bytes = sizeof i;
    ASSERT_EQ(lwmq_raw_send_buffer(meeting.client.channel, &buffers[i]), LWMQ_OK);
  }
  for (const int i : {2, 0, 1}) {
    const std::string text = receive(meeting.server);
    ASSERT_EQ(text.size(), sizeof i);
    EXPECT_EQ(std::memcmp(text.data(), &i, sizeof i), 0);
  }
}

// rows: L16 L17 L18 L19
TEST_P(RawChannelOver, HandsOutAsManyBuffersAsItHasAndThenWaitsAsLongAsAsked) {
  const Meeting meeting(address_, channel_options(1024, 3, true));
  EXPECT_EQ(meeting.client.statistics().buffers_free, 3u);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(send(meeting.client, std::to_string(i), 0), LWMQ_OK) << "one is free";
  lwmq_buffer buffer{};
  EXPECT_EQ(lwmq_raw_get_buffer(meeting.client.channel, 0, &buffer), LWMQ_E_FULL);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(lwmq_raw_get_buffer(meeting.client.channel, 60, &buffer), LWMQ_E_TIMED_OUT);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 55ms);
  EXPECT_EQ(receive(meeting.server), "0");
  EXPECT_EQ(receive(meeting.server), "1");
  EXPECT_EQ(lwmq_raw_get_buffer(meeting.client.channel, kLimitMs, &buffer), LWMQ_OK)
      << "a later call succeeds";
  EXPECT_EQ(lwmq_raw_abandon_buffer(meeting.client.channel, &buffer), LWMQ_OK);
}

// Beside a thread that waits for one, too, and keeps the transport.
TEST_P(RawChannelOver, CountsWhatAPeerDoesNotReadWhileSomebodyWaitsForABuffer) {
  const Meeting meeting(address_, channel_options(1024, 3, true));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(send(meeting.client, "x"), LWMQ_OK);
  lwmq_status sent = LWMQ_E_EMPTY;
  std::thread waiting([&] { sent = send(meeting.client, "late"); });
  std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(eventually([&] { return meeting.client.statistics().messages_unread == 3; }))
      << meeting.client.statistics().messages_unread;
  for (const char* text : {"x", "x", "x", "late"}) EXPECT_EQ(receive(meeting.server), text);
  waiting.join();
  EXPECT_EQ(sent, LWMQ_OK);
}

// rows: L14
TEST_P(RawChannelOver, TakesABufferBackUnsent) {
  const Meeting meeting(address_, channel_options(1024, 1, true));
  lwmq_buffer buffer{};
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(lwmq_raw_get_buffer(meeting.client.channel, 0, &buffer), LWMQ_OK);
    ASSERT_EQ(lwmq_raw_abandon_buffer(meeting.client.channel, &buffer), LWMQ_OK);
  }
  ASSERT_EQ(send(meeting.client, "only this"), LWMQ_OK);
  EXPECT_EQ(receive(meeting.server), "only this");
}

TEST_P(RawChannelOver, TakesReceivedBuffersBackInAnyOrderFromAnyThread) {
  const Meeting meeting(address_, channel_options(1024, 4, true));
  for (int i = 0; i < 4; ++i) ASSERT_EQ(send(meeting.client, std::to_string(i)), LWMQ_OK);
  lwmq_buffer buffers[4] = {};
  for (auto& buffer : buffers) {
    ASSERT_EQ(lwmq_raw_receive_buffer(meeting.server.channel, kLimitMs, &buffer), LWMQ_OK);
  }
  for (const int i : {3, 1, 0, 2}) {
    std::thread([&, i] {
      EXPECT_EQ(lwmq_raw_dispose_buffer(meeting.server.channel, &buffers[i]), LWMQ_OK);
    }).join();
  }
  EXPECT_TRUE(eventually([&] { return meeting.client.statistics().buffers_free == 4; }));
}

TEST_P(RawChannelOver, TakesReceivedBuffersBackOfAThreadAtHomeAndOfOthers) {
  lwmq_channel_options options = channel_options(1024, 4, true);
  options.home_thread = 1;
  lwmq_buffer behind{};
  {
    const Meeting meeting(address_, options);
    std::minstd_rand random(4);  // NOLINT(cert-msc51-cpp): the same in each run
    std::vector<lwmq_buffer> held;
    constexpr int kSent = 400;
    for (int sent = 0, received = 0; received < kSent;) {
      if (sent < kSent && send(meeting.client, std::to_string(sent), 0) == LWMQ_OK) ++sent;
      lwmq_buffer buffer{};
      const std::uint32_t timeout_ms = random() % 8 == 0 ? 5 : 0;  // who waits has a way of his own
      if (random() % 2 == 0 &&
          lwmq_raw_receive_buffer(meeting.server.channel, timeout_ms, &buffer) == LWMQ_OK) {
        ASSERT_EQ(std::string(static_cast<const char*>(buffer.data), buffer.bytes), std::to_string(received));
        ++received;
        held.push_back(buffer);
      }
      if (held.empty() || random() % 2 == 0) continue;
      std::swap(held[random() % held.size()], held.back());
      const auto dispose = [&] {
        EXPECT_EQ(lwmq_raw_dispose_buffer(meeting.server.channel, &held.back()), LWMQ_OK);
      };
      if (random() % 4 == 0) {
        std::thread(dispose).join();
      } else {
        dispose();
      }
      held.pop_back();
    }
    for (auto& buffer : held) ASSERT_EQ(lwmq_raw_dispose_buffer(meeting.server.channel, &buffer), LWMQ_OK);
    EXPECT_TRUE(eventually([&] { return meeting.client.statistics().buffers_free == 4; }));
    ASSERT_EQ(send(meeting.client, "behind the close"), LWMQ_OK);
    ASSERT_EQ(lwmq_raw_receive_buffer(meeting.server.channel, kLimitMs, &behind), LWMQ_OK);
    ASSERT_EQ(lwmq_channel_close(meeting.server.channel, 0), LWMQ_OK);
    EXPECT_EQ(lwmq_raw_dispose_buffer(meeting.server.channel, &behind), LWMQ_OK);
  }
}

// rows: L14
TEST_P(RawChannelOver, RefusesABufferWhoseDataWasMoved) {
  const Meeting meeting(address_, channel_options(1024, 2, true));
  lwmq_buffer buffer{};
  ASSERT_EQ(lwmq_raw_get_buffer(meeting.client.channel, 0, &buffer), LWMQ_OK);
  void* const lent = buffer.data;
  buffer.data = static_cast<char*>(lent) + 8;
  EXPECT_EQ(lwmq_raw_send_buffer(meeting.client.channel, &buffer), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_raw_abandon_buffer(meeting.client.channel, &buffer), LWMQ_E_INVALID);
  EXPECT_NE(std::strstr(lwmq_last_error(), "its data where it was lent"), nullptr) << lwmq_last_error();
  buffer.data = lent;
  buffer.bytes = 4;
  std::memcpy(buffer.data, "here", 4);
  ASSERT_EQ(lwmq_raw_send_buffer(meeting.client.channel, &buffer), LWMQ_OK);
  ASSERT_EQ(lwmq_raw_receive_buffer(meeting.server.channel, kLimitMs, &buffer), LWMQ_OK);
  buffer.data = static_cast<char*>(buffer.data) + 1;
  EXPECT_EQ(lwmq_raw_dispose_buffer(meeting.server.channel, &buffer), LWMQ_E_INVALID);
  buffer.data = static_cast<char*>(buffer.data) - 1;
  EXPECT_EQ(std::memcmp(buffer.data, "here", 4), 0);
  EXPECT_EQ(lwmq_raw_dispose_buffer(meeting.server.channel, &buffer), LWMQ_OK);
}

// rows: L14
TEST_P(RawChannelOver, RefusesABufferTwiceAndOneThatIsTooFull) {
  const Meeting meeting(address_, channel_options(1024, 2, true));
  lwmq_buffer buffer{};
  ASSERT_EQ(lwmq_raw_get_buffer(meeting.client.channel, 0, &buffer), LWMQ_OK);
  EXPECT_EQ(buffer.bytes, 1024u);
  buffer.bytes = 1025;
  EXPECT_EQ(lwmq_raw_send_buffer(meeting.client.channel, &buffer), LWMQ_E_TOO_BIG) << "and it is still ours";
  buffer.bytes = 1024;
  EXPECT_EQ(lwmq_raw_send_buffer(meeting.client.channel, &buffer), LWMQ_OK);
  EXPECT_EQ(lwmq_raw_send_buffer(meeting.client.channel, &buffer), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_raw_dispose_buffer(meeting.client.channel, &buffer), LWMQ_E_INVALID);
  EXPECT_EQ(receive(meeting.server).size(), 1024u);
}

// rows: L15
TEST_P(RawChannelOver, MovesABlobOfAnySizeThroughAFewFixedBuffers) {
  const Meeting meeting(address_, channel_options(1024, 4, true));
  constexpr std::uint64_t kBlobBytes = 8 << 20;
  const auto next = [](std::uint64_t state) { return state * 6364136223846793005u + 1442695040888963407u; };
  std::thread sending([&] {
    std::uint64_t state = 1;
    for (std::uint64_t sent = 0; sent < kBlobBytes;) {
      lwmq_buffer buffer{};
      ASSERT_EQ(lwmq_raw_get_buffer(meeting.client.channel, kLimitMs, &buffer), LWMQ_OK);
      for (std::uint64_t at = 0; at + 8 <= buffer.bytes; at += 8) {
        std::memcpy(static_cast<char*>(buffer.data) + at, &state, 8);
        state = next(state);
      }
      sent += buffer.bytes;
      ASSERT_EQ(lwmq_raw_send_buffer(meeting.client.channel, &buffer), LWMQ_OK);
    }
  });
  std::uint64_t state = 1;
  for (std::uint64_t received = 0; received < kBlobBytes;) {
    const std::string part = receive(meeting.server);
    ASSERT_EQ(part.size() % 8, 0u) << part;
    for (std::size_t at = 0; at < part.size(); at += 8) {
      ASSERT_EQ(std::memcmp(part.data() + at, &state, 8), 0) << received + at;
      state = next(state);
    }
    received += part.size();
  }
  sending.join();
}

// rows: L20
TEST_P(RawChannelOver, Uses512BuffersInBothDirections) {
  const Meeting meeting(address_, channel_options(256, 512, true));
  for (int i = 0; i < 512; ++i) {
    ASSERT_EQ(send(meeting.client, "c" + std::to_string(i), 0), LWMQ_OK) << i;
    ASSERT_EQ(send(meeting.server, "s" + std::to_string(i), 0), LWMQ_OK) << i;
  }
  EXPECT_EQ(send(meeting.client, "one too many", 0), LWMQ_E_FULL);
  for (int i = 0; i < 512; ++i) {
    EXPECT_EQ(receive(meeting.server), "c" + std::to_string(i));
    EXPECT_EQ(receive(meeting.client), "s" + std::to_string(i));
  }
}

// rows: S13
TEST_P(RawChannelOver, RefusesMessagesAndAMessageChannelRefusesBuffers) {
  const Meeting raw(address_, channel_options(1024, 2, true));
  lwmq_send_queue* queue = nullptr;
  EXPECT_EQ(lwmq_channel_add_send_queue(raw.client.channel, nullptr, &queue), LWMQ_E_INVALID);
  EXPECT_EQ(raw.client.receive_text(0), "<LWMQ_E_INVALID>");
  const Meeting messages(GetParam().fresh_address());
  lwmq_buffer buffer{};
  EXPECT_EQ(lwmq_raw_get_buffer(messages.client.channel, 0, &buffer), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_raw_receive_buffer(messages.client.channel, 0, &buffer), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_raw_dispose_buffer(messages.client.channel, &buffer), LWMQ_E_INVALID);
}

// rows: S13
TEST_P(RawChannelOver, DoesNotMeetAMessageChannel) {
  const End server(address_, LWMQ_ROLE_SERVER, channel_options(1024, 2, true));
  const End client(address_, LWMQ_ROLE_CLIENT, channel_options(1024, 2, false));
  EXPECT_EQ(client.wait_connected(), LWMQ_E_VERSION);
  EXPECT_EQ(client.receive_text(), "<LWMQ_E_VERSION>");
}

// What the application still fills when the peer goes stays its memory until it gives it back.
TEST_P(RawChannelOver, LeavesALentBufferUsableWhenThePeerHasGone) {
  Meeting meeting(address_, channel_options(1024, 2, true));
  lwmq_buffer buffer{};
  ASSERT_EQ(lwmq_raw_get_buffer(meeting.client.channel, 0, &buffer), LWMQ_OK);
  meeting.server.destroy();
  EXPECT_EQ(receive(meeting.client), "<LWMQ_E_CLOSED>");
  const End server(address_, LWMQ_ROLE_SERVER, channel_options(1024, 2, true));
  ASSERT_EQ(meeting.client.wait_connected(), LWMQ_OK);
  std::memset(buffer.data, 'x', buffer.bytes);
  EXPECT_EQ(lwmq_raw_send_buffer(meeting.client.channel, &buffer), LWMQ_E_PEER_LOST);
  EXPECT_EQ(meeting.client.statistics().messages_lost, 1u);
  ASSERT_EQ(send(meeting.client, "to the new one"), LWMQ_OK);
  EXPECT_EQ(receive(server), "to the new one");
}

// rows: L14
TEST_P(RawChannelOver, LeavesALentBufferUsableBehindItsOwnClose) {
  Meeting meeting(address_, channel_options(1024, 3, true));
  lwmq_buffer buffers[2] = {};
  for (auto& buffer : buffers) ASSERT_EQ(lwmq_raw_get_buffer(meeting.client.channel, 0, &buffer), LWMQ_OK);
  ASSERT_EQ(send(meeting.client, "the last one"), LWMQ_OK);
  EXPECT_EQ(receive(meeting.server), "the last one");
  ASSERT_EQ(meeting.client.close(kLimitMs), LWMQ_OK) << "what is lent waits for nobody";
  EXPECT_EQ(receive(meeting.server), "<LWMQ_E_CLOSED>");
  meeting.server.destroy();
  for (auto& buffer : buffers) std::memset(buffer.data, 'x', 1024);
  EXPECT_EQ(lwmq_raw_send_buffer(meeting.client.channel, &buffers[0]), LWMQ_E_CLOSED);
  std::thread([&] {
    EXPECT_EQ(lwmq_raw_abandon_buffer(meeting.client.channel, &buffers[0]), LWMQ_OK) << "it stayed ours";
  }).join();
  EXPECT_EQ(lwmq_raw_abandon_buffer(meeting.client.channel, &buffers[0]), LWMQ_E_INVALID);
  std::memset(buffers[1].data, 'y', 1024);
  EXPECT_EQ(lwmq_raw_abandon_buffer(meeting.client.channel, &buffers[1]), LWMQ_OK);
  EXPECT_EQ(lwmq_raw_get_buffer(meeting.client.channel, 0, &buffers[0]), LWMQ_E_CLOSED);
}

// Nobody has noticed that the peer has closed, when the buffer for it is sent: it is taken, and lost.
TEST_P(RawChannelOver, TakesABufferForAPeerThatHasJustClosed) {
  Meeting meeting(address_, channel_options(1024, 2, true));
  lwmq_buffer buffer{};
  ASSERT_EQ(lwmq_raw_get_buffer(meeting.client.channel, 0, &buffer), LWMQ_OK);
  meeting.server.destroy();
  buffer.bytes = 8;
  const lwmq_status status = lwmq_raw_send_buffer(meeting.client.channel, &buffer);
  EXPECT_TRUE(status == LWMQ_OK || status == LWMQ_E_PEER_LOST) << status;  // some see it when nobody reads it
  EXPECT_EQ(lwmq_raw_abandon_buffer(meeting.client.channel, &buffer), LWMQ_E_INVALID);
  EXPECT_EQ(receive(meeting.client), "<LWMQ_E_CLOSED>");
  EXPECT_EQ(meeting.client.statistics().messages_lost, 1u);
}

TEST_P(RawChannelOver, RefusesABufferOfAnotherChannel) {
  const Meeting meeting(address_, channel_options(1024, 2, true));
  const Meeting other(GetParam().fresh_address(), channel_options(1024, 2, true));
  for (const Meeting* one : {&meeting, &other}) {
    const End& strange = (one == &meeting ? other : meeting).client;
    lwmq_buffer buffer{};
    ASSERT_EQ(lwmq_raw_get_buffer(one->client.channel, 0, &buffer), LWMQ_OK);
    EXPECT_EQ(lwmq_raw_abandon_buffer(strange.channel, &buffer), LWMQ_E_INVALID);
    EXPECT_EQ(lwmq_raw_send_buffer(strange.channel, &buffer), LWMQ_E_INVALID);
    EXPECT_EQ(lwmq_raw_abandon_buffer(one->client.channel, &buffer), LWMQ_OK) << "it stayed its own";
  }
}

TEST_P(RawChannelOver, TakesABufferBackBesideAThreadThatWaitsForIt) {
  const Meeting meeting(address_, channel_options(1024, 1, true));
  lwmq_buffer buffer{}, next{};
  ASSERT_EQ(lwmq_raw_get_buffer(meeting.client.channel, 0, &buffer), LWMQ_OK);
  std::thread waiter([&] {
    EXPECT_EQ(lwmq_raw_get_buffer(meeting.client.channel, kLimitMs, &next), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(lwmq_raw_abandon_buffer(meeting.client.channel, &next), LWMQ_OK);
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(lwmq_raw_abandon_buffer(meeting.client.channel, &buffer), LWMQ_OK);
  waiter.join();
}

// It is no buffer and no message: of those there may be no end, and whoever asks has an answer in his time.
TEST_P(RawChannelOver, IsKeptByNoPeerThatSaysGoodbyeForEver) {
  const auto& tli = provider_of(address_);
  for (const bool raw : {true, false}) {
    const End server(address_, LWMQ_ROLE_SERVER, channel_options(1024, 2, raw));
    lwmq_tli_options options = options_of(2, 1024, raw ? LWMQ_TLI_FOR_RAW : LWMQ_TLI_FOR_MESSAGES);
    lwmq_tli_transport* liar = nullptr;
    ASSERT_TRUE(eventually(
        [&] { return lwmq::tli::connect(tli, address_.c_str(), options, 60000, &liar) == LWMQ_OK; }));
    std::atomic<bool> done{false}, tired{false};
    std::thread lying([&] {  // for so long, so that the test ends, and fails
      const auto end = std::chrono::steady_clock::now() + 60s;
      lwmq_tli_buffer buffer{};
      while (!done && std::chrono::steady_clock::now() < end) {
        if (tli.transport->acquire(liar, &buffer) != LWMQ_OK) continue;
        while (buffer.room >= sizeof(wire::Goodbye)) {
          std::memset(buffer.next, 0, sizeof(wire::Goodbye));
          if (tli.transport->show(liar, &buffer, sizeof(wire::Goodbye),
                                  static_cast<std::uint32_t>(wire::ExtentKind::kGoodbye)) != LWMQ_OK)
            break;
        }
        tli.transport->ship(liar, &buffer);
      }
      tired = !done;
    });
    for (int i = 0; i < 10; ++i)
      EXPECT_EQ(raw ? receive(server, 20) : server.receive_text(20), "<LWMQ_E_TIMED_OUT>");
    EXPECT_FALSE(tired);
    done = true;
    lying.join();
    tli.transport->close(liar, 0, 0);
    EXPECT_EQ(raw ? receive(server) : server.receive_text(), "<LWMQ_E_CLOSED>");
  }
}

LWMQ_OVER_PROVIDERS(RawChannelOver);
LWMQ_OVER_MANDATORY_TABLES(RawChannelOver);

// rows: S10
TEST(RawChannelThatErases, LeavesALentBufferAloneUntilItComesBack) {
  lwmq_channel_options options = channel_options(1024, 2, true);
  options.secure_erase = 1;
  for (const Subject* subject : {&kLoop, &kIpc}) {
    for (const bool own_close : {true, false}) {
      Meeting meeting(subject->fresh_address(), options);
      lwmq_buffer buffer{};
      ASSERT_EQ(lwmq_raw_get_buffer(meeting.client.channel, kLimitMs, &buffer), LWMQ_OK);
      std::memset(buffer.data, 7, 1024);
      if (own_close) {
        EXPECT_EQ(meeting.client.close(0), LWMQ_OK);
      } else {
        meeting.server.destroy();
        EXPECT_EQ(receive(meeting.client), "<LWMQ_E_CLOSED>");
      }
      const std::string kept(1024, 7);
      EXPECT_EQ(std::memcmp(buffer.data, kept.data(), kept.size()), 0) << "it is its user's";
      EXPECT_EQ(lwmq_raw_abandon_buffer(meeting.client.channel, &buffer), LWMQ_OK);
    }
  }
}

// rows: K13 L01
TEST(RawLoop, ShowsTheReceiverTheVeryMemoryThatTheSenderFilled) {
  const Meeting meeting(kLoop.fresh_address(), channel_options(1024, 2, true));
  lwmq_buffer sent{};
  ASSERT_EQ(lwmq_raw_get_buffer(meeting.client.channel, 0, &sent), LWMQ_OK);
  const void* memory = sent.data;
  sent.bytes = 100;
  ASSERT_EQ(lwmq_raw_send_buffer(meeting.client.channel, &sent), LWMQ_OK);
  lwmq_buffer received{};
  ASSERT_EQ(lwmq_raw_receive_buffer(meeting.server.channel, kLimitMs, &received), LWMQ_OK);
  EXPECT_EQ(received.data, memory);
  EXPECT_EQ(lwmq_raw_dispose_buffer(meeting.server.channel, &received), LWMQ_OK);
}

}  // namespace
}  // namespace lwmq::conformance
