// Objects that are made, used and destroyed in any order: nothing leaks (the sanitizers say so, too), nobody
// hangs, every external frame is released once. LWMQ_SLOW=1: a million steps; LWMQ_SEED=7 repeats a run.
#include <atomic>
#include <cstdlib>
#include <random>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "seed.h"

namespace lwmq::conformance {
namespace {

constexpr std::size_t kChannels = 12;
constexpr std::size_t kAddresses = 5;
constexpr std::size_t kHeld = 40;
constexpr std::size_t kOfEach = 3;  // selectors, routers, loans, listeners
constexpr std::size_t kBuffersHeld = 6;
constexpr std::uint32_t kKinds = 7;
const char kBytes[900] = "these bytes outlive every message";
const char* const kTopics[] = {"a", "a.b", "b.c.d"};
const char* const kPatterns[] = {"a", "#", "*.b", "b.#"};

std::atomic<std::int64_t> acquired{0}, released{0};

void count(void*, std::int32_t event) { ++(event == LWMQ_FRAME_ACQUIRE ? acquired : released); }

void let_go(void*, lwmq_status, lwmq_message* message) { lwmq_message_destroy(message); }

struct Made {
  lwmq_channel* channel;
  bool is_raw;
  std::vector<lwmq_send_queue*> queues;
  std::vector<lwmq_buffer> received, obtained;  // of a raw one
};

struct Listening {
  lwmq_listener* listener;
  bool is_raw;
};

class TearDownOver : public testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < kAddresses; ++i) addresses_.push_back(GetParam().fresh_address());
    acquired = released = 0;
  }

  std::size_t below(std::size_t limit) { return chance_() % limit; }
  template <typename T>
  T& one_of(std::vector<T>& some) {
    return some[below(some.size())];
  }
  template <typename T>
  T taken_from(std::vector<T>& some) {
    const auto at = some.begin() + static_cast<std::ptrdiff_t>(below(some.size()));
    T taken = *at;
    some.erase(at);
    return taken;
  }
  Made& any() { return one_of(channels_); }
  // Of a channel of this kind, where there is one.
  Made* any(bool raw) {
    Made& made = any();
    return made.is_raw == raw ? &made : nullptr;
  }
  lwmq_send_queue* any_queue() {
    Made& made = any();
    return made.queues.empty() ? nullptr : one_of(made.queues);
  }

  // ---- Channels, their transports and queues

  void make() {
    if (channels_.size() == kChannels) return destroy();
    const bool raw = below(6) == 0;
    lwmq_channel_options options = channel_options(1024, 2, raw);
    static constexpr std::uint32_t kReceiveKinds[] = {LWMQ_QUEUE_MONO_UNBOUNDED, LWMQ_QUEUE_MONO_UNBOUNDED,
                                                      LWMQ_QUEUE_MULTI_UNBOUNDED,
                                                      LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST};
    options.receive_queue = kReceiveKinds[raw ? 0 : below(4)];
    options.receive_capacity = options.receive_queue == LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST ? 3 : 0;
    const std::string address = (below(4) == 0 ? "filters+" : "") + one_of(addresses_);
    Made made{nullptr, raw, {}, {}, {}};
    ASSERT_EQ(lwmq_channel_create(address.c_str(), &options, &made.channel), LWMQ_OK) << lwmq_last_error();
    channels_.push_back(made);
    lwmq_transport_options further{};
    further.size = sizeof further;
    further.redundant = static_cast<std::uint32_t>(below(2));
    for (std::size_t more = raw ? 0 : below(3); more > 1; --more)
      lwmq_channel_add_transport(made.channel, one_of(addresses_).c_str(), &further);
    if (below(8) == 0) return;  // never opened
    const lwmq_status status = lwmq_channel_open(made.channel, static_cast<std::int32_t>(below(3)));
    ASSERT_TRUE(status == LWMQ_OK || status == LWMQ_E_ADDRESS) << lwmq_last_error();
  }
  void add_queue() {
    Made* made = any(false);
    lwmq_send_queue_options options{};
    options.size = sizeof options;
    options.kind = static_cast<std::uint32_t>(below(kKinds));
    options.capacity = options.kind >= LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST ? 1 + below(4) : 0;
    lwmq_send_queue* queue = nullptr;
    if (made != nullptr && made->queues.size() < 4 &&
        lwmq_channel_add_send_queue(made->channel, &options, &queue) == LWMQ_OK)
      made->queues.push_back(queue);
  }
  void prioritize() {
    static constexpr std::uint32_t kWeights[] = {3, 0, 1, 7, 2};
    if (lwmq_send_queue* queue = any_queue(); queue != nullptr)
      lwmq_send_queue_set_priority(queue, 1 + static_cast<std::uint32_t>(below(7)));
    lwmq_channel_set_weights(any().channel, kWeights, 5);
  }
  void close() { lwmq_channel_close(any().channel, static_cast<std::uint32_t>(below(2))); }
  void flush() { lwmq_channel_flush(any().channel, 0); }
  void notify() { lwmq_channel_on_message(any().channel, below(2) != 0 ? let_go : nullptr, nullptr); }
  void filter() {
    lwmq_channel* channel = any().channel;
    if (below(2) == 0) {
      lwmq_channel_remove_filter(channel, 0);
    } else {
      lwmq_channel_add_filter(channel, below(2) == 0 ? "delay=1ms" : "loss=0.1", LWMQ_FILTER_LAST);
    }
  }
  void destroy() {
    Made made = taken_from(channels_);
    for (lwmq_buffer& theirs : made.received) lwmq_raw_dispose_buffer(made.channel, &theirs);
    for (lwmq_buffer& mine : made.obtained)
      EXPECT_EQ(lwmq_raw_abandon_buffer(made.channel, &mine), LWMQ_OK) << lwmq_last_error();
    lwmq_channel_destroy(made.channel);
  }

  // ---- Messages

  lwmq_message* new_message() {
    lwmq_message* message = nullptr;
    if (!held_.empty() && below(3) == 0) {
      EXPECT_EQ(lwmq_message_reference(one_of(held_), &message), LWMQ_OK);
      return message;
    }
    EXPECT_EQ(lwmq_message_create(0, &message), LWMQ_OK);
    for (std::size_t frames = below(4); frames > 0; --frames)
      EXPECT_EQ(lwmq_message_append_external(message, kBytes, below(sizeof kBytes / 4), count, nullptr),
                LWMQ_OK);
    return message;
  }
  void post() {
    lwmq_send_queue* queue = any_queue();
    if (queue == nullptr) return;
    lwmq_message* message = new_message();
    switch (below(4)) {
      case 0:
        lwmq_send_queue_post_bytes(queue, kBytes, below(sizeof kBytes / 4));
        break;
      case 1:
        lwmq_send_queue_post_tagged(queue, below(3), &message);
        break;
      case 2:
        lwmq_send_queue_post_wait(queue, 0, 0, 0, &message);
        break;
      default:
        lwmq_send_queue_post(queue, &message);
    }
    lwmq_message_destroy(message);  // where it was refused
  }
  void post_several() {
    lwmq_send_queue* queue = any_queue();
    if (queue == nullptr) return;
    lwmq_message* messages[3] = {new_message(), new_message(), new_message()};
    std::uint64_t posted = 0;
    lwmq_send_queue_post_messages(queue, messages, 3, &posted);
    for (; posted < 3; ++posted) lwmq_message_destroy(messages[posted]);
  }
  void receive() {
    lwmq_message* message = nullptr;
    if (lwmq_channel_receive(any().channel, 0, &message) == LWMQ_OK) hold(message);
  }
  void hold(lwmq_message* message) {
    held_.push_back(message);
    if (held_.size() == kHeld) drop();
  }
  void drop() {
    if (!held_.empty()) lwmq_message_destroy(taken_from(held_));
  }

  // Makes a listener, or takes the next client of one as a channel.
  void listen() {
    const std::string address = (below(4) == 0 ? "filters+" : "") + one_of(addresses_);
    if (listeners_.size() < kOfEach && below(4) == 0) {
      const lwmq_channel_options options = channel_options(1024, 2, below(6) == 0);
      lwmq_listener* made = nullptr;
      const lwmq_status status = lwmq_listener_open(address.c_str(), &options, &made);
      ASSERT_TRUE(status == LWMQ_OK || status == LWMQ_E_ADDRESS) << lwmq_last_error();
      if (status == LWMQ_OK) listeners_.push_back({made, options.raw != 0});
    }
    if (listeners_.empty()) return;
    const Listening from = one_of(listeners_);
    if (below(16) == 0) lwmq_listener_close(from.listener);
    if (channels_.size() == kChannels) return;
    Made made{nullptr, from.is_raw, {}, {}, {}};
    if (lwmq_listener_accept(from.listener, 0, &made.channel) == LWMQ_OK) channels_.push_back(made);
  }
  void end_listener() {
    if (!listeners_.empty()) lwmq_listener_destroy(taken_from(listeners_).listener);
  }

  // ---- What stands beside channels

  void select() {
    if (selectors_.size() < kOfEach && below(4) == 0) {
      ASSERT_EQ(lwmq_selector_create(&selectors_.emplace_back()), LWMQ_OK);
    }
    if (selectors_.empty()) return;
    lwmq_selector* selector = one_of(selectors_);
    if (below(2) == 0) lwmq_selector_add(selector, any().channel);
    if (below(8) == 0) lwmq_selector_remove(selector, any().channel);
    if (!listeners_.empty() && below(4) == 0)
      lwmq_selector_add_listener(selector, one_of(listeners_).listener);
    if (!listeners_.empty() && below(16) == 0)
      lwmq_selector_remove_listener(selector, one_of(listeners_).listener);
    lwmq_channel* channel = nullptr;
    lwmq_message* message = nullptr;
    if (lwmq_selector_receive(selector, 0, &channel, &message) == LWMQ_OK && message != nullptr)
      hold(message);
  }
  void end_selector() {
    if (!selectors_.empty()) lwmq_selector_destroy(taken_from(selectors_));
  }
  void route() {
    if (routers_.size() < kOfEach && below(4) == 0) {
      ASSERT_EQ(lwmq_router_create(&routers_.emplace_back()), LWMQ_OK);
    }
    lwmq_send_queue* queue = any_queue();
    if (routers_.empty() || queue == nullptr) return;
    lwmq_router* router = one_of(routers_);
    lwmq_router_add(router, 0, kPatterns[below(4)], below(2) == 0 ? "group" : nullptr, queue);
    if (below(8) == 0) lwmq_router_forget(router, queue);
    lwmq_message* message = nullptr;
    ASSERT_EQ(lwmq_message_create(0, &message), LWMQ_OK);
    const std::string topic = kTopics[below(3)];
    ASSERT_EQ(lwmq_message_append(message, topic.data(), topic.size()), LWMQ_OK);
    ASSERT_EQ(lwmq_message_append_external(message, kBytes, 100, count, nullptr), LWMQ_OK);
    std::uint32_t reached = 0;
    lwmq_router_post(router, &message, &reached);
    lwmq_message_destroy(message);  // where nobody has it
  }
  void end_router() {
    if (!routers_.empty()) lwmq_router_destroy(taken_from(routers_));
  }
  void borrow() {
    if (loans_.size() < kOfEach && below(4) == 0) {
      ASSERT_EQ(lwmq_loan_create(4, &loans_.emplace_back()), LWMQ_OK);
    }
    if (loans_.empty()) return;
    const lwmq_lent* lent = nullptr;
    std::uint32_t there = 0;
    if (lwmq_channel_receive_loan(any().channel, 0, one_of(loans_), &lent, &there) != LWMQ_OK) return;
    for (std::uint32_t i = 0; i < there; ++i) {
      if (lent[i].bytes > 0) seen_ += static_cast<const unsigned char*>(lent[i].data)[lent[i].bytes - 1];
    }
  }
  void end_loan() {
    if (!loans_.empty()) lwmq_loan_destroy(taken_from(loans_));
  }
  void use_raw_buffer() {
    Made* made = any(true);
    if (made == nullptr) return;
    lwmq_buffer buffer{};
    if (made->obtained.size() < kBuffersHeld && lwmq_raw_get_buffer(made->channel, 0, &buffer) == LWMQ_OK)
      made->obtained.push_back(buffer);
    if (made->received.size() < kBuffersHeld && lwmq_raw_receive_buffer(made->channel, 0, &buffer) == LWMQ_OK)
      made->received.push_back(buffer);
    if (!made->obtained.empty() && below(2) == 0) {
      lwmq_buffer mine = taken_from(made->obtained);
      mine.bytes = 8;
      const lwmq_status sent = below(4) == 0 ? LWMQ_E_CLOSED : lwmq_raw_send_buffer(made->channel, &mine);
      const lwmq_status back = lwmq_raw_abandon_buffer(made->channel, &mine);
      EXPECT_EQ(back, sent == LWMQ_E_CLOSED ? LWMQ_OK : LWMQ_E_INVALID) << "taken, or not: " << sent;
    }
    if (!made->received.empty() && below(2) == 0) {
      lwmq_buffer theirs = taken_from(made->received);
      lwmq_raw_dispose_buffer(made->channel, &theirs);
    }
  }

  struct Step {
    std::size_t weight;
    void (TearDownOver::*take)();
  };
  static constexpr Step kSteps[] = {{8, &TearDownOver::make},
                                    {12, &TearDownOver::add_queue},
                                    {70, &TearDownOver::post},
                                    {10, &TearDownOver::post_several},
                                    {60, &TearDownOver::receive},
                                    {12, &TearDownOver::drop},
                                    {4, &TearDownOver::notify},
                                    {4, &TearDownOver::close},
                                    {4, &TearDownOver::destroy},
                                    {4, &TearDownOver::flush},
                                    {8, &TearDownOver::select},
                                    {2, &TearDownOver::end_selector},
                                    {12, &TearDownOver::route},
                                    {2, &TearDownOver::end_router},
                                    {10, &TearDownOver::borrow},
                                    {2, &TearDownOver::end_loan},
                                    {8, &TearDownOver::filter},
                                    {4, &TearDownOver::prioritize},
                                    {16, &TearDownOver::use_raw_buffer},
                                    {16, &TearDownOver::listen},
                                    {2, &TearDownOver::end_listener}};

  std::mt19937_64 chance_;
  std::vector<std::string> addresses_;
  std::vector<Made> channels_;
  std::vector<Listening> listeners_;
  std::vector<lwmq_message*> held_;
  std::vector<lwmq_selector*> selectors_;
  std::vector<lwmq_router*> routers_;
  std::vector<lwmq_loan*> loans_;
  std::uint64_t seen_ = 0;
};

