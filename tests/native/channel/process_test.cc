// Channels between processes that are killed, stopped and started again.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <algorithm>
#include <string>
#include <vector>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "providers/child.h"
#include "providers/system_calls.h"

namespace lwmq::conformance {
namespace {

using lwmq::testing::Child;
using namespace std::chrono_literals;

constexpr std::uint64_t kBufferBytes = 256;
const std::string kPadding(200, 'x');  // one message fills a buffer

lwmq_channel_options small_options(bool raw = false) { return channel_options(kBufferBytes, 2, raw); }

std::string numbered(int i) { return kPadding + std::to_string(i); }

// ---- What the other process does. Its argument is the address.

// Posts ten messages, says when two were shipped (there is room for no more), and waits for its end.
LWMQ_CHILD_ROLE(posting_client) {
  const End client(Child::argument(), LWMQ_ROLE_CLIENT, small_options());
  for (int i = 0; i < 10; ++i) {
    if (client.post(numbered(i)) != LWMQ_OK) _exit(2);
  }
  if (!eventually([&] { return client.statistics().messages_shipped == 2; })) _exit(3);
  Child::report("shipped");
  Child::hear();
}

// Receives one message, says so, and then waits for its end.
LWMQ_CHILD_ROLE(receiving_server) {
  const End server(Child::argument(), LWMQ_ROLE_SERVER, small_options());
  Child::report("serving");
  const std::string text = server.receive_text();
  Child::report(text.substr(std::min(text.size(), kPadding.size())));
  Child::hear();
}

LWMQ_CHILD_ROLE(receiving_client) {
  const End client(Child::argument(), LWMQ_ROLE_CLIENT, small_options());
  for (;;) Child::report(client.receive_text());
}

// Posts a thousand messages, closes with a linger as long as it takes, and exits.
LWMQ_CHILD_ROLE(lingering_client) {
  const End client(Child::argument(), LWMQ_ROLE_CLIENT, small_options());
  for (int i = 0; i < 1000; ++i) {
    if (client.post(std::to_string(i)) != LWMQ_OK) _exit(2);
  }
  Child::report(client.close(kLimitMs) == LWMQ_OK ? "closed" : lwmq_last_error());
}

// Ships one message and ends without any closing.
LWMQ_CHILD_ROLE(abrupt_client) {
  const End client(Child::argument(), LWMQ_ROLE_CLIENT, small_options());
  if (client.wait_connected() != LWMQ_OK || client.post("last words") != LWMQ_OK) _exit(2);
  _exit(0);
}

LWMQ_CHILD_ROLE(raw_server_that_does_nothing) {
  const End server(Child::argument(), LWMQ_ROLE_SERVER, small_options(true));
  Child::report("serving");
  if (server.wait_connected() != LWMQ_OK) _exit(2);
  Child::report("connected");
  Child::hear();
}

// Descriptors up to a low limit; all that are free but `left` are taken, until the end of the scope.
class ShortOfDescriptors {
 public:
  explicit ShortOfDescriptors(int left) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit low = before_;
    low.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &low);
    for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken_.push_back(fd);
    for (; left > 0; --left) give_back();
  }
  ~ShortOfDescriptors() {
    while (!taken_.empty()) give_back();
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  ShortOfDescriptors(const ShortOfDescriptors&) = delete;
  ShortOfDescriptors& operator=(const ShortOfDescriptors&) = delete;

 private:
  void give_back() {
    ::close(taken_.back());
    taken_.pop_back();
  }
  rlimit before_{};
  std::vector<int> taken_;
};

constexpr int kMostLeft = 8;  // descriptors: more than a connection needs

std::string place_of(const std::string& address, int left) { return address + "-" + std::to_string(left); }

// Connects to one server after the other, each time first with another number of descriptors left.
LWMQ_CHILD_ROLE(client_short_of_descriptors) {
  const End warm(kIpc.fresh_address(), LWMQ_ROLE_SERVER, small_options());  // the service threads have theirs
  for (int left = 0; left <= kMostLeft; ++left) {
    End client;
    client.create(place_of(Child::argument(), left), small_options());
    {
      const ShortOfDescriptors now(left);
      if (lwmq_channel_open(client.channel, LWMQ_ROLE_CLIENT) != LWMQ_OK) _exit(2);
      client.wait_connected(100);  // some attempts
    }
    // What the last attempt found is answered until the next.
    const bool connected = eventually([&] { return client.wait_connected(100) == LWMQ_OK; });
    Child::report(connected ? "connected" : lwmq_last_error());
    Child::report(client.receive_text());
  }
}

// Opens clients in the automatic role, which connect before they return, with a signal every so many
// microseconds meanwhile.
LWMQ_CHILD_ROLE(client_among_signals) {
  struct sigaction handled {};
  handled.sa_handler = [](int) {};
  sigaction(SIGALRM, &handled, nullptr);
  for (int round = 0; Child::hear() != '\0'; ++round) {
    const itimerval often{{0, 30 + 10 * (round % 20)}, {0, 30 + 10 * (round % 20)}};
    End client;
    client.create(Child::argument(), small_options());
    setitimer(ITIMER_REAL, &often, nullptr);
    const lwmq_status opened = lwmq_channel_open(client.channel, LWMQ_ROLE_AUTO);
    const itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
    if (opened != LWMQ_OK) _exit(2);
    Child::report(client.wait_connected() == LWMQ_OK ? "connected" : "not connected");
    Child::report(client.receive_text());
  }
}

constexpr int kAwakeTurns = 30'000;

// The next message, without ever waiting in the kernel for it.
lwmq_message* receive_awake(const End& end) {
  lwmq_message* message = nullptr;
  lwmq_status status = LWMQ_OK;
  while ((status = lwmq_channel_receive(end.channel, LWMQ_NO_WAIT, &message)) == LWMQ_E_EMPTY) {
  }
  return status == LWMQ_OK ? message : nullptr;
}

void echo_awake(const End& end, int turns) {
  for (int i = 0; i < turns; ++i) {
    lwmq_message* message = receive_awake(end);
    ASSERT_NE(message, nullptr) << lwmq_last_error();
    ASSERT_EQ(lwmq_send_queue_post(end.queue, &message), LWMQ_OK);
  }
}

void ask_awake(const End& end, int turns) {
  for (int i = 0; i < turns; ++i) {
    ASSERT_EQ(lwmq_send_queue_post_bytes(end.queue, &i, sizeof i), LWMQ_OK);
    lwmq_message* message = receive_awake(end);
    ASSERT_NE(message, nullptr) << lwmq_last_error();
    const void* data = nullptr;
    std::uint64_t bytes = 0;
    ASSERT_EQ(lwmq_message_frame(message, 0, &data, &bytes), LWMQ_OK);
    ASSERT_EQ(*static_cast<const int*>(data), i);
    lwmq_message_destroy(message);
  }
}

LWMQ_CHILD_ROLE(echoes_awake) {
  const End server(Child::argument(), LWMQ_ROLE_SERVER);
  Child::report("serving");
  echo_awake(server, 1000);  // what is set up at first use
  lwmq::testing::forbid_system_calls();
  echo_awake(server, kAwakeTurns);
  Child::report("done");
  receive_awake(server);
}

LWMQ_CHILD_ROLE(asks_awake) {
  const End client(Child::argument(), LWMQ_ROLE_CLIENT);
  ask_awake(client, 1000);
  lwmq::testing::forbid_system_calls();
  ask_awake(client, kAwakeTurns);
  Child::report("done");
  receive_awake(client);
}

constexpr std::uint64_t kNumbered = 1'000'000;
constexpr std::uint64_t kSmallBytes = 64;

// Receives messages that begin with their number, reports how many came in order.
LWMQ_CHILD_ROLE(counting_server) {
  const End server(Child::argument(), LWMQ_ROLE_SERVER, channel_options(65536, 8));
  Child::report("serving");
  std::uint64_t next = 0;
  for (lwmq_message* message = nullptr; next < kNumbered; ++next) {
    if (lwmq_channel_receive(server.channel, kLimitMs, &message) != LWMQ_OK) break;
    const void* data = nullptr;
    std::uint64_t bytes = 0;
    lwmq_message_frame(message, 0, &data, &bytes);
    const bool right = bytes == kSmallBytes && *static_cast<const std::uint64_t*>(data) == next;
    lwmq_message_destroy(message);
    if (!right) break;
  }
  Child::report(std::to_string(next));
}

constexpr std::uint64_t kLargeBytes = 640 << 10;
constexpr std::uint64_t kLargeCount = 1600;  // a gigabyte

// Reads every word of large buffers where they lie; reports how many were right, and what was copied for it.
LWMQ_CHILD_ROLE(reads_large_buffers) {
  const End server(Child::argument(), LWMQ_ROLE_SERVER, channel_options(kLargeBytes, 4, true));
  Child::report("serving");
  std::uint64_t right = 0;
  for (; right < kLargeCount; ++right) {
    lwmq_buffer buffer{};
    if (lwmq_raw_receive_buffer(server.channel, kLimitMs, &buffer) != LWMQ_OK) break;
    const auto* words = static_cast<const std::uint64_t*>(buffer.data);
    std::uint64_t wrong = buffer.bytes != kLargeBytes;
    for (std::uint64_t i = 0; i < buffer.bytes / sizeof *words; ++i) wrong |= words[i] ^ (right + i);
    lwmq_raw_dispose_buffer(server.channel, &buffer);
    if (wrong != 0) break;
  }
  lwmq_statistics statistics{};
  statistics.size = sizeof statistics;
  lwmq_query_statistics(&statistics);
  Child::report(std::to_string(right) + " right, " + std::to_string(statistics.bytes_copied) + " copied");
}

// ---- Tests

// rows: L02
TEST(ChannelProcesses, ExchangeMessagesWithoutAnySystemCallWhileBothAreAwake) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer makes system calls of its own";
#endif
  const std::string address = kIpc.fresh_address();
  Child echo("echoes_awake", address);
  ASSERT_EQ(echo.line(), "serving");
  Child asker("asks_awake", address);
  EXPECT_EQ(asker.line(), "done");
  EXPECT_EQ(echo.line(), "done");
}

