// Objects that are made, used and destroyed in any order: nothing leaks (the sanitizers say so, too), nobody
// hangs, every external frame is released once. LWMQ_SLOW=1: a million steps; LWMQ_SEED=7 repeats a run.
#include <atomic>
#include <cstdlib>
#include <random>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"

namespace lwmq::conformance {
namespace {

constexpr std::size_t kChannels = 12;
constexpr std::size_t kAddresses = 5;
constexpr std::size_t kHeld = 40;
constexpr std::uint32_t kKinds = 7;

std::atomic<std::int64_t> acquired{0}, released{0};

void count(void*, std::int32_t event) { ++(event == LWMQ_FRAME_ACQUIRE ? acquired : released); }

void let_go(void*, lwmq_status, lwmq_message* message) { lwmq_message_destroy(message); }

struct Made {
  lwmq_channel* channel;
  std::vector<lwmq_send_queue*> queues;
};

class TearDownOver : public testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < kAddresses; ++i) addresses_.push_back(GetParam().fresh_address());
    acquired = released = 0;
  }

  std::size_t below(std::size_t limit) { return chance_() % limit; }
  Made& any() { return channels_[below(channels_.size())]; }

  void make() {
    if (channels_.size() == kChannels) return destroy();
    lwmq_channel_options options = channel_options(1024, 2);
    static constexpr std::uint32_t kReceiveKinds[] = {LWMQ_QUEUE_MONO_UNBOUNDED, LWMQ_QUEUE_MONO_UNBOUNDED,
                                                      LWMQ_QUEUE_MULTI_UNBOUNDED,
                                                      LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST};
    options.receive_queue = kReceiveKinds[below(4)];
    options.receive_capacity = options.receive_queue == LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST ? 3 : 0;
    Made made{};
    const std::string& address = addresses_[below(kAddresses)];
    ASSERT_EQ(lwmq_channel_create(address.c_str(), &options, &made.channel), LWMQ_OK) << lwmq_last_error();
    channels_.push_back(made);
    if (below(8) == 0) return;  // never opened
    const lwmq_status status = lwmq_channel_open(made.channel, static_cast<std::int32_t>(below(3)));
    ASSERT_TRUE(status == LWMQ_OK || status == LWMQ_E_ADDRESS) << lwmq_last_error();
  }
  void add_queue() {
    Made& made = any();
    lwmq_send_queue_options options{};
    options.size = sizeof options;
    options.kind = static_cast<std::uint32_t>(below(kKinds));
    options.capacity = options.kind >= LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST ? 1 + below(4) : 0;
    lwmq_send_queue* queue = nullptr;
    if (made.queues.size() < 4 && lwmq_channel_add_send_queue(made.channel, &options, &queue) == LWMQ_OK)
      made.queues.push_back(queue);
  }
  void post() {
    static const char kBytes[900] = "these bytes outlive every message";
    Made& made = any();
    if (made.queues.empty()) return;
    lwmq_message* message = nullptr;
    if (!held_.empty() && below(3) == 0) {
      ASSERT_EQ(lwmq_message_reference(held_[below(held_.size())], &message), LWMQ_OK);
    } else {
      ASSERT_EQ(lwmq_message_create(0, &message), LWMQ_OK);
      for (std::size_t frames = below(4); frames > 0; --frames)
        ASSERT_EQ(lwmq_message_append_external(message, kBytes, below(sizeof kBytes / 4), count, nullptr),
                  LWMQ_OK);
    }
    lwmq_send_queue_post(made.queues[below(made.queues.size())], &message);
    lwmq_message_destroy(message);  // where it was refused
  }
  void receive() {
    lwmq_message* message = nullptr;
    if (lwmq_channel_receive(any().channel, 0, &message) == LWMQ_OK) held_.push_back(message);
    if (held_.size() == kHeld) drop();
  }
  void drop() {
    if (held_.empty()) return;
    const std::size_t place = below(held_.size());
    lwmq_message_destroy(held_[place]);
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(place));
  }
  void notify() { lwmq_channel_on_message(any().channel, below(2) != 0 ? let_go : nullptr, nullptr); }
  void destroy() {
    const std::size_t place = below(channels_.size());
    lwmq_channel_destroy(channels_[place].channel);
    channels_.erase(channels_.begin() + static_cast<std::ptrdiff_t>(place));
  }

  std::mt19937_64 chance_;
  std::vector<std::string> addresses_;
  std::vector<Made> channels_;
  std::vector<lwmq_message*> held_;
};

// rows: Z11
TEST_P(TearDownOver, InAnyOrderLeaksNothingAndHangsNobody) {
  const char* seed = std::getenv("LWMQ_SEED");
  const std::uint64_t from = seed != nullptr ? std::strtoull(seed, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("again with LWMQ_SEED=" + std::to_string(from));
  chance_.seed(from);
  const int steps = std::getenv("LWMQ_SLOW") != nullptr ? 1'000'000 : 15'000;
  for (int step = 0; step < steps && !HasFatalFailure(); ++step) {
    const std::size_t what = channels_.empty() ? 0 : below(100);
    if (what < 4) {
      make();
    } else if (what < 10) {
      add_queue();
    } else if (what < 55) {
      post();
    } else if (what < 85) {
      receive();
    } else if (what < 92) {
      drop();
    } else if (what < 94) {
      notify();
    } else if (what < 96) {
      lwmq_channel_close(any().channel, static_cast<std::uint32_t>(below(2)));
    } else if (what < 98) {
      destroy();
    } else {
      lwmq_channel_flush(any().channel, 0);
    }
  }
  while (!channels_.empty() || !held_.empty()) {
    if (held_.empty() || (!channels_.empty() && below(2) != 0)) {
      destroy();
    } else {
      drop();
    }
  }
  EXPECT_GT(acquired, 0);
  EXPECT_EQ(acquired, released);
}

LWMQ_OVER_ALL_PROVIDERS(TearDownOver);

}  // namespace
}  // namespace lwmq::conformance