// rows: Z11
TEST_P(TearDownOver, InAnyOrderLeaksNothingAndHangsNobody) {
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE("again with LWMQ_SEED=" + std::to_string(seed));
  chance_.seed(seed);
  const int steps = std::getenv("LWMQ_SLOW") != nullptr ? 1'000'000 : 15'000;
  std::size_t weights = 0;
  for (const Step& step : kSteps) weights += step.weight;
  for (int taken = 0; taken < steps && !HasFatalFailure(); ++taken) {
    if (channels_.empty()) make();
    std::size_t place = below(weights);
    const Step* step = kSteps;
    for (; place >= step->weight; ++step) place -= step->weight;
    (this->*step->take)();
  }
  while (!channels_.empty() || !held_.empty() || !selectors_.empty() || !routers_.empty() ||
         !loans_.empty() || !listeners_.empty()) {
    if (!channels_.empty() && below(3) == 0) destroy();
    drop();
    if (below(3) == 0) end_selector();
    if (below(3) == 0) end_router();
    if (below(3) == 0) end_loan();
    if (below(3) == 0) end_listener();
  }
  EXPECT_GT(acquired, 0);
  EXPECT_EQ(acquired, released);
}

LWMQ_OVER_PROVIDERS(TearDownOver);

}  // namespace
}  // namespace lwmq::conformance