// How fast: tests/bench.
// rows: M04
TEST(ChannelProcesses, DeliverAMillionSmallMessagesInTheOrderPosted) {
  const std::string address = kIpc.fresh_address();
  Child server("counting_server", address);
  ASSERT_EQ(server.line(), "serving");
  const End client(address, LWMQ_ROLE_CLIENT, channel_options(65536, 8));
  std::uint64_t words[kSmallBytes / sizeof(std::uint64_t)] = {};
  for (words[0] = 0; words[0] < kNumbered; ++words[0]) {
    ASSERT_EQ(lwmq_send_queue_post_bytes(client.queue, words, sizeof words), LWMQ_OK);
    if (words[0] % 10'000 == 0) {
      ASSERT_EQ(lwmq_channel_flush(client.channel, kLimitMs), LWMQ_OK);
    }
  }
  EXPECT_EQ(server.line(), std::to_string(kNumbered));
}

// How fast: tests/bench.
// rows: M05
TEST(ChannelProcesses, PassGigabytesInLargeBuffersThatAreReadWhereTheyLie) {
  const std::string address = kIpc.fresh_address();
  Child server("reads_large_buffers", address);
  ASSERT_EQ(server.line(), "serving");
  const End client(address, LWMQ_ROLE_CLIENT, channel_options(kLargeBytes, 4, true));
  ASSERT_EQ(lwmq_channel_wait_connected(client.channel, kLimitMs), LWMQ_OK);
  for (std::uint64_t number = 0; number < kLargeCount; ++number) {
    lwmq_buffer buffer{};
    ASSERT_EQ(lwmq_raw_get_buffer(client.channel, kLimitMs, &buffer), LWMQ_OK) << lwmq_last_error();
    auto* words = static_cast<std::uint64_t*>(buffer.data);
    for (std::uint64_t i = 0; i < kLargeBytes / sizeof *words; ++i) words[i] = number + i;
    buffer.bytes = kLargeBytes;
    ASSERT_EQ(lwmq_raw_send_buffer(client.channel, &buffer), LWMQ_OK);
  }
  EXPECT_EQ(server.line(), std::to_string(kLargeCount) + " right, 0 copied");
}

