// Who of a group gets what a router posts.
#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "conformance/transport_group.h"

namespace lwmq::conformance {
namespace {

lwmq_send_queue* add_newest(const End& end, std::uint64_t capacity) {
  lwmq_send_queue_options options{};
  options.size = sizeof options;
  options.kind = LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST;
  options.capacity = capacity;
  lwmq_send_queue* queue = nullptr;
  EXPECT_EQ(lwmq_channel_add_send_queue(end.channel, &options, &queue), LWMQ_OK) << lwmq_last_error();
  return queue;
}

class RouterOver : public testing::TestWithParam<Subject> {
 protected:
  void SetUp() override { ASSERT_EQ(lwmq_router_create(&router_), LWMQ_OK); }
  void TearDown() override { lwmq_router_destroy(router_); }

  lwmq_status add(const char* pattern, const char* group, lwmq_send_queue* queue) const {
    return lwmq_router_add(router_, 0, pattern, group, queue);
  }
  lwmq_status post(const std::string& text) const {
    lwmq_message* message = make_message({text});
    std::uint32_t queues = 0;
    const lwmq_status status = lwmq_router_post(router_, &message, &queues);
    EXPECT_EQ(message == nullptr, queues > 0);
    EXPECT_EQ(status == LWMQ_OK, queues == 1) << lwmq_last_error();
    lwmq_message_destroy(message);
    return status;
  }

  lwmq_router* router_ = nullptr;
};

// rows: K27
TEST_P(RouterOver, GivesNothingToAMemberWithoutAPeerWhileAnotherIsOnlyFull) {
  const std::string text(200, 'x');
  const Meeting there(GetParam().fresh_address(), channel_options(256, 2));
  const End absent(GetParam().fresh_address(), LWMQ_ROLE_SERVER);
  lwmq_send_queue* full = add_newest(there.server, 2);
  lwmq_send_queue* empty = add_newest(absent, 100);
  ASSERT_EQ(add("#", "workers", full), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(add("#", "workers", empty), LWMQ_OK) << lwmq_last_error();
  int posted = 0;
  lwmq_status status = LWMQ_OK;
  for (; posted < 1000 && (status = post(text)) == LWMQ_OK; ++posted) continue;
  EXPECT_EQ(status, LWMQ_E_FULL);
  EXPECT_GE(posted, 2);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(post(text), LWMQ_E_FULL) << "whoever has the turn";
  EXPECT_EQ(statistics_of(full).posted, static_cast<std::uint64_t>(posted));
  EXPECT_EQ(statistics_of(full).discarded, 0u);
  EXPECT_EQ(statistics_of(empty).posted, 0u);
  for (int i = 0; i < posted; ++i) ASSERT_EQ(there.client.receive_text(), text);
  EXPECT_TRUE(eventually([&] { return statistics_of(full).queued == 0; }));
  EXPECT_EQ(post("there is room"), LWMQ_OK);
  EXPECT_EQ(there.client.receive_text(), "there is room");
  EXPECT_EQ(statistics_of(empty).posted, 0u);
}

// Which members match changes from message to message; none of them starves.
TEST_P(RouterOver, GivesTurnsToWhoeverOfAGroupHasWaitedLongest) {
  const Meeting there(GetParam().fresh_address());
  std::vector<lwmq_send_queue*> workers;
  for (int i = 0; i < 3; ++i) workers.push_back(add_newest(there.server, 10'000));
  for (int i = 0; i < 2; ++i) ASSERT_EQ(add("order.#", "workers", workers[i]), LWMQ_OK);
  for (int i = 1; i < 3; ++i) ASSERT_EQ(add("audit.#", "workers", workers[i]), LWMQ_OK);
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(post("order.new"), LWMQ_OK);
    ASSERT_EQ(post("audit.new"), LWMQ_OK);
  }
  // Who matches both has a third of all, and so have the others.
  for (lwmq_send_queue* worker : workers) EXPECT_EQ(statistics_of(worker).posted, 200u);
  ASSERT_EQ(add("audit.#", "workers", workers[0]), LWMQ_OK);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(post("audit.new"), LWMQ_OK);
  for (lwmq_send_queue* worker : workers) EXPECT_EQ(statistics_of(worker).posted, 201u);
}

// Each of its transports has room of its own: what one could take the other might have to refuse.
TEST_P(RouterOver, LeadsToAChannelWithSeveralTransportsWithoutAGroupAlone) {
  for (const bool redundant : {false, true}) {
    const End server =
        end_at_both({GetParam().fresh_address(), GetParam().fresh_address()}, LWMQ_ROLE_SERVER, redundant);
    lwmq_send_queue* queue = add_newest(server, 2);
    EXPECT_EQ(add("a", "workers", queue), LWMQ_E_UNSUPPORTED);
    EXPECT_NE(std::string(lwmq_last_error()).find("group 'workers'"), std::string::npos) << lwmq_last_error();
    EXPECT_EQ(post("a"), LWMQ_E_EMPTY) << "there is no route";
    EXPECT_EQ(add("a", nullptr, queue), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(post("a"), LWMQ_OK);
  }
}

LWMQ_OVER_PROVIDERS(RouterOver);

}  // namespace
}  // namespace lwmq::conformance
