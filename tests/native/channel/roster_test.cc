// Selectors and routers come and go while channels do that they have nothing to do with.
#include <atomic>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"

namespace lwmq::conformance {
namespace {

constexpr std::size_t kMembers = 8;

// Whoever destroys a channel looks through all selectors and routers: each is whole for as long as it is
// there to be found.
class Roster : public testing::Test {
 protected:
  Roster() {
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

TEST_F(Roster, LetsSelectorsComeAndGoBesideChannels) {
  run_beside_channels(3000, [this] {
    lwmq_selector* selector = nullptr;
    ASSERT_EQ(lwmq_selector_create(&selector), LWMQ_OK);
    for (const End& member : members_) ASSERT_EQ(lwmq_selector_add(selector, member.channel), LWMQ_OK);
    lwmq_selector_destroy(selector);
  });
}

TEST_F(Roster, LetsRoutersComeAndGoBesideChannels) {
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

}  // namespace
}  // namespace lwmq::conformance