// rows: M02 M12
TEST(ChannelProcesses, TalkWithNothingButAnAddress) {
  const std::string address = kIpc.fresh_address();
  const End server(address, LWMQ_ROLE_AUTO, small_options());
  Child child("receiving_client", address);
  ASSERT_EQ(server.post("hello"), LWMQ_OK);
  EXPECT_EQ(child.line(), "hello");
}

// rows: L34 L54 S08
TEST(ChannelProcesses, DeliverWhatAKilledPeerHadCommittedThenReportItsLossOnce) {
  const std::string address = kIpc.fresh_address();
  const End server(address, LWMQ_ROLE_SERVER, small_options());
  {
    Child child("posting_client", address);
    ASSERT_EQ(child.line(), "shipped");
    ASSERT_EQ(server.wait_connected(), LWMQ_OK);
    child.strike();
    // Two buffers of one message each were shipped; eight messages died in its queue.
    EXPECT_EQ(server.receive_text(), numbered(0));
    EXPECT_EQ(server.receive_text(), numbered(1));
    EXPECT_EQ(server.receive_text(), "<LWMQ_E_PEER_LOST>");
    EXPECT_NE(std::string(lwmq_last_error()).find(std::to_string(child.pid())), std::string::npos)
        << lwmq_last_error();
  }
  EXPECT_EQ(server.receive_text(50), "<LWMQ_E_TIMED_OUT>") << "reported once";
  EXPECT_EQ(server.statistics().peers_lost, 1u);
  EXPECT_EQ(server.statistics().connected, 0u);
  Child next("lingering_client", address);
  EXPECT_EQ(server.receive_text(), "0") << "the address is served as before";
}

