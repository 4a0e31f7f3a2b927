// Which instructions a post really executes: it runs step by step, and each is looked at before it is
// executed.
#include <gtest/gtest.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "queue/spsc_list.h"

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace lwmq::conformance {
namespace {

struct Steps {
  std::uint64_t all = 0;
  std::uint64_t locked = 0;  // LOCK prefix, XCHG with memory, MFENCE: what waits for the store buffer
  std::uint64_t system_calls = 0;
};
Steps g_steps;

void count(const std::uint8_t* at) {
  ++g_steps.all;
  bool lock = false;
  const auto is_prefix = [&](std::uint8_t byte) {
    if (byte == 0xf0) lock = true;
    return byte == 0xf0 || byte == 0xf2 || byte == 0xf3 || byte == 0x66 || byte == 0x67 || byte == 0x2e ||
           byte == 0x3e || byte == 0x64 || byte == 0x65;
  };
  while (is_prefix(*at)) ++at;
  if ((*at & 0xf0) == 0x40) ++at;  // REX
  const bool exchanges = (*at == 0x86 || *at == 0x87) && (at[1] >> 6) != 3;
  const bool fences = at[0] == 0x0f && at[1] == 0xae && at[2] == 0xf0;
  if (lock || exchanges || fences) ++g_steps.locked;
  if (at[0] == 0x0f && at[1] == 0x05) ++g_steps.system_calls;
}

void on_trap(int, siginfo_t*, void* context) {
  const auto* machine = static_cast<ucontext_t*>(context);
  count(reinterpret_cast<const std::uint8_t*>(machine->uc_mcontext.gregs[REG_RIP]));
}

// The trap flag of this thread: a SIGTRAP behind each instruction, with the next one to look at. The first is
// behind the nop.
inline void begin_steps() { asm volatile("pushfq; orq $0x100, (%%rsp); popfq; nop" ::: "memory", "cc"); }
inline void end_steps() { asm volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc"); }

template <typename Do>
Steps steps_of(Do&& act) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, &before);
  g_steps = {};
  begin_steps();
  act();
  end_steps();
  sigaction(SIGTRAP, &before, nullptr);
  return g_steps;
}

TEST(LockedInstructions, AreSeenWhereThereAreSome) {
  std::atomic<std::uint64_t> number{0};
  EXPECT_EQ(steps_of([&] { number.fetch_add(1, std::memory_order_relaxed); }).locked, 1u);
  EXPECT_EQ(steps_of([&] { number.exchange(7); }).locked, 1u);
  EXPECT_EQ(steps_of([&] { std::atomic_thread_fence(std::memory_order_seq_cst); }).locked, 1u);
  const Steps steps = steps_of([&] { number.store(1, std::memory_order_release); });
  EXPECT_EQ(steps.locked, 0u);
  EXPECT_GT(steps.all, 0u);
}

// rows: K14 K20 Z17
TEST(LockedInstructions, AreNotInAPipeOfOneProducerAndOneConsumer) {
  queue::SpscList<int> list;
  ASSERT_TRUE(list.try_push(0));
  const Steps steps = steps_of([&] {
    for (int i = 1; i < 400; ++i) {
      if (!list.try_push(i) || list.front() == nullptr) return;
      list.pop();
    }
  });
  EXPECT_EQ(list.popped(), 399u);
  EXPECT_EQ(steps.locked, 0u);
}

lwmq_send_queue* queue_of(const End& end, std::uint32_t kind) {
  lwmq_send_queue_options options{};
  options.size = sizeof options;
  options.kind = kind;
  lwmq_send_queue* queue = nullptr;
  EXPECT_EQ(lwmq_channel_add_send_queue(end.channel, &options, &queue), LWMQ_OK);
  return queue;
}

// A peer that reads nothing: the service thread has the pump, and whoever posts enqueues.
Steps steps_of_posts(std::uint32_t kind, int posts) {
  const Meeting meeting(kLoop.fresh_address(), channel_options(256, 2));
  lwmq_send_queue* queue = queue_of(meeting.client, kind);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(meeting.client.post(std::string(200, 'x')), LWMQ_OK);
  std::vector<lwmq_message*> messages;
  for (int i = 0; i < posts + 10; ++i) messages.push_back(make_message({"m"}));
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(lwmq_send_queue_post(queue, &messages[i]), LWMQ_OK);  // binds symbols
  lwmq_status status = LWMQ_OK;
  const Steps steps = steps_of([&] {
    for (int i = 10; i < posts + 10 && status == LWMQ_OK; ++i)
      status = lwmq_send_queue_post(queue, &messages[i]);
  });
  EXPECT_EQ(status, LWMQ_OK);
  return steps;
}

// rows: L43
TEST(LockedInstructions, AreNotInAPostIntoAMonoQueueWhileTheChannelIsOwned) {
  const Steps steps = steps_of_posts(LWMQ_QUEUE_MONO_UNBOUNDED, 100);
  EXPECT_EQ(steps.locked, 0u);
  EXPECT_EQ(steps.system_calls, 0u);
  EXPECT_GT(steps.all, 1000u);
  EXPECT_LT(steps.all, 40000u) << "some hundred instructions would be a slow path";
}

// rows: L44
TEST(LockedInstructions, AreTwoInAPostIntoAMultiQueueWhileTheChannelIsOwned) {
  const Steps steps = steps_of_posts(LWMQ_QUEUE_MULTI_UNBOUNDED, 100);
  EXPECT_EQ(steps.locked, 200u) << "the swap and the count";
  EXPECT_EQ(steps.system_calls, 0u);
}

}  // namespace
}  // namespace lwmq::conformance

#endif
