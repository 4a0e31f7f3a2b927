// wraps: preadv2
// The descriptor of a channel where something comes, or goes, just when nobody looks.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/uio.h>
#include <time.h>

#include <functional>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "conformance/transport_group.h"

namespace {
thread_local std::function<void()> t_before_drain;  // once
}

extern "C" ssize_t __real_preadv2(int, const iovec*, int, off_t, int);
extern "C" ssize_t __wrap_preadv2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  if (const auto before = std::exchange(t_before_drain, nullptr)) before();
  return __real_preadv2(fd, pieces, count, offset, flags);
}

namespace lwmq::conformance {
namespace {

using namespace std::chrono_literals;

int descriptor_of(const End& end) {
  std::int32_t fd = -1;
  EXPECT_EQ(lwmq_channel_descriptor(end.channel, &fd), LWMQ_OK) << lwmq_last_error();
  return fd;
}

bool is_readable(int fd, int timeout_ms) {
  pollfd item{fd, POLLIN, 0};
  return poll(&item, 1, timeout_ms) == 1;
}

// Until nothing stirs any more: not what the peer ships when it is idle, either.
void receive_nothing(const End& end, int fd) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(end.receive_text(0), "<LWMQ_E_EMPTY>");
    if (!is_readable(fd, 50)) return;
  }
  FAIL() << "it stays readable";
}

// Of the whole process, all its threads.
std::chrono::nanoseconds processor_time() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// Who tries to connect again and again, in vain, has no news.
TEST(ADescriptor, StaysQuietWhileNobodyServes) {
  const End client(kIpc.fresh_address(), LWMQ_ROLE_CLIENT);
  const int fd = descriptor_of(client);
  receive_nothing(client, fd);
  EXPECT_FALSE(is_readable(fd, 300)) << "thirty attempts";
}

// How many extents the filter at place 0 holds.
std::uint64_t held_by(const End& end) {
  lwmq_filter_view view{};
  view.size = sizeof view;
  EXPECT_EQ(lwmq_channel_query_filter(end.channel, 0, &view), LWMQ_OK) << lwmq_last_error();
  return view.held;
}

// Between the look in vain and the arming: while the receive empties the bell.
// rows: K11
TEST(ADescriptor, OfSeveralTransportsStaysReadableForTheSecondOfTwoMessages) {
  for (const bool redundant : {false, true}) {
    const std::string places[2] = {kIpc.fresh_address(), kIpc.fresh_address()};
    const End server = end_at_both(places, LWMQ_ROLE_SERVER, redundant);
    const int fd = descriptor_of(server);
    End clients[2];
    if (redundant) {
      clients[0] = end_at_both(places, LWMQ_ROLE_CLIENT, true);
    } else {
      for (int i = 0; i < 2; ++i) clients[i] = End(places[i], LWMQ_ROLE_CLIENT);
    }
    ASSERT_EQ(server.wait_connected(), LWMQ_OK) << lwmq_last_error();
    ASSERT_EQ(clients[0].wait_connected(), LWMQ_OK) << lwmq_last_error();
    receive_nothing(server, fd);
    bool both_posted = false;
    t_before_drain = [&] {
      both_posted = clients[0].post("first") == LWMQ_OK && clients[0].post("second") == LWMQ_OK;
    };
    ASSERT_EQ(server.receive_text(0), "first");
    ASSERT_TRUE(both_posted) << "it looked again behind the arming";
    EXPECT_TRUE(is_readable(fd, 0));
    EXPECT_EQ(server.receive_text(0), "second");
  }
}

// rows: K11
// Who looks just then takes the ring of the close, and is refused: the others poll on.
TEST(ADescriptor, OfAReceiveQueueTellsOfACloseThatAnotherReceiverHasMet) {
  lwmq_channel_options options = channel_options(1024, 8);
  options.receive_queue = LWMQ_QUEUE_MULTI_UNBOUNDED;
  const End end(kIpc.fresh_address(), LWMQ_ROLE_SERVER, options);
  const int fd = descriptor_of(end);
  receive_nothing(end, fd);
  std::thread closing;
  t_before_drain = [&] {
    closing = std::thread([&] { EXPECT_EQ(end.close(0), LWMQ_OK); });
    while (!is_readable(fd, 10)) continue;
  };
  EXPECT_EQ(end.receive_text(0), "<LWMQ_E_CLOSED>");
  EXPECT_EQ(t_before_drain, nullptr) << "it has drained";
  closing.join();
  EXPECT_TRUE(is_readable(fd, 0));
}

