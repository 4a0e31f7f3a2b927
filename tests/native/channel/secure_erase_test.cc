// What is left of a secret in the memory of those who have moved it: one process posts it, another receives
// it, and a third party reads the memory of the first.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "providers/child.h"

namespace lwmq::conformance {
namespace {

using lwmq::testing::Child;

constexpr std::uint64_t kBufferBytes = 16384;

// The secret is computed where it is needed, in memory that is overwritten at once: what a search finds was
// left by the library.
char secret_byte(std::size_t i) { return static_cast<char>(i * i * 31 + i * 7 + (i >> 8) + 101); }

void write_secret(volatile char* out, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out[i] = secret_byte(i);
}
void wipe(volatile char* out, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out[i] = 0;
}

lwmq_channel_options erasing_options(bool raw, bool erases) {
  auto options = channel_options(kBufferBytes, 4, raw);
  options.secure_erase = erases ? 1 : 0;
  return options;
}

char g_scratch[kBufferBytes];

void post_secret(const End& end, std::size_t bytes, bool as_message) {
  write_secret(g_scratch, bytes);
  if (as_message) {
    lwmq_message* message = nullptr;
    if (lwmq_message_create(0, &message) != LWMQ_OK ||
        lwmq_message_append(message, g_scratch, bytes) != LWMQ_OK ||
        lwmq_send_queue_post(end.queue, &message) != LWMQ_OK)
      _exit(2);
  } else if (lwmq_send_queue_post_bytes(end.queue, g_scratch, bytes) != LWMQ_OK) {
    _exit(3);
  }
  wipe(g_scratch, sizeof g_scratch);
}

void route_secret(const End& end, std::size_t bytes) {
  lwmq_router* router = nullptr;
  lwmq_message* message = nullptr;
  std::uint32_t queues = 0;
  if (lwmq_router_create(&router) != LWMQ_OK ||
      lwmq_router_add(router, 0, "#", nullptr, end.queue) != LWMQ_OK)
    _exit(7);
  write_secret(g_scratch, bytes);
  if (lwmq_message_create(0, &message) != LWMQ_OK ||
      lwmq_message_append(message, g_scratch, bytes) != LWMQ_OK ||
      lwmq_router_post(router, &message, &queues) != LWMQ_OK)
    _exit(8);
  wipe(g_scratch, sizeof g_scratch);
  lwmq_router_destroy(router);
}

// Posts secrets of all kinds and stays where it is, doing nothing. Its argument: 'e' or 'k' (erases or
// keeps), then the address.
LWMQ_CHILD_ROLE(keeper_of_secrets) {
  const std::string argument = Child::argument();
  const End client(argument.substr(1), LWMQ_ROLE_CLIENT, erasing_options(false, argument[0] == 'e'));
  post_secret(client, 100, true);   // before anybody is there, so that it waits in a queue: inline
  post_secret(client, 9000, true);  // and copied
  route_secret(client, 100);
  Child::report("posted");
  if (client.wait_connected() != LWMQ_OK) _exit(4);
  post_secret(client, 48, false);  // straight into the transport buffer
  post_secret(client, 9000, false);
  Child::report("posted more");
  Child::hear();
}

LWMQ_CHILD_ROLE(raw_keeper_of_secrets) {
  const std::string argument = Child::argument();
  const End client(argument.substr(1), LWMQ_ROLE_CLIENT, erasing_options(true, argument[0] == 'e'));
  if (client.wait_connected() != LWMQ_OK) _exit(4);
  for (const bool sends : {true, false}) {
    lwmq_buffer buffer{};
    if (lwmq_raw_get_buffer(client.channel, kLimitMs, &buffer) != LWMQ_OK) _exit(5);
    write_secret(static_cast<char*>(buffer.data), kBufferBytes);  // more than is sent
    buffer.bytes = 1000;
    if ((sends ? lwmq_raw_send_buffer : lwmq_raw_abandon_buffer)(client.channel, &buffer) != LWMQ_OK)
      _exit(6);
  }
  Child::report("posted more");
  Child::hear();
}

// How many places in the writable memory of process `pid` hold a part of the secret: any 16 bytes of it, at
// an offset that is a multiple of 16.
int places_with_secret(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  const int memory = open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_GE(memory, 0);
  std::string parts[kBufferBytes / 16];
  for (std::size_t i = 0; i < kBufferBytes; ++i) parts[i / 16] += secret_byte(i);
  int places = 0;
  for (std::string line; std::getline(maps, line);) {
    unsigned long low = 0;
    unsigned long high = 0;
    char rights[5] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &low, &high, rights) != 3 || rights[1] != 'w') continue;
    std::string bytes(high - low, '\0');
    if (pread(memory, bytes.data(), bytes.size(), static_cast<off_t>(low)) !=
        static_cast<ssize_t>(bytes.size()))
      continue;
    // The first 100 bytes would do for the small ones; the tail of what lay in a buffer has its own.
    for (const std::size_t part : {0u, 1u, 30u, 60u, 500u, 1000u}) {
      for (std::size_t at = 0; (at = bytes.find(parts[part], at)) != std::string::npos; ++at) ++places;
    }
  }
  close(memory);
  return places;
}

