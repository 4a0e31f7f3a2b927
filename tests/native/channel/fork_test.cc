// What a forked child may do with what it has from its parent.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "conformance/transport_group.h"

namespace lwmq::conformance {
namespace {

// Runs `body` in a forked child, which ends with what that returns. -1: it had to be killed, it hung.
template <typename Body>
int in_child(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  if (eventually([&] { return waitpid(child, &status, WNOHANG) != 0; }))
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  ::kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return -1;
}

// One thread makes messages and another destroys them, so that blocks change hands all the time.
class Traffic {
 public:
  Traffic() {
    threads_[0] = std::thread([this] {
      for (std::size_t i = 0; !over_; ++i) {
        lwmq_message* message = made();
        lwmq_message* nothing = nullptr;
        while (!slots_[i % kSlots].compare_exchange_weak(nothing, message)) {
          nothing = nullptr;
          if (over_) return lwmq_message_destroy(message);
        }
      }
    });
    threads_[1] = std::thread([this] {
      for (std::size_t i = 0; !over_;) {
        lwmq_message* message = slots_[i % kSlots].exchange(nullptr);
        if (message == nullptr) continue;
        lwmq_message_destroy(message);
        ++i;
      }
    });
  }
  ~Traffic() {
    over_ = true;
    for (auto& thread : threads_) thread.join();
    for (auto& slot : slots_) lwmq_message_destroy(slot);
  }
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  static lwmq_message* made() {
    static const char kBytes[1000] = "in a block of their own";
    lwmq_message* message = nullptr;
    if (lwmq_message_create(0, &message) != LWMQ_OK) return nullptr;
    lwmq_message_append(message, kBytes, sizeof kBytes);
    return message;
  }

 private:
  static constexpr std::size_t kSlots = 4096;
  std::atomic<bool> over_{false};
  std::array<std::atomic<lwmq_message*>, kSlots> slots_{};
  std::array<std::thread, 2> threads_;
};

TEST(AForkedChild, DestroysTheMessagesItHasInheritedWhateverThreadsOfTheParentWereDoing) {
  const End server(kLoop.fresh_address(), LWMQ_ROLE_SERVER);
  std::array<lwmq_message*, 400> inherited{};
  for (auto& message : inherited) message = Traffic::made();
  {
    const Traffic traffic;
    for (int i = 0; i < 500; ++i) {
      ASSERT_EQ(in_child([&] {
                  for (lwmq_message* message : inherited) lwmq_message_destroy(message);
                  return 0;
                }),
                0)
          << "fork " << i;
    }
  }
  for (lwmq_message* message : inherited) lwmq_message_destroy(message);
}

// Whatever the parent's threads were doing with it.
TEST(AForkedChild, LeavesAChannelWithSeveralTransportsAtOnce) {
  for (const bool redundant : {true, false}) {
    const std::string places[2] = {kLoop.fresh_address(), kLoop.fresh_address()};
    const End server = end_at_both(places, LWMQ_ROLE_SERVER, redundant);
    std::atomic<bool> over{false};
    std::thread posting([&] {
      while (!over && server.post("the parent's") == LWMQ_OK) std::this_thread::yield();
    });
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(in_child([&] {
                  if (server.post("the child's") != LWMQ_E_CLOSED) return 1;
                  return server.close(LWMQ_FOREVER) == LWMQ_E_CLOSED ? 0 : 2;
                }),
                0)
          << "fork " << i << ", redundant " << redundant;
    }
    over = true;
    posting.join();
    EXPECT_EQ(server.close(0), LWMQ_E_TIMED_OUT) << "what was posted here";
  }
}

TEST(AForkedChild, IsToldThatNoticesSelectorsAndRoutersAreTheParents) {
  const Meeting meeting(kLoop.fresh_address());
  const Meeting heard(kLoop.fresh_address());
  lwmq_selector* selector = nullptr;
  lwmq_router* router = nullptr;
  ASSERT_EQ(lwmq_selector_create(&selector), LWMQ_OK);
  ASSERT_EQ(lwmq_router_create(&router), LWMQ_OK);
  ASSERT_EQ(lwmq_selector_add(selector, meeting.server.channel), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(lwmq_router_add(router, 0, "#", nullptr, meeting.client.queue), LWMQ_OK) << lwmq_last_error();
  const auto let_go = [](void*, lwmq_status, lwmq_message* message) { lwmq_message_destroy(message); };
  ASSERT_EQ(lwmq_channel_on_message(heard.server.channel, let_go, nullptr), LWMQ_OK) << lwmq_last_error();
  lwmq_message* message = make_message({"the parent's"});
  lwmq_message* none = nullptr;
  lwmq_channel* channel = nullptr;
  std::int32_t fd = -1;
  std::uint32_t count = 0;
  const std::vector<std::function<lwmq_status()>> calls = {
      [&] { return lwmq_channel_on_message(heard.server.channel, nullptr, nullptr); },
      [&] { return lwmq_channel_on_message(meeting.server.channel, let_go, nullptr); },
      [&] { return lwmq_selector_add(selector, meeting.client.channel); },
      [&] { return lwmq_selector_remove(selector, meeting.server.channel); },
      [&] { return lwmq_selector_wait(selector, 10, &channel); },
      [&] { return lwmq_selector_take(selector, &none); },
      [&] { return lwmq_selector_descriptor(selector, &fd); },
      [&] { return lwmq_selector_receive(selector, 10, &channel, &none); },
      [&] { return lwmq_router_add(router, 0, "a", nullptr, meeting.client.queue); },
      [&] { return lwmq_router_remove(router, 0, "#", nullptr, meeting.client.queue); },
      [&] { return lwmq_router_forget(router, meeting.client.queue); },
      [&] { return lwmq_router_post(router, &message, &count); },
  };
  std::atomic<bool> waits{false};
  std::thread waiting([&] {  // and holds what it holds when the process forks
    lwmq_channel* theirs = nullptr;
    lwmq_message* theirs_too = nullptr;
    waits = true;
    ASSERT_EQ(lwmq_selector_receive(selector, kLimitMs, &theirs, &theirs_too), LWMQ_OK) << lwmq_last_error();
    lwmq_message_destroy(theirs_too);
  });
  while (!waits) std::this_thread::yield();
  const int failed = in_child([&] {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const bool refused =
          calls[i]() == LWMQ_E_CLOSED && std::string(lwmq_last_error()).find("forked") != std::string::npos;
      if (!refused) return static_cast<int>(1 + i);
    }
    return message == nullptr ? 100 : 0;
  });
  EXPECT_EQ(failed, 0) << "call number " << failed - 1;
  EXPECT_EQ(lwmq_router_post(router, &message, &count), LWMQ_OK) << "nothing has changed here";
  waiting.join();
  lwmq_selector_destroy(selector);
  lwmq_router_destroy(router);
}

}  // namespace
}  // namespace lwmq::conformance
