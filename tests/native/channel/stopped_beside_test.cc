// A channel between two processes goes on while another channel of the two, or its own other direction, goes
// on, pauses, or is not read any more. What that costs it tests/bench says (apart).
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "providers/child.h"

namespace lwmq::conformance {
namespace {

using lwmq::testing::Child;
using Words = std::array<std::uint64_t, 8>;  // 64 bytes

// A window is what the buffers hold.
constexpr int kMessages = 4000;
constexpr int kWindows = 5;  // in a row, before the other one is told something else
constexpr int kRounds = 5;
// What runs beside takes next to no time of a core.
constexpr auto kPace = std::chrono::milliseconds(1);
constexpr std::size_t kBesideBytes = 60'000;  // one of its messages to a buffer

lwmq_channel_options options_of_both() { return channel_options(64 << 10, 8); }

// An expectation costs as much as a message; and there is nothing to go on with.
void must(bool good) {
  if (!good) [[unlikely]]
    std::abort();
}

// Nobody is at the other end meanwhile: all of it has room.
void post_window(const End& end) {
  const Words words{};
  for (int i = 0; i < kMessages; ++i)
    must(lwmq_send_queue_post_bytes(end.queue, words.data(), sizeof words) == LWMQ_OK);
  must(lwmq_channel_flush(end.channel, kLimitMs) == LWMQ_OK);
}

void receive_window(const End& end) {
  for (int i = 0; i < kMessages; ++i) {
    lwmq_message* message = nullptr;
    must(lwmq_channel_receive(end.channel, kLimitMs, &message) == LWMQ_OK);
    lwmq_message_destroy(message);
  }
}

enum class Other : char { runs = 'r', pauses = 'p', is_not_read = 'n' };
constexpr Other kStates[] = {Other::runs, Other::pauses, Other::is_not_read};
enum class Part { posts, receives };

// An end of what runs beside: a thread that posts, or receives, as it is told.
class Beside {
 public:
  Beside(const End& end, Part part) : end_(end), part_(part) {
    thread_ = std::thread([this] { run(); });
  }
  ~Beside() {
    over_ = true;
    thread_.join();
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  // Returns when it is so: who posts to somebody that does not read has filled all buffers then.
  [[nodiscard]] bool turn(Other to) {
    told_ = to;
    return eventually([&] {
      return doing_ == to && (to != Other::is_not_read || part_ == Part::receives || unsent() >= 2);
    });
  }
  // Messages posted or received.
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  void run() {
    const std::string text(kBesideBytes, 'b');
    while (!over_) {
      doing_ = told_.load();
      if (doing_ == (part_ == Part::posts ? Other::pauses : Other::is_not_read)) {
        std::this_thread::sleep_for(kPace);
      } else if (part_ == Part::receives) {
        lwmq_message* message = nullptr;
        if (lwmq_channel_receive(end_.channel, 20, &message) == LWMQ_OK) ++count_;
        lwmq_message_destroy(message);
      } else {
        if (unsent() < 5) {
          must(end_.post(text) == LWMQ_OK);
          ++count_;
        }
        std::this_thread::sleep_for(kPace);
      }
    }
  }
  [[nodiscard]] std::uint64_t unsent() const { return count_ - end_.statistics().messages_shipped; }

  const End& end_;
  const Part part_;
  std::atomic<Other> told_{Other::pauses};
  std::atomic<Other> doing_{Other::pauses};
  std::atomic<bool> over_{false};
  std::atomic<std::uint64_t> count_{0};
  std::thread thread_;
};

// ---- The other process. Its argument: 'c' or 'd' (what runs beside is a channel, or a direction), and the
// address.

std::string beside_of(const std::string& address) { return address + "-beside"; }

LWMQ_CHILD_ROLE(receives_windows) {
  const std::string argument = Child::argument();
  const std::string address = argument.substr(1);
  const bool direction = argument[0] == 'd';
  const End measured(address, LWMQ_ROLE_SERVER, options_of_both());
  std::unique_ptr<End> other;
  if (!direction) other = std::make_unique<End>(beside_of(address), LWMQ_ROLE_SERVER, options_of_both());
  Child::report("serving");
  Beside beside(direction ? measured : *other, direction ? Part::posts : Part::receives);
  for (char what = Child::hear(); what != '\0'; what = Child::hear()) {
    if (what == 'w') {
      receive_window(measured);
      Child::report("received");
    } else if (what == 'c') {
      Child::report(std::to_string(beside.count()));
    } else {
      Child::report(beside.turn(static_cast<Other>(what)) ? "turned" : "did not turn");
    }
  }
}

// ---- Tests

class StoppedBeside : public ::testing::TestWithParam<bool> {};

// rows: L26
TEST_P(StoppedBeside, AChannelGoesOn) {
  const bool direction = GetParam();
  const std::string address = kIpc.fresh_address();
  Child child("receives_windows", (direction ? "d" : "c") + address);
  ASSERT_EQ(child.line(), "serving");
  const End measured(address, LWMQ_ROLE_CLIENT, options_of_both());
  std::unique_ptr<End> other;
  if (!direction) other = std::make_unique<End>(beside_of(address), LWMQ_ROLE_CLIENT, options_of_both());
  ASSERT_EQ((direction ? measured : *other).wait_connected(), LWMQ_OK);
  ASSERT_EQ(measured.wait_connected(), LWMQ_OK);
  Beside beside(direction ? measured : *other, direction ? Part::receives : Part::posts);
  const auto received_beside = [&]() -> std::uint64_t {
    if (direction) return beside.count();
    child.say('c');
    return std::stoull("0" + child.line());
  };

  for (int round = 0; round < kRounds; ++round) {
    for (const Other state : kStates) {
      // Who receives turns first: who posts waits until all buffers are full.
      if (direction) must(beside.turn(state));
      child.say(static_cast<char>(state));
      ASSERT_EQ(child.line(), "turned");
      if (!direction) must(beside.turn(state));
      const std::uint64_t before = received_beside();
      for (int window = 0; window < kWindows; ++window) {
        post_window(measured);
        child.say('w');
        ASSERT_EQ(child.line(), "received");
      }
      if (state == Other::runs) {
        ASSERT_TRUE(eventually([&] { return received_beside() > before; }));
      } else if (state == Other::is_not_read) {
        ASSERT_EQ(received_beside(), before);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Other, StoppedBeside, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Direction" : "Channel"; });

}  // namespace
}  // namespace lwmq::conformance