TEST(ADescriptor, WakesWhoPollsWhenTheFilterThatHeldAMessageIsRemoved) {
  for (const Subject& subject : {kLoop, kIpc}) {
    const std::string place = subject.fresh_address();
    const End server("delay=60s+" + place, LWMQ_ROLE_SERVER);
    const End client("filters+" + place, LWMQ_ROLE_CLIENT);
    ASSERT_EQ(client.wait_connected(), LWMQ_OK);
    ASSERT_EQ(server.wait_connected(), LWMQ_OK);
    const int fd = descriptor_of(server);
    ASSERT_EQ(client.post("held"), LWMQ_OK);
    ASSERT_TRUE(
        eventually([&] { return server.receive_text(0) == "<LWMQ_E_EMPTY>" && held_by(server) == 1; }));
    receive_nothing(server, fd);
    bool woken = false;
    std::thread polling([&] { woken = is_readable(fd, kLimitMs); });
    EXPECT_EQ(lwmq_channel_remove_filter(server.channel, 0), LWMQ_OK) << lwmq_last_error();
    polling.join();
    EXPECT_TRUE(woken);
    EXPECT_EQ(server.receive_text(0), "held");
  }
}

// As many extents as a filter holds at most are held for a minute, and as many again wait behind them.
class AFullFilter : public testing::TestWithParam<Subject> {
 protected:
  static constexpr std::uint64_t kHeldMax = 4096;  // of filters/filter_lane.h

  void SetUp() override {
    const std::string place = GetParam().fresh_address();
    lwmq_channel_options options = channel_options(65536, 8);
    if (with_receive_queue_) options.receive_queue = LWMQ_QUEUE_MULTI_UNBOUNDED;
    server_ = End("delay=3600s+" + place, LWMQ_ROLE_SERVER, options);
    client_ = End("filters+" + place, LWMQ_ROLE_CLIENT, channel_options(65536, 8));
    ASSERT_EQ(client_.wait_connected(), LWMQ_OK);
    ASSERT_EQ(server_.wait_connected(), LWMQ_OK);
  }
  void fill() {
    for (std::uint64_t i = 0; i < 2 * kHeldMax; ++i) ASSERT_EQ(client_.post("x"), LWMQ_OK);
  }
  // Whether the idle process comes to rest: a quarter of a processor is much more than a busy machine adds.
  static bool rests() {
    return eventually([] { return load() < 0.25; }, 20s);
  }
  // How much of a processor the idle process takes.
  static double load() {
    const auto begin = std::chrono::steady_clock::now();
    const auto used = processor_time();
    std::this_thread::sleep_for(400ms);
    return std::chrono::duration<double>(processor_time() - used) /
           std::chrono::duration<double>(std::chrono::steady_clock::now() - begin);
  }

  bool with_receive_queue_ = false;
  End server_, client_;
};

class AFullFilterBeforeAReceiveQueue : public AFullFilter {
 protected:
  AFullFilterBeforeAReceiveQueue() { with_receive_queue_ = true; }
};

TEST_P(AFullFilter, HoldsUpNoReceiveThatIsNotToWait) {
  const int fd = descriptor_of(server_);
  fill();
  ASSERT_TRUE(eventually([&] {
    EXPECT_EQ(server_.receive_text(0), "<LWMQ_E_EMPTY>");
    return held_by(server_) == kHeldMax;
  }));
  EXPECT_EQ(server_.receive_text(0), "<LWMQ_E_EMPTY>");
  EXPECT_EQ(server_.receive_text(20), "<LWMQ_E_TIMED_OUT>");
  receive_nothing(server_, fd);
  EXPECT_TRUE(rests());
}

TEST_P(AFullFilterBeforeAReceiveQueue, LetsTheThreadThatLandsSleep) {
  fill();
  ASSERT_TRUE(eventually([&] { return held_by(server_) == kHeldMax; }));
  EXPECT_TRUE(rests());
}

INSTANTIATE_TEST_SUITE_P(Loop, AFullFilter, testing::Values(kLoop), name_of);
INSTANTIATE_TEST_SUITE_P(Ipc, AFullFilter, testing::Values(kIpc), name_of);
INSTANTIATE_TEST_SUITE_P(Loop, AFullFilterBeforeAReceiveQueue, testing::Values(kLoop), name_of);
INSTANTIATE_TEST_SUITE_P(Ipc, AFullFilterBeforeAReceiveQueue, testing::Values(kIpc), name_of);

}  // namespace
}  // namespace lwmq::conformance