// rows: S08 L34
TEST(ChannelProcesses, CountWhatWasShippedToAKilledPeerAndSendTheRestToTheNext) {
  const std::string address = kIpc.fresh_address();
  const End client(address, LWMQ_ROLE_CLIENT, small_options());
  {
    Child child("receiving_server", address);
    ASSERT_EQ(child.line(), "serving");
    for (int i = 0; i < 6; ++i) ASSERT_EQ(client.post(numbered(i)), LWMQ_OK);
    ASSERT_EQ(child.line(), "0");
    ASSERT_TRUE(eventually([&] { return client.statistics().messages_shipped >= 2; }));
    child.kill();
  }
  EXPECT_EQ(client.receive_text(), "<LWMQ_E_PEER_LOST>");
  const auto lost = client.statistics();
  // It received one. Of the others one or two were in its buffers, perhaps one more when it gave the first
  // back.
  EXPECT_GE(lost.messages_lost, 1u);
  EXPECT_LE(lost.messages_lost, 3u);
  EXPECT_EQ(lost.peers_lost, 1u);
  Child next("receiving_server", address);
  ASSERT_EQ(next.line(), "serving");
  EXPECT_EQ(next.line(), std::to_string(lost.messages_shipped)) << "the first that had only been queued";
}

// rows: S08
TEST(ChannelProcesses, FindTheNextServerAfterAKillWhileTheClientOnlyPosts) {
  const std::string address = kIpc.fresh_address();
  const End client(address, LWMQ_ROLE_CLIENT, small_options());
  for (int round = 0; round < 3; ++round) {
    Child child("receiving_server", address);
    ASSERT_EQ(child.line(), "serving");
    ASSERT_EQ(client.post(numbered(round)), LWMQ_OK);
    ASSERT_FALSE(child.line().empty());
    child.kill();
  }
}

