// What a call leaves behind beside its status: a text, where it failed; and what the caller has said.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"

namespace lwmq::conformance {
namespace {

TEST(AnAnswer, HasNoText) {
  const Meeting meeting(kLoop.fresh_address());
  const Meeting raw(kLoop.fresh_address(), channel_options(1024, 2, true));
  const End lonely(kLoop.fresh_address(), LWMQ_ROLE_CLIENT);
  lwmq_send_queue_options bounded{};
  bounded.size = sizeof bounded;
  bounded.kind = LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST;
  bounded.capacity = 1;
  lwmq_send_queue* full = nullptr;
  ASSERT_EQ(lwmq_channel_add_send_queue(lonely.channel, &bounded, &full), LWMQ_OK);
  ASSERT_EQ(lwmq_send_queue_post_bytes(full, "x", 1), LWMQ_OK);
  lwmq_selector* selector = nullptr;
  lwmq_loan* loan = nullptr;
  ASSERT_EQ(lwmq_selector_create(&selector), LWMQ_OK);
  ASSERT_EQ(lwmq_selector_add(selector, meeting.client.channel), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(lwmq_loan_create(1, &loan), LWMQ_OK);
  lwmq_message* ours = make_message({"x"});
  lwmq_message* none = nullptr;
  lwmq_channel* channel = nullptr;
  const lwmq_lent* lent = nullptr;
  lwmq_buffer buffer{};
  std::uint32_t count = 0;
  lwmq_channel* receives = meeting.server.channel;
  const std::vector<std::pair<lwmq_status, std::function<lwmq_status()>>> table = {
      {LWMQ_E_TIMED_OUT, [&] { return lwmq_channel_receive(receives, 1, &none); }},
      {LWMQ_E_EMPTY, [&] { return lwmq_channel_receive(receives, 0, &none); }},
      {LWMQ_E_TIMED_OUT, [&] { return lwmq_channel_receive_many(receives, 1, 1, &none, &count); }},
      {LWMQ_E_TIMED_OUT, [&] { return lwmq_channel_receive_loan(receives, 1, loan, &lent, &count); }},
      {LWMQ_E_TIMED_OUT, [&] { return lwmq_channel_wait_connected(lonely.channel, 1); }},
      {LWMQ_E_TIMED_OUT, [&] { return lwmq_channel_flush(lonely.channel, 1); }},
      {LWMQ_E_FULL, [&] { return lwmq_send_queue_post_wait(full, 0, 0, 0, &ours); }},
      {LWMQ_E_TIMED_OUT, [&] { return lwmq_send_queue_post_wait(full, 0, 1, 0, &ours); }},
      {LWMQ_E_TIMED_OUT, [&] { return lwmq_selector_receive(selector, 1, &channel, &none); }},
      {LWMQ_E_EMPTY, [&] { return lwmq_selector_take(selector, &none); }},
      {LWMQ_E_TIMED_OUT,
       [&] {
         lwmq_status status = LWMQ_OK;  // it may give a channel for nothing now and then
         while (status == LWMQ_OK) status = lwmq_selector_wait(selector, 1, &channel);
         return status;
       }},
      {LWMQ_E_TIMED_OUT, [&] { return lwmq_raw_receive_buffer(raw.server.channel, 1, &buffer); }},
  };
  for (std::size_t i = 0; i < table.size(); ++i) {
    ASSERT_EQ(lwmq_channel_open(nullptr, LWMQ_ROLE_SERVER), LWMQ_E_INVALID);
    ASSERT_STRNE(lwmq_last_error(), "") << "a failure has one";
    EXPECT_EQ(table[i].second(), table[i].first) << "call " << i;
    EXPECT_STREQ(lwmq_last_error(), "") << "call " << i;
  }
  lwmq_message_destroy(ours);
  lwmq_loan_destroy(loan);
  lwmq_selector_destroy(selector);
}

// Who asks how many were taken is told, also where the call is refused.
TEST(AnAnswer, SaysThatNothingWasTakenWhereItsArgumentsAreRefused) {
  const Meeting meeting(kLoop.fresh_address());
  lwmq_router* router = nullptr;
  ASSERT_EQ(lwmq_router_create(&router), LWMQ_OK);
  std::uint64_t posted = 7;
  EXPECT_EQ(lwmq_send_queue_post_many(nullptr, nullptr, 0, &posted), LWMQ_E_INVALID);
  EXPECT_EQ(posted, 0u);
  posted = 7;
  EXPECT_EQ(lwmq_send_queue_post_messages(meeting.client.queue, nullptr, 1, &posted), LWMQ_E_INVALID);
  EXPECT_EQ(posted, 0u);
  std::uint32_t queues = 7;
  EXPECT_EQ(lwmq_router_post(router, nullptr, &queues), LWMQ_E_INVALID);
  EXPECT_EQ(queues, 0u);
  lwmq_router_destroy(router);
}

// A caller of a later version has a larger structure, one of an earlier version a smaller one.
template <typename Statistics, typename Query>
void expect_size_is_kept(Query&& query) {
  struct {
    Statistics ours;
    std::uint64_t later[4];
  } larger{};
  larger.ours.size = sizeof larger;
  larger.later[0] = 77;
  ASSERT_EQ(query(&larger.ours), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(larger.ours.size, sizeof larger);
  EXPECT_EQ(larger.later[0], 77u) << "not ours to write";
  Statistics smaller{};
  smaller.size = sizeof(std::uint64_t) + sizeof(std::uint32_t);
  ASSERT_EQ(query(&smaller), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(smaller.size, sizeof(std::uint64_t) + sizeof(std::uint32_t));
}

TEST(AnAnswer, LeavesTheSizeThatTheCallerHasSaid) {
  const Meeting meeting(kLoop.fresh_address());
  expect_size_is_kept<lwmq_channel_statistics>(
      [&](lwmq_channel_statistics* out) { return lwmq_channel_query(meeting.client.channel, out); });
  expect_size_is_kept<lwmq_send_queue_statistics>(
      [&](lwmq_send_queue_statistics* out) { return lwmq_send_queue_query(meeting.client.queue, out); });
}

}  // namespace
}  // namespace lwmq::conformance
