// Peers that come and go, as one hears of them without receiving.
#include <atomic>
#include <thread>
#include <vector>

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
    std::atomic<bool> has_come{false};
    std::thread watcher([&] {
      EXPECT_EQ(wait_peer(server, &peer), LWMQ_OK) << lwmq_last_error();
      EXPECT_EQ(peer.connected, 1u);
      EXPECT_EQ(peer.number, number);
      has_come = true;
      EXPECT_EQ(wait_peer(server, &peer), LWMQ_OK) << lwmq_last_error();
      EXPECT_EQ(peer.connected, 0u);
      EXPECT_EQ(peer.number, number);
    });
    {
      const End client(address_, LWMQ_ROLE_CLIENT);
      lwmq_peer known{};
      EXPECT_EQ(wait_peer(client, &known), LWMQ_OK);
      EXPECT_TRUE(eventually([&] { return has_come.load(); }));
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
  std::uint64_t ends = 0;
  EXPECT_EQ(lwmq_channel_ends(server.channel, &ends), LWMQ_OK);
  EXPECT_EQ(ends, 5u) << "none of which was received yet";
  for (std::uint64_t number = 1; number <= 5; ++number) {
    EXPECT_EQ(server.receive_text(), "one that waits for a receive");
    EXPECT_TRUE(server.receive_text().starts_with("<LWMQ_E_"));
    EXPECT_EQ(lwmq_last_end(), number);
  }
  EXPECT_EQ(server.receive_text(0), "<LWMQ_E_EMPTY>");
  EXPECT_EQ(lwmq_last_end(), 0u) << "no failure";
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

// Who waits has left the channel before it is destroyed.
TEST_P(PeersOver, AreNotWaitedForBehindADestroy) {
  for (int round = 0; round < 20; ++round) {
    End server(address_, LWMQ_ROLE_SERVER);
    lwmq_channel* const channel = server.channel;
    std::atomic<int> waiting{0};
    std::vector<std::thread> waiters;
    for (int form = 0; form < 4; ++form) {
      waiters.emplace_back([channel, form, &waiting] {
        lwmq_peer peer{};
        peer.size = sizeof peer;
        lwmq_message* message = nullptr;
        ++waiting;
        const lwmq_status status = form == 0   ? lwmq_channel_receive(channel, kLimitMs, &message)
                                   : form == 1 ? lwmq_channel_wait_connected(channel, kLimitMs)
                                               : lwmq_channel_wait_peer(channel, 0, kLimitMs, &peer);
        EXPECT_EQ(status, LWMQ_E_CLOSED);
      });
    }
    EXPECT_TRUE(eventually([&] { return waiting == 4; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // they are in their calls
    server.destroy();
    for (std::thread& waiter : waiters) waiter.join();
  }
}

TEST_P(PeersOver, AreWaitedForUntilASignal) {
  const End server(address_, LWMQ_ROLE_SERVER);
  lwmq_peer peer{};
  const Interrupting interrupting;
  EXPECT_EQ(wait_peer(server, &peer), LWMQ_E_INTERRUPTED);
}

LWMQ_OVER_PROVIDERS(PeersOver);

}  // namespace
}  // namespace lwmq::conformance
