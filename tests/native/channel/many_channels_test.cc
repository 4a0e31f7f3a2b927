// Ten thousand channels in one process, and between two: what each costs, and that none stands in another's
// way.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "open_descriptors.h"
#include "providers/child.h"

namespace lwmq::conformance {
namespace {

using lwmq::testing::Child;

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

// rows: L23 K21
TEST(ManyChannels, OpenAndExchangeWithinAMemoryBound) {
  constexpr int kPairs = 5000;  // two ends each
  const std::uint64_t before = resident_bytes();
  const std::uint64_t descriptors_before = open_descriptors();
  std::vector<std::unique_ptr<Meeting>> meetings;
  for (int i = 0; i < kPairs; ++i) {
    meetings.push_back(std::make_unique<Meeting>(kLoop.fresh_address(), channel_options(256, 2)));
  }
  for (int i = 0; i < kPairs; ++i) ASSERT_EQ(meetings[i]->client.post(std::to_string(i)), LWMQ_OK);
  for (int i = 0; i < kPairs; ++i) ASSERT_EQ(meetings[i]->server.receive_text(), std::to_string(i));
  EXPECT_LE(open_descriptors() - descriptors_before, 10u) << "those of the service threads";
  const lwmq_process_view seen = seen_of_this_process();
  EXPECT_GE(seen.entry_count, 4u * kPairs) << "each end, and its queue";
  EXPECT_EQ(seen.unlisted, 0u);
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's shadow is memory too";
#endif
  const std::uint64_t each = (resident_bytes() - before) / (2 * kPairs);
  EXPECT_LT(each, 64u * 1024) << "bytes for one end";
  RecordProperty("bytes_per_channel", std::to_string(each));
}

// ---- Between two processes

constexpr int kBetween = 500;

struct Cost {
  double bytes;
  double descriptors;
};

// What one of the channels of this process costs, that has had so much before it opened them.
Cost cost_since(std::uint64_t bytes, std::uint64_t descriptors) {
  return {(static_cast<double>(resident_bytes()) - static_cast<double>(bytes)) / kBetween,
          (static_cast<double>(open_descriptors()) - static_cast<double>(descriptors)) / kBetween};
}

std::string numbered(const std::string& address, int i) { return address + "-" + std::to_string(i); }

// Serves them all, answers a message on each with the same, and reports what one costs while all are open.
LWMQ_CHILD_ROLE(serves_many) {
  const std::string address = Child::argument();
  const End warm(address, LWMQ_ROLE_SERVER, channel_options(256, 2));
  const std::uint64_t bytes = resident_bytes();
  const std::uint64_t descriptors = open_descriptors();
  std::vector<std::unique_ptr<End>> servers;
  for (int i = 0; i < kBetween; ++i)
    servers.push_back(std::make_unique<End>(numbered(address, i), LWMQ_ROLE_SERVER, channel_options(256, 2)));
  Child::report("serving");
  for (const auto& server : servers) {
    if (server->post(server->receive_text()) != LWMQ_OK) _exit(2);
  }
  Child::hear();
  const Cost cost = cost_since(bytes, descriptors);
  Child::report(std::to_string(cost.bytes));
  Child::report(std::to_string(cost.descriptors));
  Child::hear();
}

// rows: L23 M15
TEST(ManyChannels, BetweenTwoProcessesCostEachFewDescriptorsAndLittleMemory) {
  const std::string address = kIpc.fresh_address();
  Child child("serves_many", address);
  ASSERT_EQ(child.line(), "serving");
  const End warm(address, LWMQ_ROLE_CLIENT, channel_options(256, 2));
  ASSERT_EQ(warm.wait_connected(), LWMQ_OK);
  const std::uint64_t bytes = resident_bytes();
  const std::uint64_t descriptors = open_descriptors();
  std::vector<std::unique_ptr<End>> clients;
  for (int i = 0; i < kBetween; ++i) {
    clients.push_back(std::make_unique<End>(numbered(address, i), LWMQ_ROLE_CLIENT, channel_options(256, 2)));
    ASSERT_EQ(clients.back()->post(std::to_string(i)), LWMQ_OK);
  }
  for (int i = 0; i < kBetween; ++i) ASSERT_EQ(clients[i]->receive_text(), std::to_string(i));
  const Cost here = cost_since(bytes, descriptors);
  child.say('.');
  const Cost there{std::stod("0" + child.line()), std::stod("0" + child.line())};
  RecordProperty("bytes_of_a_client", std::to_string(here.bytes));
  RecordProperty("bytes_of_a_server", std::to_string(there.bytes));
  RecordProperty("descriptors_of_a_client", std::to_string(here.descriptors));
  RecordProperty("descriptors_of_a_server", std::to_string(there.descriptors));
  const double of_threads = 10.0 / kBetween;
  EXPECT_LE(here.descriptors, 1 + of_threads) << "its life line";
  EXPECT_LE(there.descriptors, 4 + of_threads) << "that, the address, its door and what rings there";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's shadow is memory too";
#endif
  EXPECT_LT(here.bytes, 48.0 * 1024);  // 36 KiB when this was written, of both
  EXPECT_LT(there.bytes, 48.0 * 1024);
}

// ---- Of one listener

constexpr rlim_t kOfOthers = 500;  // descriptors

// As many clients as rows ask for, or as this machine lets two processes have descriptors for.
int clients_that_fit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(10'000, limit.rlim_max - std::min(limit.rlim_max, kOfOthers)));
}

// Accepts them all, answers a message of each with the same, and reports how many descriptors it has then.
LWMQ_CHILD_ROLE(accepts_many) {
  const int count = clients_that_fit();
  const lwmq_channel_options options = channel_options(256, 2);
  lwmq_listener* listener = nullptr;
  if (lwmq_listener_open(Child::argument(), &options, &listener) != LWMQ_OK) _exit(2);
  Child::report("listening");
  std::vector<lwmq_channel*> channels(static_cast<std::size_t>(count));
  for (lwmq_channel*& channel : channels) {
    lwmq_send_queue* queue = nullptr;
    if (lwmq_listener_accept(listener, kLimitMs, &channel) != LWMQ_OK) _exit(3);
    if (lwmq_channel_add_send_queue(channel, nullptr, &queue) != LWMQ_OK) _exit(4);
    lwmq_message* message = nullptr;
    if (lwmq_channel_receive(channel, kLimitMs, &message) != LWMQ_OK) _exit(5);
    if (lwmq_send_queue_post(queue, &message) != LWMQ_OK) _exit(6);
  }
  Child::report(std::to_string(open_descriptors()));
  Child::report(std::to_string(resident_bytes()));
  Child::hear();
  for (lwmq_channel* channel : channels) lwmq_channel_destroy(channel);
  lwmq_listener_destroy(listener);
}

// rows: L23
TEST(ManyChannels, TenThousandClientsOfOneListenerCostADescriptorEach) {
  const int count = clients_that_fit();
  const std::string address = kIpc.fresh_address();
  Child child("accepts_many", address);
  ASSERT_EQ(child.line(), "listening");
  const std::uint64_t bytes = resident_bytes();
  std::vector<std::unique_ptr<End>> clients;
  for (int i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<End>(address, LWMQ_ROLE_CLIENT, channel_options(256, 2)));
    ASSERT_EQ(clients.back()->post(std::to_string(i)), LWMQ_OK);
  }
  for (int i = 0; i < count; ++i) ASSERT_EQ(clients[i]->receive_text(), std::to_string(i));
  EXPECT_LE(open_descriptors(), static_cast<std::uint64_t>(count) + 100);
  EXPECT_LE(std::stoull("0" + child.line()), static_cast<std::uint64_t>(count) + 100);
  const std::uint64_t there = std::stoull("0" + child.line());
  RecordProperty("clients", count);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's shadow is memory too";
#endif
  EXPECT_LT(resident_bytes() - bytes, 1'500'000'000u);
  EXPECT_LT(there, 1'500'000'000u);
}

std::uint64_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::uint64_t>(std::distance(begin(tasks), end(tasks)));
}

// rows: K18
TEST(ManyChannels, AreServedByTheThreadsOfTheFirst) {
  for (const Subject& subject : {kLoop, kIpc}) {
    const Meeting first(subject.fresh_address(), channel_options(256, 2));
    ASSERT_EQ(first.client.post("warm"), LWMQ_OK);
    ASSERT_EQ(first.server.receive_text(), "warm");
    const std::uint64_t before = threads_of_this_process();
    std::vector<std::unique_ptr<Meeting>> meetings;
    for (int i = 0; i < 200; ++i) {
      meetings.push_back(std::make_unique<Meeting>(subject.fresh_address(), channel_options(256, 2)));
      ASSERT_EQ(meetings.back()->client.post("more"), LWMQ_OK);
    }
    EXPECT_TRUE(eventually([&] { return threads_of_this_process() <= before; }))
        << subject.name << ": " << before << ", then " << threads_of_this_process();
  }
}

}  // namespace
}  // namespace lwmq::conformance
