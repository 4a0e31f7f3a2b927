// What a channel can be asked for: in the structure, in the address, and what it refuses.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "conversation/settings.h"

namespace lwmq {
namespace {

using conformance::channel_options;
using conformance::End;
using conformance::Meeting;
using conversation::AddressOptions;

TEST(AddressOptions, SayWhatTheTransportTakes) {
  AddressOptions options;
  EXPECT_EQ(conversation::read_address_options("loop://a", &options), LWMQ_OK);
  EXPECT_EQ(options.buffer_bytes, 0u);
  const char* address = "loop://a?buffer_bytes=4MiB&buffers=16&retry=250ms&buffers_send=3";
  ASSERT_EQ(conversation::read_address_options(address, &options), LWMQ_OK) << last_error();
  EXPECT_EQ(options.buffer_bytes, 4u << 20);
  EXPECT_EQ(options.buffers, 16u);
  EXPECT_EQ(options.buffers_send, 3u);
  EXPECT_EQ(options.retry_ms, 250u);
  EXPECT_EQ(conversation::read_address_options("loop://a?timeout=5s", &options), LWMQ_E_ADDRESS);
}

TEST(ChannelOptions, MayStandInTheAddress) {
  const std::string address = conformance::kLoop.fresh_address();
  const Meeting meeting(address + "?buffer_bytes=2KiB&buffers=3", channel_options(0, 0));
  EXPECT_EQ(meeting.client.statistics().buffers_free, 3u);
  EXPECT_EQ(meeting.client.post(std::string(2048, 'x')), LWMQ_OK);
  EXPECT_EQ(meeting.client.post(std::string(2049, 'x')), LWMQ_E_TOO_BIG);
}

TEST(ChannelOptions, OfTheStructureComeBeforeThoseOfTheAddress) {
  const std::string address = conformance::kLoop.fresh_address();
  const Meeting meeting(address + "?buffer_bytes=2KiB&buffers=3", channel_options(4096, 5));
  EXPECT_EQ(meeting.client.statistics().buffers_free, 5u);
  EXPECT_EQ(meeting.client.post(std::string(4096, 'x')), LWMQ_OK);
}

TEST(ChannelOptions, HaveDefaults) {
  End end;
  ASSERT_EQ(lwmq_channel_create(conformance::kLoop.fresh_address().c_str(), nullptr, &end.channel), LWMQ_OK);
  ASSERT_EQ(lwmq_channel_add_send_queue(end.channel, nullptr, &end.queue), LWMQ_OK);
  EXPECT_EQ(end.post(std::string(65536, 'x')), LWMQ_OK);
  EXPECT_EQ(end.post(std::string(65537, 'x')), LWMQ_E_TOO_BIG);
}

// rows: S11
TEST(ChannelOptions, OfAnOlderShorterStructureAreUnderstood) {
  lwmq_channel_options options = channel_options(512, 999999);
  options.size = offsetof(lwmq_channel_options, buffers_send);  // as if the rest were not there
  End end;
  ASSERT_EQ(lwmq_channel_create(conformance::kLoop.fresh_address().c_str(), &options, &end.channel), LWMQ_OK);
}

// rows: L21 L18
TEST(ChannelOptions, BeyondTheLimitsAreRefusedWithBothNumbers) {
  lwmq_channel* channel = nullptr;
  lwmq_channel_options options = channel_options(512, 3500);
  options.buffers_receive = 501;
  EXPECT_EQ(lwmq_channel_create("loop://limits", &options, &channel), LWMQ_E_INVALID);
  const std::string text = lwmq_last_error();
  EXPECT_NE(text.find("4001 buffers (3500 to send and 501 to receive); 4000 are possible"), std::string::npos)
      << text;
  options.buffers_receive = 500;
  EXPECT_EQ(lwmq_channel_create("loop://limits", &options, &channel), LWMQ_OK);
  lwmq_channel_destroy(channel);
  options = channel_options(255, 2);
  EXPECT_EQ(lwmq_channel_create("loop://limits", &options, &channel), LWMQ_E_INVALID);
}

// rows: L12 L13
TEST(ChannelAddress, IsRefusedByWhoeverKnowsBest) {
  lwmq_channel* channel = nullptr;
  EXPECT_EQ(lwmq_channel_create("carrier-pigeon://coop", nullptr, &channel), LWMQ_E_ADDRESS);
  EXPECT_NE(std::string(lwmq_last_error()).find("no provider claims"), std::string::npos)
      << lwmq_last_error();
  EXPECT_EQ(lwmq_channel_create("loop://", nullptr, &channel), LWMQ_E_ADDRESS);
  EXPECT_EQ(lwmq_channel_create("", nullptr, &channel), LWMQ_E_ADDRESS);
  EXPECT_EQ(channel, nullptr);
}

TEST(ChannelUse, RefusesNullWhereAnObjectMustBe) {
  End end;
  end.create(conformance::kLoop.fresh_address(), channel_options(0, 0));
  lwmq_message* none = nullptr;
  lwmq_buffer buffer{};
  EXPECT_EQ(lwmq_channel_create(nullptr, nullptr, &end.channel), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_channel_create("loop://x", nullptr, nullptr), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_channel_open(nullptr, 0), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_channel_add_send_queue(end.channel, nullptr, nullptr), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_channel_wait_connected(nullptr, 0), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_send_queue_post(end.queue, nullptr), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_send_queue_post(end.queue, &none), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_send_queue_post_bytes(nullptr, "x", 1), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_send_queue_post_bytes(end.queue, nullptr, 1), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_channel_receive(end.channel, 0, nullptr), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_channel_flush(nullptr, 0), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_channel_query(end.channel, nullptr), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_channel_close(nullptr, 0), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_raw_get_buffer(nullptr, 0, &buffer), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_raw_send_buffer(end.channel, nullptr), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_message_create(0, nullptr), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_message_append(nullptr, "x", 1), LWMQ_E_INVALID);
  lwmq_message_destroy(nullptr);
  lwmq_channel_destroy(nullptr);
}

TEST(ChannelUse, KeepsWhatIsPostedBeforeItIsOpen) {
  const std::string address = conformance::kLoop.fresh_address();
  End client;
  client.create(address, channel_options(1024, 8));
  EXPECT_EQ(client.post("before open"), LWMQ_OK);
  EXPECT_EQ(client.receive_text(0), "<LWMQ_E_INVALID>") << "but nothing can be received";
  ASSERT_EQ(lwmq_channel_open(client.channel, LWMQ_ROLE_CLIENT), LWMQ_OK);
  EXPECT_EQ(lwmq_channel_open(client.channel, LWMQ_ROLE_CLIENT), LWMQ_E_INVALID) << "open already";
  const End server(address, LWMQ_ROLE_SERVER);
  EXPECT_EQ(server.receive_text(), "before open");
}

// rows: L50
TEST(ChannelUse, RefusesQueuesThatDoNotExist) {
  End end;
  end.create(conformance::kLoop.fresh_address(), channel_options(0, 0));
  lwmq_send_queue_options options{};
  options.size = sizeof options;
  lwmq_send_queue* queue = nullptr;
  options.priority = LWMQ_PRIORITY_IDLE + 1;
  EXPECT_EQ(lwmq_channel_add_send_queue(end.channel, &options, &queue), LWMQ_E_INVALID);
  options.priority = LWMQ_PRIORITY_IDLE;
  options.kind = 77;
  EXPECT_EQ(lwmq_channel_add_send_queue(end.channel, &options, &queue), LWMQ_E_INVALID);
  options.kind = LWMQ_QUEUE_MONO_UNBOUNDED;
  EXPECT_EQ(lwmq_channel_add_send_queue(end.channel, &options, &queue), LWMQ_OK);
}

TEST(ChannelUse, IsRefusedInAForkedChild) {
  const Meeting meeting(conformance::kLoop.fresh_address());
  lwmq_message* message = nullptr;
  ASSERT_EQ(meeting.client.post("for the parent"), LWMQ_OK);
  ASSERT_EQ(lwmq_channel_receive(meeting.server.channel, conformance::kLimitMs, &message), LWMQ_OK);
  const pid_t child = fork();
  if (child == 0) {
    lwmq_channel_statistics statistics{};
    statistics.size = sizeof statistics;
    lwmq_message* none = nullptr;
    const bool refused = lwmq_send_queue_post_bytes(meeting.client.queue, "x", 1) == LWMQ_E_CLOSED &&
                         lwmq_channel_receive(meeting.server.channel, 0, &none) == LWMQ_E_CLOSED &&
                         lwmq_channel_query(meeting.client.channel, &statistics) == LWMQ_E_CLOSED &&
                         lwmq_channel_close(meeting.client.channel, 0) == LWMQ_E_CLOSED &&
                         std::string(lwmq_last_error()).find("forked") != std::string::npos;
    lwmq_message_destroy(message);
    lwmq_channel_destroy(meeting.client.channel);
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  lwmq_message_destroy(message);
  ASSERT_EQ(meeting.client.post("still works here"), LWMQ_OK);
  EXPECT_EQ(meeting.server.receive_text(), "still works here");
}

}  // namespace
}  // namespace lwmq
