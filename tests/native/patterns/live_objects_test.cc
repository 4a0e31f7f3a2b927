// Selectors and routers come and go while channels do that they have nothing to do with.
#include <atomic>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"

namespace lwmq::conformance {
namespace {

constexpr std::size_t kMembers = 8;

// Whoever destroys a channel looks through all selectors and routers: each is whole for as long as it is
// there to be found.
class LiveObjects : public testing::Test {
 protected:
  LiveObjects() {
    for (std::size_t i = 0; i < kMembers; ++i) members_.emplace_back(kLoop.fresh_address(), LWMQ_ROLE_SERVER);
  }

  // Runs `round` so often, while another thread makes and destroys channels.
  template <typename Round>
  void run_beside_channels(int rounds, Round&& round) {
    std::atomic<bool> over{false};
    std::thread channels([&over, address = kLoop.fresh_address()] {
      while (!over) {
        End unrelated;
        unrelated.create(address, channel_options(256, 2));
      }
    });
    for (int i = 0; i < rounds && !HasFailure(); ++i) round();
    over = true;
    channels.join();
  }

  std::vector<End> members_;
};

TEST_F(LiveObjects, LetsSelectorsComeAndGoBesideChannels) {
  run_beside_channels(3000, [this] {
    lwmq_selector* selector = nullptr;
    ASSERT_EQ(lwmq_selector_create(&selector), LWMQ_OK);
    for (const End& member : members_) ASSERT_EQ(lwmq_selector_add(selector, member.channel), LWMQ_OK);
    lwmq_selector_destroy(selector);
  });
}

TEST_F(LiveObjects, LetsRoutersComeAndGoBesideChannels) {
  run_beside_channels(50'000, [this] {
    lwmq_router* router = nullptr;
    ASSERT_EQ(lwmq_router_create(&router), LWMQ_OK);
    for (std::size_t i = 0; i < kMembers; ++i) {
      const std::string pattern = "a.b" + std::to_string(i) + ".#";
      ASSERT_EQ(lwmq_router_add(router, 0, pattern.c_str(), nullptr, members_[i].queue), LWMQ_OK);
    }
    lwmq_router_destroy(router);
  });
}

// Whoever destroys a channel waits for the thread that has it in hand, in which a call-back of the
// application runs: that may make and destroy selectors.
TEST(LiveObjectsOver, LetsSelectorsComeAndGoInACallBackOfTheThreadThatIsWaitedFor) {
  struct Context {
    std::atomic<std::thread::id> receiving;
    std::atomic<bool> is_in_selector{false};
    std::atomic<bool> is_inside{false};
    std::atomic<bool> is_destroying{false};
    std::atomic<bool> is_made{false};
  } context;
  const auto make_selector = [](void* argument, std::int32_t event) {
    auto* mine = static_cast<Context*>(argument);
    if (event != LWMQ_FRAME_RELEASE || mine->receiving != std::this_thread::get_id() ||
        !mine->is_in_selector || mine->is_inside.exchange(true))
      return;
    while (!mine->is_destroying) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until it waits
    lwmq_selector* selector = nullptr;
    EXPECT_EQ(lwmq_selector_create(&selector), LWMQ_OK);
    lwmq_selector_destroy(selector);
    mine->is_made = true;
  };
  lwmq_channel_options options = channel_options(1024, 8);
  options.receive_queue = LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST;
  options.receive_capacity = 1;
  const std::string address = kLoop.fresh_address();
  End server(address, LWMQ_ROLE_SERVER, options);
  const End client(address, LWMQ_ROLE_CLIENT);
  ASSERT_EQ(client.wait_connected(), LWMQ_OK);
  lwmq_selector* selector = nullptr;
  ASSERT_EQ(lwmq_selector_create(&selector), LWMQ_OK);
  ASSERT_EQ(lwmq_selector_add(selector, server.channel), LWMQ_OK);
  std::atomic<bool> is_over{false};
  std::thread receiving([&] {
    context.receiving = std::this_thread::get_id();
    while (!is_over) {
      lwmq_channel* channel = nullptr;
      lwmq_message* message = nullptr;
      context.is_in_selector = true;
      const lwmq_status status = lwmq_selector_receive(selector, 20, &channel, &message);
      context.is_in_selector = false;
      if (status == LWMQ_OK) lwmq_message_destroy(message);
    }
  });
  // What is discarded is released by whoever lands, which is now and then the selector's thread.
  while (!context.is_inside) {
    lwmq_message* message = make_message({});
    ASSERT_EQ(lwmq_message_append_external(message, "abcd", 4, make_selector, &context), LWMQ_OK);
    ASSERT_EQ(lwmq_send_queue_post(client.queue, &message), LWMQ_OK);
  }
  context.is_destroying = true;
  server.destroy();
  EXPECT_TRUE(context.is_made);
  is_over = true;
  receiving.join();
  lwmq_selector_destroy(selector);
}

}  // namespace
}  // namespace lwmq::conformance