// rows: Z12
TEST(ChannelProcesses, PushWhatIsPendingBeforeTheyExit) {
  const std::string address = kIpc.fresh_address();
  const End server(address, LWMQ_ROLE_SERVER, small_options());
  Child child("lingering_client", address);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(server.receive_text(), std::to_string(i));
  EXPECT_EQ(child.line(), "closed");
  EXPECT_EQ(child.wait(), 0);
}

// rows: Z12
TEST(ChannelProcesses, LeaveBehindWhatTheyHaveShippedWhenTheyExit) {
  const std::string address = kIpc.fresh_address();
  const End server(address, LWMQ_ROLE_SERVER, small_options());
  Child child("abrupt_client", address);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(server.receive_text(), "last words");
  EXPECT_EQ(server.receive_text(), "<LWMQ_E_PEER_LOST>");
}

// The server has answered a client that has no descriptor left for the answer: it is not kept as a peer.
// rows: S08
TEST(ChannelProcesses, ConnectOnceTheyHaveDescriptorsAgain) {
  const std::string address = kIpc.fresh_address();
  std::vector<End> servers;
  for (int left = 0; left <= kMostLeft; ++left)
    servers.emplace_back(place_of(address, left), LWMQ_ROLE_SERVER, small_options());
  Child child("client_short_of_descriptors", address);
  for (int left = 0; left <= kMostLeft; ++left) {
    ASSERT_EQ(child.line(), "connected") << "with " << left << " descriptors at first";
    ASSERT_EQ(servers[static_cast<std::size_t>(left)].post("hello"), LWMQ_OK);
    ASSERT_EQ(child.line(), "hello") << "with " << left << " descriptors at first";
  }
  EXPECT_EQ(child.wait(), 0);
}

// rows: S08
TEST(ChannelProcesses, ConnectWhateverSignalsArriveMeanwhile) {
  const std::string address = kIpc.fresh_address();
  Child child("client_among_signals", address);
  for (int round = 0; round < 200; ++round) {
    const End server(address, LWMQ_ROLE_SERVER, small_options());
    child.say('.');
    ASSERT_EQ(child.line(), "connected") << "round " << round;
    ASSERT_EQ(server.post("hello"), LWMQ_OK);
    ASSERT_EQ(child.line(), "hello") << "round " << round;
  }
}

// rows: L17 L56
TEST(ChannelProcesses, DoNotBlockEachOtherWhenOneIsStopped) {
  const std::string address = kIpc.fresh_address();
  const End client(address, LWMQ_ROLE_CLIENT, small_options(true));
  Child child("raw_server_that_does_nothing", address);
  ASSERT_EQ(child.line(), "serving");
  ASSERT_EQ(child.line(), "connected");
  ASSERT_EQ(client.wait_connected(), LWMQ_OK);
  ASSERT_TRUE(child.stop());
  lwmq_buffer buffer{};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(lwmq_raw_get_buffer(client.channel, 0, &buffer), LWMQ_OK);
    ASSERT_EQ(lwmq_raw_send_buffer(client.channel, &buffer), LWMQ_OK);
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(lwmq_raw_get_buffer(client.channel, 100, &buffer), LWMQ_E_TIMED_OUT);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 95ms);
  ASSERT_EQ(::kill(child.pid(), SIGCONT), 0);
}

// rows: L56
TEST(ChannelProcesses, PostOnTowardsAPeerThatIsStopped) {
  const std::string address = kIpc.fresh_address();
  const End client(address, LWMQ_ROLE_CLIENT, small_options());
  Child child("receiving_server", address);
  ASSERT_EQ(child.line(), "serving");
  ASSERT_EQ(client.wait_connected(), LWMQ_OK);
  ASSERT_TRUE(child.stop());
  for (int i = 0; i < 100000; ++i) ASSERT_EQ(client.post("unread"), LWMQ_OK) << "it never waits for the peer";
  EXPECT_LT(client.statistics().messages_shipped, 1000u);
  ASSERT_EQ(::kill(child.pid(), SIGCONT), 0);
  EXPECT_EQ(client.close(0), LWMQ_E_TIMED_OUT);
}

}  // namespace
}  // namespace lwmq::conformance
