// What a close says, here and to the peer, and what it leaves where a signal ends it.
#include <atomic>

#include "conformance/channel_fixture.h"
#include "conformance/interrupting.h"
#include "conformance/providers.h"
#include "conformance/transport_group.h"
#include "conformance/transport_pair.h"

namespace lwmq::conformance {
namespace {

using namespace std::chrono_literals;

class CloseOver : public testing::TestWithParam<Subject> {
 protected:
  std::string fresh() const { return GetParam().fresh_address(); }
};

// How many messages were dropped, of what a close has said.
std::uint64_t dropped_by(const std::string& text) {
  const std::size_t end = text.find(" messages were dropped before they were shipped");
  EXPECT_NE(end, std::string::npos) << text;
  return end == std::string::npos ? 0 : std::stoull(text.substr(text.rfind(' ', end - 1) + 1));
}

// All that `end` receives until something else than a message comes, which goes to out_last.
int count_messages(const End& end, Frames* out_last) {
  for (int count = 0;; ++count) {
    *out_last = end.receive();
    if (out_last->size() != 1) return count;
  }
}

TEST_P(CloseOver, SaysOfAChannelThatWasNeverOpenedThatItDidNotLinger) {
  End never;
  never.create(fresh(), channel_options(1024, 4));
  ASSERT_EQ(never.post("to nobody"), LWMQ_OK);
  EXPECT_EQ(never.close(kLimitMs), LWMQ_E_TIMED_OUT);
  EXPECT_TRUE(std::string(lwmq_last_error()).starts_with("it was never opened; 1 messages were dropped"))
      << lwmq_last_error();
}

// rows: S04
TEST_P(CloseOver, TellsThePeerHowManyMessagesNeverCame) {
  constexpr int kMessages = 10;
  for (const bool from_client : {true, false}) {
    const std::string address = fresh();
    Meeting meeting(address, channel_options(256, 2));
    End& closes = from_client ? meeting.client : meeting.server;
    const End& hears = from_client ? meeting.server : meeting.client;
    for (int i = 0; i < kMessages; ++i) ASSERT_EQ(closes.post(std::string(200, 'x')), LWMQ_OK);
    ASSERT_EQ(closes.close(0), LWMQ_E_TIMED_OUT);
    const std::uint64_t dropped = dropped_by(lwmq_last_error());
    EXPECT_GT(dropped, 0u);
    Frames last;
    EXPECT_EQ(count_messages(hears, &last), kMessages - static_cast<int>(dropped)) << "all that was shipped";
    ASSERT_EQ(last[0], "LWMQ_E_PEER_LOST");
    EXPECT_NE(last[2].find(" " + std::to_string(dropped) + " messages never came"), std::string::npos)
        << last[2];
    EXPECT_EQ(hears.receive_text(0), "<LWMQ_E_EMPTY>") << "reported once";
    EXPECT_EQ(hears.statistics().peers_lost, 1u);
    closes.destroy();
    const End next(address, from_client ? LWMQ_ROLE_CLIENT : LWMQ_ROLE_SERVER);
    ASSERT_EQ(next.post("from the next"), LWMQ_OK);
    EXPECT_EQ(hears.receive_text(), "from the next");
  }
}

// rows: S04
TEST_P(CloseOver, TellsThePeerThatItWasInOrderWhereEverythingWasShipped) {
  const Meeting meeting(fresh(), channel_options(256, 2));
  for (int i = 0; i < 2; ++i) ASSERT_EQ(meeting.client.post(std::string(200, 'x')), LWMQ_OK);
  ASSERT_EQ(lwmq_channel_flush(meeting.client.channel, kLimitMs), LWMQ_OK);
  ASSERT_EQ(meeting.client.close(0), LWMQ_E_TIMED_OUT) << "not read";
  EXPECT_EQ(dropped_by(lwmq_last_error()), 0u);
  Frames last;
  EXPECT_EQ(count_messages(meeting.server, &last), 2);
  EXPECT_EQ(last[0], "LWMQ_E_CLOSED") << last[2];
}

// ---- Beside a flush

TEST_P(CloseOver, EndsAFlushWhoseMessagesItDrops) {
  const auto flush_and_close = [](const End& end) {
    ASSERT_EQ(end.post("never shipped"), LWMQ_OK);
    lwmq_status flushed = LWMQ_OK;
    std::string text;
    std::thread flushing([&] {
      flushed = lwmq_channel_flush(end.channel, kLimitMs);
      text = lwmq_last_error();
    });
    std::this_thread::sleep_for(20ms);  // it waits by now, most times: both cases must work
    EXPECT_EQ(end.close(0), LWMQ_E_TIMED_OUT);
    flushing.join();
    EXPECT_EQ(flushed, LWMQ_E_CLOSED);
    EXPECT_NE(text, "");
  };
  flush_and_close(End(fresh(), LWMQ_ROLE_SERVER));
  for (const bool redundant : {false, true})
    flush_and_close(end_at_both({fresh(), fresh()}, LWMQ_ROLE_SERVER, redundant));
}

// rows: L47
TEST_P(CloseOver, IsNotWhatASecondOpenOfSeveralTransportsDoes) {
  const std::string places[2] = {fresh(), fresh()};
  const End server = end_at_both(places, LWMQ_ROLE_SERVER, false);
  const End clients[2] = {End(places[0], LWMQ_ROLE_CLIENT), End(places[1], LWMQ_ROLE_CLIENT)};
  EXPECT_EQ(lwmq_channel_open(server.channel, LWMQ_ROLE_SERVER), LWMQ_E_INVALID);
  ASSERT_EQ(server.wait_connected(), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(server.post("still open"), LWMQ_OK) << lwmq_last_error();
  for (const End& client : clients) EXPECT_EQ(client.receive_text(), "still open");
}

// rows: S04 L47
TEST_P(CloseOver, OfSeveralTransportsSaysWhatEachHasLost) {
  const std::string places[2] = {fresh(), fresh()};
  const End server = end_at_both(places, LWMQ_ROLE_SERVER, false);
  const End clients[2] = {End(places[0], LWMQ_ROLE_CLIENT), End(places[1], LWMQ_ROLE_CLIENT)};
  ASSERT_EQ(server.wait_connected(), LWMQ_OK) << lwmq_last_error();
  for (const End& client : clients) ASSERT_EQ(client.wait_connected(), LWMQ_OK);
  ASSERT_EQ(server.post("unread"), LWMQ_OK);
  ASSERT_EQ(server.close(0), LWMQ_E_TIMED_OUT);
  const std::string said = lwmq_last_error();
  for (const std::string& place : places) EXPECT_NE(said.find(place), std::string::npos) << said;
}

// ---- Ended by a signal

// One of the two peers has read everything, the other nothing.
// rows: S04
TEST_P(CloseOver, OfSeveralTransportsMayBeRepeatedWhereASignalHasEndedIt) {
  const std::string places[2] = {fresh(), fresh()};
  const End server = end_at_both(places, LWMQ_ROLE_SERVER, false);
  const End clients[2] = {End(places[0], LWMQ_ROLE_CLIENT), End(places[1], LWMQ_ROLE_CLIENT)};
  ASSERT_EQ(server.wait_connected(), LWMQ_OK) << lwmq_last_error();
  for (const End& client : clients) ASSERT_EQ(client.wait_connected(), LWMQ_OK);
  ASSERT_EQ(server.post("before"), LWMQ_OK);
  EXPECT_EQ(clients[1].receive_text(), "before");
  EXPECT_EQ(clients[1].receive_text(0), "<LWMQ_E_EMPTY>") << "and its buffer goes back";
  {
    const Interrupting interrupting;
    ASSERT_EQ(server.close(kLimitMs), LWMQ_E_INTERRUPTED);
  }
  EXPECT_EQ(server.receive_text(100), "<LWMQ_E_TIMED_OUT>");
  EXPECT_EQ(server.statistics().connected, 1u);
  ASSERT_EQ(clients[1].post("answer"), LWMQ_OK);
  EXPECT_EQ(server.receive_text(), "answer");
  ASSERT_EQ(server.post("after"), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(clients[0].receive_text(), "before");
  for (const End& client : clients) EXPECT_EQ(client.receive_text(), "after");
  EXPECT_EQ(server.close(kLimitMs), LWMQ_OK) << lwmq_last_error();
  for (const End& client : clients) EXPECT_EQ(client.receive_text(), "<LWMQ_E_CLOSED>");
  EXPECT_EQ(server.post("closed"), LWMQ_E_CLOSED);
}

// The end of the peer says how many, and waits where nobody has received it: among what has landed, or in the
// receive queue.
// rows: S04
TEST_P(CloseOver, TellsOfWhatAFormerPeerHasNotReadWhereNobodyWasTold) {
  for (const std::uint32_t kind : {LWMQ_QUEUE_MONO_UNBOUNDED, LWMQ_QUEUE_MULTI_UNBOUNDED}) {
    auto options = channel_options(1024, 8);
    options.receive_queue = kind;
    const std::string address = fresh();
    End server(address, LWMQ_ROLE_SERVER, options);
    End client(address, LWMQ_ROLE_CLIENT);
    ASSERT_EQ(server.wait_connected(), LWMQ_OK) << lwmq_last_error();
    for (int i = 0; i < 5; ++i) ASSERT_EQ(server.post("unread"), LWMQ_OK);
    ASSERT_EQ(lwmq_channel_flush(server.channel, kLimitMs), LWMQ_OK) << lwmq_last_error();
    client.close(0);
    client.destroy();
    ASSERT_TRUE(eventually([&] { return server.statistics().connected == 0; }));
    ASSERT_TRUE(eventually([&] { return server.statistics().messages_lost == 5; })) << kind;
    EXPECT_EQ(server.close(kLimitMs), LWMQ_E_TIMED_OUT) << kind;
    const std::string text = lwmq_last_error();
    EXPECT_NE(text.find(" 5 were shipped and not seen read"), std::string::npos) << text;
    EXPECT_EQ(text.find("the peer has gone; 0 messages"), 0u) << text << ": nobody lingers for it";
  }
}

// rows: S04
TEST_P(CloseOver, OfSeveralTransportsSaysThatThePeerHasGoneWhereItWouldHaveWaitedForEver) {
  const std::string places[2] = {fresh(), fresh()};
  const End server = end_at_both(places, LWMQ_ROLE_SERVER, false);
  End clients[2] = {{places[0], LWMQ_ROLE_CLIENT}, {places[1], LWMQ_ROLE_CLIENT}};
  ASSERT_EQ(server.wait_connected(), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(server.post("unread"), LWMQ_OK);
  ASSERT_EQ(lwmq_channel_flush(server.channel, kLimitMs), LWMQ_OK) << lwmq_last_error();
  std::thread closing([&] {
    EXPECT_EQ(lwmq_channel_close(server.channel, LWMQ_FOREVER), LWMQ_E_TIMED_OUT);
    EXPECT_NE(std::string(lwmq_last_error()).find("the peer has gone"), std::string::npos)
        << lwmq_last_error();
  });
  std::this_thread::sleep_for(20ms);
  for (End& client : clients) client.close(0);
  closing.join();
}

// rows: S04
TEST_P(CloseOver, OfRedundantTransportsMayBeRepeatedWhereASignalHasEndedIt) {
  const std::string places[2] = {fresh(), fresh()};
  const End server = end_at_both(places, LWMQ_ROLE_SERVER, true);
  const End client = end_at_both(places, LWMQ_ROLE_CLIENT, true);
  ASSERT_EQ(server.wait_connected(), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(server.post("before"), LWMQ_OK);
  {
    const Interrupting interrupting;
    ASSERT_EQ(server.close(kLimitMs), LWMQ_E_INTERRUPTED);
  }
  EXPECT_EQ(server.receive_text(100), "<LWMQ_E_TIMED_OUT>");
  EXPECT_EQ(server.statistics().connected, 1u);
  ASSERT_EQ(server.post("after"), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(client.receive_text(), "before");
  EXPECT_EQ(client.receive_text(), "after");
  std::thread reading([&] { EXPECT_EQ(client.receive_text(), "<LWMQ_E_CLOSED>"); });
  EXPECT_EQ(server.close(kLimitMs), LWMQ_OK) << lwmq_last_error();
  reading.join();
}

LWMQ_OVER_PROVIDERS(CloseOver);
LWMQ_OVER_MANDATORY_TABLES(CloseOver);

}  // namespace
}  // namespace lwmq::conformance