class SecureErase : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer's shadow has terabytes, and keeps what was freed";
#endif
  }
  const bool erases_ = GetParam();
  std::string argument(const std::string& address) const { return (erases_ ? "e" : "k") + address; }
  // With the option nothing is left, soon; without it something stays, so that the search would have found
  // it.
  void expect_what_is_left(pid_t pid) const {
    if (erases_) {
      EXPECT_TRUE(eventually([&] { return places_with_secret(pid) == 0; }))
          << places_with_secret(pid) << " places still hold parts of the secret";
    } else {
      std::this_thread::sleep_for(
          std::chrono::milliseconds(700));  // more than two looks of the service thread
      EXPECT_GT(places_with_secret(pid), 0);
    }
  }
};

// rows: S10
TEST_P(SecureErase, LeavesNothingOfAMessageThatThePeerHasRead) {
  const std::string address = kIpc.fresh_address();
  Child child("keeper_of_secrets", argument(address));
  ASSERT_EQ(child.line(), "posted");
  EXPECT_GT(places_with_secret(child.pid()), 0) << "it is queued";
  const End server(address, LWMQ_ROLE_SERVER, erasing_options(false, erases_));
  ASSERT_EQ(child.line(), "posted more");
  lwmq_message* held = nullptr;
  for (const std::size_t bytes : {100u, 9000u, 100u, 48u, 9000u}) {
    lwmq_message_destroy(held);
    ASSERT_EQ(lwmq_channel_receive(server.channel, kLimitMs, &held), LWMQ_OK) << lwmq_last_error();
    const Frames frames = frames_of(held);
    ASSERT_EQ(frames.size(), 1u);
    ASSERT_EQ(frames[0].size(), bytes);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(frames[0][i], secret_byte(i));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_GT(places_with_secret(child.pid()), 0) << "what the peer still reads stays";
  lwmq_message_destroy(held);
  expect_what_is_left(child.pid());
  child.say('.');
  EXPECT_EQ(child.wait(), 0);
}

// rows: S10
TEST_P(SecureErase, LeavesNothingOfARawBufferThatThePeerHasDisposedOf) {
  const std::string address = kIpc.fresh_address();
  const End server(address, LWMQ_ROLE_SERVER, erasing_options(true, erases_));
  Child child("raw_keeper_of_secrets", argument(address));
  ASSERT_EQ(child.line(), "posted more");
  lwmq_buffer buffer{};
  ASSERT_EQ(lwmq_raw_receive_buffer(server.channel, kLimitMs, &buffer), LWMQ_OK) << lwmq_last_error();
  const auto* data = static_cast<const char*>(buffer.data);
  for (std::size_t i = 0; i < buffer.bytes; ++i) ASSERT_EQ(data[i], secret_byte(i));
  EXPECT_GT(places_with_secret(child.pid()), 0) << "not disposed of yet";
  EXPECT_EQ(lwmq_raw_dispose_buffer(server.channel, &buffer), LWMQ_OK);
  expect_what_is_left(child.pid());
  // The peer's window, as it is mapped here.
  bool zero = true;
  for (std::size_t i = 0; i < kBufferBytes; ++i) zero = zero && data[i] == 0;
  EXPECT_EQ(zero, erases_);
  child.say('.');
  EXPECT_EQ(child.wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(Option, SecureErase, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "On" : "Off"; });

// rows: S10
TEST(SecureEraseHere, ErasesTheBlocksOfReceivedMessages) {
  for (const bool erases : {true, false}) {
    auto options = erasing_options(false, erases);
    const Meeting meeting(kIpc.fresh_address(), options);
    ASSERT_EQ(meeting.client.post("a secret of twenty-odd bytes"), LWMQ_OK);
    lwmq_message* message = nullptr;
    ASSERT_EQ(lwmq_channel_receive(meeting.server.channel, kLimitMs, &message), LWMQ_OK);
    const void* data = nullptr;
    std::uint64_t bytes = 0;
    ASSERT_EQ(lwmq_message_frame(message, 0, &data, &bytes), LWMQ_OK);
    const std::string before(static_cast<const char*>(data), bytes);
    lwmq_message_destroy(message);  // its block goes to this thread's pool and stays mapped
    const std::string after(static_cast<const char*>(data), bytes);
    EXPECT_EQ(after == std::string(bytes, '\0'), erases);
    EXPECT_EQ(after == before, !erases);
  }
}

}  // namespace
}  // namespace lwmq::conformance
