// What a call-back for an external frame may do, on whatever thread of whoever it comes.
#include <pthread.h>

#include <atomic>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "conformance/transport_group.h"

namespace lwmq::conformance {
namespace {

using namespace std::chrono_literals;

const char kContent[] = "t.x";

// A message whose RELEASE calls `released`.
lwmq_message* external_message(const void* data, std::uint64_t bytes, lwmq_frame_callback callback,
                               void* context) {
  lwmq_message* message = make_message({});
  EXPECT_EQ(lwmq_message_append_external(message, data, bytes, callback, context), LWMQ_OK);
  return message;
}

lwmq_send_queue* add_oldest(const End& end) {
  lwmq_send_queue_options options{};
  options.size = sizeof options;
  options.kind = LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST;
  options.capacity = 1;
  lwmq_send_queue* queue = nullptr;
  EXPECT_EQ(lwmq_channel_add_send_queue(end.channel, &options, &queue), LWMQ_OK) << lwmq_last_error();
  return queue;
}

// rows: S05
TEST(ACallBack, MayPostToTheRedundantQueueWhosePostHasCausedIt) {
  const End server = end_at_both({kIpc.fresh_address(), kIpc.fresh_address()}, LWMQ_ROLE_SERVER, true);
  struct Context {
    lwmq_send_queue* queue;
    int released = 0;
  } context{add_oldest(server)};
  const auto post_once = [](void* argument, std::int32_t event) {
    auto* mine = static_cast<Context*>(argument);
    if (event != LWMQ_FRAME_RELEASE || mine->released++ > 0) return;
    EXPECT_EQ(lwmq_send_queue_post_bytes(mine->queue, "from the call-back", 18), LWMQ_OK);
  };
  for (int i = 0; i < 3; ++i) {
    lwmq_message* message = external_message(kContent, 3, post_once, &context);
    ASSERT_EQ(lwmq_send_queue_post(context.queue, &message), LWMQ_OK) << lwmq_last_error();
  }
  EXPECT_EQ(context.released, 2) << "each push discards what was there, here and in the other transport";
  EXPECT_EQ(statistics_of(context.queue).discarded, 6u) << "three in each transport";
}

// rows: S05
TEST(ACallBack, MayPostThroughTheRouterWhosePostHasCausedIt) {
  const End server(kIpc.fresh_address(), LWMQ_ROLE_SERVER);
  lwmq_router* router = nullptr;
  ASSERT_EQ(lwmq_router_create(&router), LWMQ_OK);
  ASSERT_EQ(lwmq_router_add(router, 0, "t.#", nullptr, add_oldest(server)), LWMQ_OK) << lwmq_last_error();
  struct Context {
    lwmq_router* router;
    int released = 0;
  } context{router};
  const auto post_once = [](void* argument, std::int32_t event) {
    auto* mine = static_cast<Context*>(argument);
    if (event != LWMQ_FRAME_RELEASE || mine->released++ > 0) return;
    lwmq_message* message = make_message({"t.from the call-back"});
    std::uint32_t queues = 0;
    EXPECT_EQ(lwmq_router_post(mine->router, &message, &queues), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(queues, 1u);
  };
  for (int i = 0; i < 3; ++i) {
    lwmq_message* message = external_message(kContent, 3, post_once, &context);
    std::uint32_t queues = 0;
    ASSERT_EQ(lwmq_router_post(router, &message, &queues), LWMQ_OK) << lwmq_last_error();
  }
  EXPECT_EQ(context.released, 2);
  lwmq_router_destroy(router);
}

// Shared memory: a message is encoded, and released, by the post that the call-back makes.
// rows: S05
TEST(ACallBack, MayPostTheNextMessageHoweverLongTheChain) {
  constexpr int kLinks = 200'000;
  const Meeting meeting(kIpc.fresh_address());
  struct Chain {
    lwmq_send_queue* queue;
    std::atomic<int> released{0};

    void post_next() {
      lwmq_message* message = external_message(kContent, 3, call_back, this);
      EXPECT_EQ(lwmq_send_queue_post(queue, &message), LWMQ_OK) << lwmq_last_error();
    }
    static void call_back(void* argument, std::int32_t event) {
      auto* mine = static_cast<Chain*>(argument);
      if (event == LWMQ_FRAME_RELEASE && ++mine->released < kLinks) mine->post_next();
    }
  };
  // One thread posts at a time, but not always the same.
  lwmq_send_queue_options multi{};
  multi.size = sizeof multi;
  multi.kind = LWMQ_QUEUE_MULTI_UNBOUNDED;
  Chain chain{nullptr};
  ASSERT_EQ(lwmq_channel_add_send_queue(meeting.client.channel, &multi, &chain.queue), LWMQ_OK);
  std::thread receiving([&] {
    for (int i = 0; i < kLinks; ++i) {
      lwmq_message* message = nullptr;
      ASSERT_EQ(lwmq_channel_receive(meeting.server.channel, kLimitMs, &message), LWMQ_OK) << i;
      lwmq_message_destroy(message);
    }
  });
  chain.post_next();
  receiving.join();
  EXPECT_TRUE(eventually([&] { return chain.released == kLinks; })) << chain.released;
}

// Nobody of the application's calls the channel while its peer reads: the thread that ships is the library's.
// rows: S05
TEST(ACallBack, MayCloseItsChannelOnAThreadOfTheLibrarys) {
  for (const Subject& subject : {kIpc, kTraceIpc}) {
    const Meeting meeting(subject.fresh_address(), channel_options(4096, 2));
    static const std::string kLarge(4000, 'x');
    struct Context {
      const End* end;
      std::atomic<int> released{0};
      std::atomic<bool> closed{false};
      pthread_t thread{};
    } context{&meeting.client};
    const auto close_once = [](void* argument, std::int32_t event) {
      auto* mine = static_cast<Context*>(argument);
      if (event != LWMQ_FRAME_RELEASE || mine->released++ > 0) return;
      mine->thread = pthread_self();
      EXPECT_EQ(mine->end->close(0), LWMQ_E_TIMED_OUT) << lwmq_last_error();
      mine->closed = true;
    };
    constexpr int kCopied = 6;
    constexpr int kExternal = 14;
    for (int i = 0; i < kCopied; ++i) ASSERT_EQ(meeting.client.post(kLarge), LWMQ_OK);
    for (int i = 0; i < kExternal; ++i) {
      lwmq_message* message = external_message(kLarge.data(), kLarge.size(), close_once, &context);
      ASSERT_EQ(lwmq_send_queue_post(meeting.client.queue, &message), LWMQ_OK);
    }
    EXPECT_EQ(context.released, 0) << "there was room for two";
    // The last of these is an external one, and most of those are still queued.
    for (int i = 0; i <= kCopied; ++i) ASSERT_EQ(meeting.server.receive_text(), kLarge);
    ASSERT_TRUE(eventually([&] { return context.closed.load(); })) << "it hangs";
    std::string last;
    do {
      last = meeting.server.receive_text();
    } while (last == kLarge);
    EXPECT_EQ(last, "<LWMQ_E_PEER_LOST>");
    EXPECT_FALSE(pthread_equal(context.thread, pthread_self()));
    EXPECT_TRUE(eventually([&] { return context.released == kExternal; })) << context.released;
    const Meeting other(subject.fresh_address());
    ASSERT_EQ(other.client.post("the library goes on"), LWMQ_OK);
    EXPECT_EQ(other.server.receive_text(), "the library goes on");
  }
}

}  // namespace
}  // namespace lwmq::conformance
