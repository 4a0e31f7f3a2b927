// What an address says for its provider alone: `far://name?label=blue`.
#include <string>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"

namespace lwmq::conformance {
namespace {

// What a channel at `address` is refused with.
std::string refusal_of(const std::string& address) {
  lwmq_channel* channel = nullptr;
  const lwmq_channel_options options = channel_options(1024, 4);
  const lwmq_status status = lwmq_channel_create(address.c_str(), &options, &channel);
  EXPECT_EQ(status, LWMQ_E_ADDRESS);
  return lwmq_last_error();
}

TEST(ProviderSettings, ReachTheProviderFromBothEnds) {
  for (const std::string& place : {kFar.fresh_address(), kToy.fresh_address()}) {
    End server(place + "?label=red", LWMQ_ROLE_SERVER);
    End client(place + "?retry=50ms&label=blue", LWMQ_ROLE_CLIENT);
    ASSERT_EQ(client.post("hello"), LWMQ_OK);
    EXPECT_EQ(server.receive_text(), "hello");
    client.destroy();
    const Frames end = server.receive();
    ASSERT_EQ(end[0], "LWMQ_E_CLOSED");
    EXPECT_NE(end[2].find("the peer, blue "), std::string::npos) << end[2];
    End other(place + "?label=green", LWMQ_ROLE_CLIENT);
    ASSERT_EQ(other.wait_connected(), LWMQ_OK);
    server.destroy();
    const Frames its = other.receive();
    ASSERT_EQ(its[0], "LWMQ_E_CLOSED");
    EXPECT_NE(its[2].find("the peer, red "), std::string::npos) << its[2];
  }
}

TEST(ProviderSettings, ReachAProviderBehindFilters) {
  const std::string place = kFar.fresh_address();
  End server(place, LWMQ_ROLE_SERVER);
  End client("trace=/dev/null+" + place + "?label=blue", LWMQ_ROLE_CLIENT);
  ASSERT_EQ(client.post("hello"), LWMQ_OK);
  EXPECT_EQ(server.receive_text(), "hello");
  client.destroy();
  EXPECT_NE(server.receive()[2].find("the peer, blue "), std::string::npos);
}

// rows: L30
TEST(ProviderSettings, ASmallSocketBringsLargeMessagesAllTheSame) {
  const std::string place = kFar.fresh_address() + "?socket_bytes=4KiB";
  const End server(place, LWMQ_ROLE_SERVER, channel_options(1 << 20, 4));
  const End client(place, LWMQ_ROLE_CLIENT, channel_options(1 << 20, 4));
  for (int i = 0; i < 20; ++i)
    ASSERT_EQ(client.post(std::string(1'000'000, static_cast<char>('a' + i))), LWMQ_OK);
  for (int i = 0; i < 20; ++i)
    ASSERT_EQ(server.receive_text(), std::string(1'000'000, static_cast<char>('a' + i)));
}

TEST(ProviderSettings, AreRefusedWhereTheyAreUnknownOrWrong) {
  EXPECT_NE(refusal_of("far://x?lable=blue").find("did you mean 'label'?"), std::string::npos)
      << lwmq_last_error();
  EXPECT_NE(refusal_of("far://x?colour=blue").find("retry, label, socket_bytes"), std::string::npos)
      << lwmq_last_error();
  EXPECT_NE(refusal_of("far://x?socket_bytes=1").find("4096 to 16777216 are possible"), std::string::npos)
      << lwmq_last_error();
  EXPECT_NE(refusal_of("far://x?label").find("has no value"), std::string::npos) << lwmq_last_error();
  EXPECT_NE(refusal_of("far://x?label=a&label=b").find("is given twice"), std::string::npos)
      << lwmq_last_error();
  const std::string of_another = refusal_of("ipc://x?label=blue");
  EXPECT_NE(of_another.find("option 'label' of 'ipc://x?label=blue' is unknown"), std::string::npos)
      << of_another;
}

// As with a port that the system chooses.
TEST(BoundAddress, IsTheOneThatTheProviderHasChosen) {
  for (const std::string filters : {"", "trace=/dev/null+"}) {
    lwmq_listener* listener = nullptr;
    ASSERT_EQ(lwmq_listener_open((filters + "far://*?label=red").c_str(), nullptr, &listener), LWMQ_OK)
        << lwmq_last_error();
    const char* address = nullptr;
    ASSERT_EQ(lwmq_listener_address(listener, &address), LWMQ_OK);
    EXPECT_EQ(std::string(address).find(filters + "far://any-"), 0u) << address;
    const End client(std::string(address).substr(filters.size()), LWMQ_ROLE_CLIENT);
    EXPECT_EQ(client.wait_connected(), LWMQ_OK);
    ASSERT_EQ(lwmq_listener_close(listener), LWMQ_OK);
    ASSERT_EQ(lwmq_listener_address(listener, &address), LWMQ_OK) << "it is lent until destroy";
    EXPECT_NE(std::string(address).find("far://any-"), std::string::npos);
    lwmq_listener_destroy(listener);
  }
}

TEST(BoundAddress, IsTheGivenOneWhereThereWasNoChoice) {
  const std::string given = kIpc.fresh_address();
  lwmq_listener* listener = nullptr;
  ASSERT_EQ(lwmq_listener_open((given + "?buffers=4").c_str(), nullptr, &listener), LWMQ_OK)
      << lwmq_last_error();
  const char* address = nullptr;
  ASSERT_EQ(lwmq_listener_address(listener, &address), LWMQ_OK);
  EXPECT_EQ(std::string(address), given);
  EXPECT_EQ(lwmq_listener_address(nullptr, &address), LWMQ_E_INVALID);
  lwmq_listener_destroy(listener);
}

TEST(ProviderSettings, AreNoneOfAStreams) {
  lwmq_address_option option{};
  option.size = sizeof option;
  ASSERT_EQ(lwmq_read_address_option("far://x?label=blue", LWMQ_TAKEN_BY_CHANNEL, 0, &option), LWMQ_OK);
  EXPECT_STREQ(option.key, "label");
  EXPECT_EQ(std::string(option.text, option.text_bytes), "blue");
  EXPECT_EQ(lwmq_read_address_option("far://x?label=blue", LWMQ_TAKEN_BY_STREAM, 0, &option), LWMQ_E_ADDRESS);
  EXPECT_NE(std::string(lwmq_last_error()).find("is none of a stream's"), std::string::npos)
      << lwmq_last_error();
}

}  // namespace
}  // namespace lwmq::conformance
