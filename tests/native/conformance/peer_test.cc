// Peers that come and go, as one hears of them without receiving.
#include <thread>

#include "conformance/channel_fixture.h"
#include "conformance/interrupting.h"
#include "conformance/providers.h"

namespace lwmq::conformance {
namespace {

class PeersOver : public testing::TestWithParam<Subject> {
 protected:
  std::string address_ = GetParam().fresh_address();
};

lwmq_status wait_peer(const End& end, lwmq_peer* peer, std::uint32_t timeout_ms = kLimitMs) {
  peer->size = sizeof *peer;
  return lwmq_channel_wait_peer(end.channel, 0, timeout_ms, peer);
}

TEST_P(PeersOver, AreHeardOfAsTheyComeAndGo) {
  const End server(address_, LWMQ_ROLE_SERVER);
  lwmq_peer peer{};
  EXPECT_EQ(wait_peer(server, &peer, 0), LWMQ_E_TIMED_OUT);
  EXPECT_EQ(wait_peer(server, &peer, 5), LWMQ_E_TIMED_OUT);
  EXPECT_EQ(peer.number, 0u);
  for (std::uint32_t number = 1; number <= 5; ++number) {
    std::thread watcher([&] {
      EXPECT_EQ(wait_peer(server, &peer), LWMQ_OK) << lwmq_last_error();
      EXPECT_EQ(peer.connected, 1u);
      EXPECT_EQ(peer.number, number);
      EXPECT_EQ(wait_peer(server, &peer), LWMQ_OK) << lwmq_last_error();
      EXPECT_EQ(peer.connected, 0u);
      EXPECT_EQ(peer.number, number);
    });
    {
      const End client(address_, LWMQ_ROLE_CLIENT);
      lwmq_peer known{};
      EXPECT_EQ(wait_peer(client, &known), LWMQ_OK);
      ASSERT_EQ(server.wait_connected(), LWMQ_OK);
      EXPECT_EQ(client.post("one that waits for a receive"), LWMQ_OK);
      EXPECT_EQ(client.close(0), LWMQ_E_TIMED_OUT);
    }
    watcher.join();
  }
  lwmq_peer last{};
  EXPECT_EQ(wait_peer(server, &last, 0), LWMQ_OK) << "whoever knew nothing";
  EXPECT_EQ(last.number, 5u);
  EXPECT_EQ(wait_peer(server, &last, 0), LWMQ_E_TIMED_OUT);
  EXPECT_EQ(lwmq_channel_wait_peer(server.channel, 1, 0, &last), LWMQ_E_INVALID);
}

TEST_P(PeersOver, AreHeardOfByAClientThatIsIdle) {
  const End client(address_, LWMQ_ROLE_CLIENT);
  lwmq_peer peer{};
  for (std::uint32_t number = 1; number <= 2; ++number) {
    {
      const End server(address_, LWMQ_ROLE_SERVER);
      EXPECT_EQ(wait_peer(client, &peer), LWMQ_OK);
      EXPECT_EQ(peer.connected, 1u);
      EXPECT_EQ(peer.number, number);
      EXPECT_EQ(wait_peer(client, &peer, 5), LWMQ_E_TIMED_OUT);
    }
    EXPECT_EQ(wait_peer(client, &peer), LWMQ_OK);
    EXPECT_EQ(peer.connected, 0u);
  }
}

TEST_P(PeersOver, AreNotWaitedForBehindAClose) {
  const End server(address_, LWMQ_ROLE_SERVER);
  std::thread watcher([&] {
    lwmq_peer peer{};
    EXPECT_EQ(wait_peer(server, &peer), LWMQ_E_CLOSED);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(server.close(0), LWMQ_OK);
  watcher.join();
}

TEST_P(PeersOver, AreWaitedForUntilASignal) {
  const End server(address_, LWMQ_ROLE_SERVER);
  lwmq_peer peer{};
  const Interrupting interrupting;
  EXPECT_EQ(wait_peer(server, &peer), LWMQ_E_INTERRUPTED);
}

LWMQ_OVER_ALL_PROVIDERS(PeersOver);

}  // namespace
}  // namespace lwmq::conformance
