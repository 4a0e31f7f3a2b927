// What a channel between two processes does per second while another channel of the two, or its own other
// direction, goes on, pauses, or is not read any more.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "conformance/channel_fixture.h"
#include "conformance/cores.h"
#include "conformance/providers.h"
#include "providers/child.h"

namespace lwmq::conformance {
namespace {

using lwmq::testing::Child;
using Clock = std::chrono::steady_clock;
using Words = std::array<std::uint64_t, 8>;  // 64 bytes

// A window is what the buffers hold, some 100 us, which most of the time are one's own.
constexpr int kMessages = 4000;
constexpr int kWindows = 20;  // in a row, before the other one is told something else
constexpr std::size_t kRoundsMin = 15;
constexpr auto kPatience = std::chrono::seconds(15);
constexpr double kWithin = 0.95;
// What runs beside takes next to no time of a core.
constexpr auto kPace = std::chrono::milliseconds(1);
constexpr std::size_t kBesideBytes = 60'000;  // one of its messages to a buffer

lwmq_channel_options options_of_both() { return channel_options(64 << 10, 8); }

std::uint64_t ns_since(Clock::time_point begun) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begun).count());
}

// An expectation costs as much as a message; and there is nothing to go on with.
void must(bool good) {
  if (!good) [[unlikely]]
    std::abort();
}

// How long it takes to post a window, and to receive one that has come, in nanoseconds. Each is done with
// nobody at the other end: two threads that had to run at the same time would show how busy the machine is.
std::uint64_t post_window(const End& end) {
  const Words words{};
  const auto begun = Clock::now();
  for (int i = 0; i < kMessages; ++i)
    must(lwmq_send_queue_post_bytes(end.queue, words.data(), sizeof words) == LWMQ_OK);
  must(lwmq_channel_flush(end.channel, kLimitMs) == LWMQ_OK);
  return ns_since(begun);
}

std::uint64_t receive_window(const End& end) {
  const auto begun = Clock::now();
  for (int i = 0; i < kMessages; ++i) {
    lwmq_message* message = nullptr;
    must(lwmq_channel_receive(end.channel, kLimitMs, &message) == LWMQ_OK);
    lwmq_message_destroy(message);
  }
  return ns_since(begun);
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
      Child::report(std::to_string(receive_window(measured)));
    } else if (what == 'c') {
      Child::report(std::to_string(beside.count()));
    } else {
      Child::report(beside.turn(static_cast<Other>(what)) ? "turned" : "did not turn");
    }
  }
}

// ---- Tests

// Messages per second in each state: the best window of each round. Noise only takes.
class Rates {
 public:
  using Round = std::array<double, std::size(kStates)>;
  void add(const Round& round) { rounds_.push_back(round); }
  [[nodiscard]] std::size_t rounds() const { return rounds_.size(); }
  // Of the good rounds, a tenth: the best of all may be one in which a thread was far ahead of its turn.
  [[nodiscard]] double good(std::size_t state) const {
    return quantile(0.9, [state](const Round& round) { return round[state]; });
  }
  // What the slowest state has of the fastest: in the good rounds of each, or in the median of what it is
  // within one round. A machine that others use disturbs one of the two at times, seldom both.
  [[nodiscard]] double slowest() const {
    double by_good = 1, by_round = 1;
    for (std::size_t one = 0; one < std::size(kStates); ++one) {
      for (std::size_t other = 0; other < std::size(kStates); ++other) {
        by_good = std::min(by_good, good(one) / good(other));
        by_round =
            std::min(by_round, quantile(0.5, [=](const Round& round) { return round[one] / round[other]; }));
      }
    }
    return std::max(by_good, by_round);
  }

 private:
  template <typename Of>
  [[nodiscard]] double quantile(double part, Of&& of) const {
    std::vector<double> all;
    for (const auto& round : rounds_) all.push_back(of(round));
    std::sort(all.begin(), all.end());
    return all[static_cast<std::size_t>(part * static_cast<double>(all.size()))];
  }
  std::vector<Round> rounds_;
};

class StoppedBeside : public ::testing::TestWithParam<bool> {};

// rows: L26
TEST_P(StoppedBeside, AChannelKeepsItsRate) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer has locks of its own";
#endif
  if (cores() < 2) GTEST_SKIP() << "needs two cores";
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

  Rates rates;
  const auto end = Clock::now() + kPatience;
  while (rates.rounds() < kRoundsMin || (rates.slowest() < kWithin && Clock::now() < end)) {
    Rates::Round round{};
    for (std::size_t i = 0; i < round.size(); ++i) {
      const std::size_t at = (i + rates.rounds()) % round.size();
      const Other state = kStates[at];
      // Who receives turns first: who posts waits until all buffers are full.
      if (direction) must(beside.turn(state));
      child.say(static_cast<char>(state));
      ASSERT_EQ(child.line(), "turned");
      if (!direction) must(beside.turn(state));
      const std::uint64_t before = received_beside();
      for (int window = 0; window < kWindows; ++window) {
        const std::uint64_t posting = post_window(measured);
        child.say('w');
        const std::uint64_t receiving = std::stoull("0" + child.line());
        ASSERT_GT(receiving, 0u);
        round[at] = std::max(round[at], kMessages * 1e9 / static_cast<double>(posting + receiving));
      }
      if (state == Other::runs) {
        ASSERT_TRUE(eventually([&] { return received_beside() > before; }));
      } else if (state == Other::is_not_read) {
        ASSERT_EQ(received_beside(), before);
      }
    }
    rates.add(round);
  }
  RecordProperty("rounds", std::to_string(rates.rounds()));
  RecordProperty("slowest", std::to_string(rates.slowest()));
  EXPECT_GE(rates.slowest(), kWithin)
      << "messages per second while the other runs, pauses, is not read, after " << rates.rounds()
      << " rounds: " << rates.good(0) << ", " << rates.good(1) << ", " << rates.good(2);
}

INSTANTIATE_TEST_SUITE_P(Other, StoppedBeside, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Direction" : "Channel"; });

}  // namespace
}  // namespace lwmq::conformance
