// Both ends in one process: the message itself changes hands; and what one thread pays for that.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "providers/child.h"

namespace lwmq::conformance {
namespace {

using lwmq::testing::Child;

// Counts the call-backs of external frames.
struct Counts {
  std::atomic<int> acquired{0};
  std::atomic<int> released{0};

  static void callback(void* context, std::int32_t event) {
    auto* counts = static_cast<Counts*>(context);
    ++(event == LWMQ_FRAME_ACQUIRE ? counts->acquired : counts->released);
  }
};

const void* frame_of(const lwmq_message* message, std::uint32_t index) {
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  EXPECT_EQ(lwmq_message_frame(message, index, &data, &bytes), LWMQ_OK);
  return data;
}

lwmq_message* external_message(const std::string& bytes, Counts* counts) {
  lwmq_message* message = make_message({});
  EXPECT_EQ(lwmq_message_append_external(message, bytes.data(), bytes.size(), Counts::callback, counts),
            LWMQ_OK);
  return message;
}

lwmq_message* received(const End& end) {
  lwmq_message* message = nullptr;
  EXPECT_EQ(lwmq_channel_receive(end.channel, kLimitMs, &message), LWMQ_OK) << lwmq_last_error();
  return message;
}

// rows: K13 S05
TEST(InProcess, HandsOverTheMessageItselfWithAllItsFrames) {
  static const std::string kContent(100000, 'x');
  const Meeting meeting(kLoop.fresh_address(), channel_options(1 << 20, 2));
  Counts counts;
  lwmq_message* message = external_message(kContent, &counts);
  ASSERT_EQ(lwmq_message_append(message, "inline", 6), LWMQ_OK);
  ASSERT_EQ(lwmq_message_append(message, kContent.data(), 5000), LWMQ_OK);
  ASSERT_EQ(lwmq_message_append_static(message, kContent.data(), 1), LWMQ_OK);
  std::vector<const void*> before;
  for (std::uint32_t i = 0; i < 4; ++i) before.push_back(frame_of(message, i));
  EXPECT_EQ(before[0], kContent.data());
  const lwmq_message* posted = message;
  ASSERT_EQ(lwmq_send_queue_post(meeting.client.queue, &message), LWMQ_OK);
  message = received(meeting.server);
  EXPECT_EQ(message, posted);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(frame_of(message, i), before[i]);
  EXPECT_EQ(counts.released, 0) << "the receiver shows it";
  lwmq_message_destroy(message);
  EXPECT_EQ(counts.acquired, 1);
  EXPECT_EQ(counts.released, 1);
  const auto statistics = meeting.client.statistics();
  EXPECT_EQ(statistics.bytes_shipped, meeting.server.statistics().bytes_received);
  EXPECT_GT(statistics.bytes_shipped, 105000u) << "counted as if it had travelled";
}

// rows: K13 S06 K28
TEST(InProcess, ShowsOneFrameToManyReceiversAndReleasesItAfterTheLast) {
  constexpr int kReceivers = 5;
  const std::string content(70000, 'y');
  std::vector<std::unique_ptr<Meeting>> meetings;
  for (int i = 0; i < kReceivers; ++i)
    meetings.push_back(std::make_unique<Meeting>(kLoop.fresh_address(), channel_options(1 << 17, 2)));
  Counts counts;
  lwmq_message* message = external_message(content, &counts);
  for (const auto& meeting : meetings) {
    lwmq_message* reference = nullptr;
    ASSERT_EQ(lwmq_message_reference(message, &reference), LWMQ_OK);
    ASSERT_EQ(lwmq_send_queue_post(meeting->client.queue, &reference), LWMQ_OK);
  }
  lwmq_message_destroy(message);
  std::vector<std::thread> threads;
  for (const auto& meeting : meetings) {
    threads.emplace_back([&] {
      lwmq_message* mine = received(meeting->server);
      EXPECT_EQ(frame_of(mine, 0), content.data());
      EXPECT_EQ(counts.released, 0);
      lwmq_message_destroy(mine);
    });
    if (&meeting != &meetings.back()) threads.back().join();
  }
  threads.back().join();
  EXPECT_EQ(counts.released, 1);
  for (const auto& meeting : meetings) EXPECT_EQ(meeting->client.statistics().messages_passed, 1u);
}

// rows: K13 S05
TEST(InProcess, ReleasesWhatWasHandedOverAndNeverReceived) {
  const std::string content(200, 'z');
  for (const bool server_first : {true, false}) {
    for (const bool looked_at : {true, false}) {
      Meeting meeting(kLoop.fresh_address(), channel_options(256, 2));
      Counts counts;
      for (int i = 0; i < 100; ++i) {  // more than the buffers have room for: some are still queued
        lwmq_message* message = external_message(content, &counts);
        ASSERT_EQ(lwmq_send_queue_post(meeting.client.queue, &message), LWMQ_OK);
      }
      // The service thread lands one while the application does not look.
      if (looked_at) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      if (server_first) meeting.server.destroy();
      meeting.client.destroy();
      meeting.server.destroy();
      EXPECT_TRUE(eventually([&] { return counts.released == 100; })) << counts.released;
      EXPECT_EQ(counts.acquired, 100);
    }
  }
}

// Threads that are not at home go on as they do without one, and lose nothing.
// rows: K14
TEST(InProcess, LetsOtherThreadsUseAChannelThatHasAHomeThread) {
  auto options = channel_options(1024, 4);
  options.home_thread = 1;
  for (const Subject& subject : {kLoop, kIpc}) {
    const Meeting meeting(subject.fresh_address(), options);
    lwmq_send_queue* second = nullptr;
    ASSERT_EQ(lwmq_channel_add_send_queue(meeting.client.channel, nullptr, &second), LWMQ_OK);
    constexpr int kMessages = 20000;
    const auto post_all = [](lwmq_send_queue* queue, char who) {
      for (int i = 0; i < kMessages; ++i) {
        const std::string text = who + std::to_string(i);
        ASSERT_EQ(lwmq_send_queue_post_bytes(queue, text.data(), text.size()), LWMQ_OK);
      }
    };
    std::thread guest([&] { post_all(second, 'g'); });
    std::thread receiving([&] {
      int next[2] = {0, 0};
      for (int i = 0; i < 2 * kMessages; ++i) {
        const std::string text = meeting.server.receive_text();
        ASSERT_FALSE(text.empty() || text[0] == '<') << text << " after " << i;
        ASSERT_EQ(text.substr(1), std::to_string(next[text[0] == 'g' ? 0 : 1]++));
      }
    });
    post_all(meeting.client.queue, 'h');
    guest.join();
    receiving.join();
  }
}

// Guests come and go in bursts, so that the pump is often given away just now; home posts and receives. All
// that was accepted arrives without another post; what a close in between drops is counted on both sides.
// rows: K14
TEST(InProcess, LosesNothingWhereGuestsPostBesideTheHomeThreadAndAnotherOneCloses) {
  auto options = channel_options(1024, 2);
  options.home_thread = 1;
  for (const Subject& subject : {kLoop, kIpc}) {
    for (int round = 0; round < 10; ++round) {
      Meeting meeting(subject.fresh_address(), options);
      lwmq_send_queue_options multi{};
      multi.size = sizeof multi;
      multi.kind = LWMQ_QUEUE_MULTI_UNBOUNDED;
      lwmq_send_queue* queues[2];
      for (auto& queue : queues)
        ASSERT_EQ(lwmq_channel_add_send_queue(meeting.client.channel, &multi, &queue), LWMQ_OK);
      ASSERT_EQ(meeting.server.post("back"), LWMQ_OK);
      constexpr int kGuests = 3;
      constexpr int kBursts = 200;
      std::atomic<std::uint64_t> accepted{0};
      std::atomic<std::uint64_t> received{0};
      std::atomic<int> bursting{kGuests};
      std::atomic<bool> until_closed{false};
      std::vector<std::thread> threads;
      for (int guest = 0; guest < kGuests; ++guest) {
        threads.emplace_back([&, guest] {
          for (int i = 0; i < kBursts * 10; ++i) {
            ASSERT_EQ(lwmq_send_queue_post_bytes(queues[guest % 2], "m", 1), LWMQ_OK);
            ++accepted;
            if (i % 10 == guest) sched_yield();
          }
          --bursting;
          while (!until_closed) std::this_thread::yield();
          while (lwmq_send_queue_post_bytes(queues[guest % 2], "m", 1) == LWMQ_OK) ++accepted;
        });
      }
      lwmq_status ended = LWMQ_OK;
      std::string said;
      std::thread receiving([&] {
        lwmq_message* message = nullptr;
        while ((ended = lwmq_channel_receive(meeting.server.channel, kLimitMs, &message)) == LWMQ_OK) {
          lwmq_message_destroy(message);
          ++received;
        }
        said = lwmq_last_error();
      });
      int heard = 0;
      for (int i = 0; bursting > 0; ++i) {
        if (i < 5000) {
          ASSERT_EQ(meeting.client.post("home"), LWMQ_OK);
          ++accepted;
        }
        lwmq_message* message = nullptr;
        if (lwmq_channel_receive(meeting.client.channel, LWMQ_NO_WAIT, &message) == LWMQ_OK) {
          lwmq_message_destroy(message);
          ++heard;
          ASSERT_EQ(meeting.server.post("back"), LWMQ_OK);
        }
      }
      if (heard == 0) {  // the guests were done before we had looked
        EXPECT_EQ(meeting.client.receive_text(), "back");
      }
      const std::uint64_t posted = accepted;
      std::uint64_t seen = 0;
      for (int waits = 0; received < posted && waits < 6000; ++waits) {  // as long as something comes
        if (seen != received) waits = 0;
        seen = received;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      EXPECT_EQ(received, posted) << "a message was left behind";
      until_closed = true;
      std::uint64_t dropped = 0;
      std::thread closing([&] {  // not at home
        if (lwmq_channel_close(meeting.client.channel, 0) == LWMQ_OK) return;
        const std::string text = lwmq_last_error();
        dropped = std::stoull(text.substr(text.find("; ") + 2));
      });
      closing.join();
      for (auto& thread : threads) thread.join();
      receiving.join();
      EXPECT_EQ(received + dropped, accepted);
      EXPECT_EQ(ended, dropped > 0 ? LWMQ_E_PEER_LOST : LWMQ_E_CLOSED) << said;
      if (dropped > 0) {
        EXPECT_NE(said.find(" " + std::to_string(dropped) + " messages never came"), std::string::npos)
            << said;
      }
    }
  }
}

// ---- What one thread pays

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

constexpr int kMessages = 40;  // more than a buffer has room for

// What a thread does again and again with both ends of a channel of its own.
enum class Does : char {
  at_home = 'h',     // posts and receives messages, at home
  free = 'f',        // or without a home thread
  hands_over = 'r',  // at home, buffers of a raw channel
  small = 's',       // messages that leave alone, in a small buffer
  large = 'l'        // or in a large one
};

// False: it failed.
bool exchange(const Meeting& meeting, Does what) {
  if (what == Does::hands_over) {
    lwmq_buffer buffer{};
    return lwmq_raw_get_buffer(meeting.client.channel, LWMQ_NO_WAIT, &buffer) == LWMQ_OK &&
           lwmq_raw_send_buffer(meeting.client.channel, &buffer) == LWMQ_OK &&
           lwmq_raw_receive_buffer(meeting.server.channel, LWMQ_NO_WAIT, &buffer) == LWMQ_OK &&
           lwmq_raw_dispose_buffer(meeting.server.channel, &buffer) == LWMQ_OK;
  }
  lwmq_message* message = nullptr;
  if (lwmq_message_create(1, &message) != LWMQ_OK || lwmq_message_append(message, "small", 5) != LWMQ_OK ||
      lwmq_send_queue_post(meeting.client.queue, &message) != LWMQ_OK ||
      lwmq_channel_receive(meeting.server.channel, LWMQ_NO_WAIT, &message) != LWMQ_OK)
    return false;
  lwmq_message_destroy(message);
  // The buffer leaves: the next message needs another.
  return (what != Does::small && what != Does::large) ||
         lwmq_channel_flush(meeting.client.channel, LWMQ_NO_WAIT) == LWMQ_OK;
}

// Does what its argument says between two breakpoints.
LWMQ_CHILD_ROLE(single_thread) {
  const auto what = static_cast<Does>(Child::argument()[0]);
  const bool is_within = what == Does::at_home || what == Does::free;
  auto options = channel_options(what == Does::large ? 4 << 20 : 256, 4, what == Does::hands_over);
  options.home_thread = what == Does::at_home || what == Does::hands_over ? 1 : 0;
  const Meeting meeting((is_within ? kLoop : kIpc).fresh_address(), options);
  const auto go_on = [&](int count) {
    for (int i = 0; i < count; ++i) {
      if (!exchange(meeting, what)) _exit(2);
    }
  };
  go_on(1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // the service threads have gone to sleep
  Child::report("ready");
  Child::hear();
  go_on(100);
  asm volatile("int3");
  go_on(kMessages);
  asm volatile("int3");
}

struct Executed {
  int locked = 0;
  int calls_of_kernel = 0;
  int all = 0;
};

// Whether the instruction at `code` reads, changes and writes memory in one step, or is a full fence.
bool is_locked(const std::uint8_t* code) {
  int at = 0;
  for (; std::strchr("\x66\x67\xf2\xf3\x2e\x36\x3e\x26\x64\x65\xf0", code[at]) != nullptr && code[at] != 0;
       ++at) {
    if (code[at] == 0xf0) return true;
  }
  if ((code[at] & 0xf0) == 0x40) ++at;                                               // REX
  if (code[at] == 0x86 || code[at] == 0x87) return (code[at + 1] & 0xc0) != 0xc0;    // xchg with memory
  return code[at] == 0x0f && code[at + 1] == 0xae && (code[at + 2] & 0xf8) == 0xf0;  // mfence
}

// Runs the stopped process to its next breakpoint; step by step, counting, where `counts` is given.
bool run_to_breakpoint(pid_t pid, Executed* counts) {
  for (;;) {
    if (counts != nullptr) {
      user_regs_struct registers{};
      if (ptrace(PTRACE_GETREGS, pid, nullptr, &registers) != 0) return false;
      std::uint8_t code[16];
      for (int i = 0; i < 2; ++i) {
        const long word = ptrace(PTRACE_PEEKTEXT, pid, registers.rip + static_cast<unsigned>(i) * 8, nullptr);
        std::memcpy(code + i * 8, &word, 8);
      }
      if (code[0] == 0xcc) counts = nullptr;  // the next step runs into it
      if (counts != nullptr) {
        ++counts->all;
        counts->locked += is_locked(code) ? 1 : 0;
        counts->calls_of_kernel += code[0] == 0x0f && code[1] == 0x05 ? 1 : 0;
      }
    }
    int status = 0;
    do {
      if (ptrace(counts != nullptr ? PTRACE_SINGLESTEP : PTRACE_CONT, pid, nullptr, nullptr) != 0)
        return false;
      if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status)) return false;
    } while (WSTOPSIG(status) != SIGTRAP);
    if (counts == nullptr) return true;
  }
}

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> threads;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task"))
    threads.push_back(std::stoi(task.path().filename()));
  return threads;
}

// Stops a thread where it sleeps: nowhere else, where it could hold what the others wait for.
bool stop_asleep(pid_t thread) {
  for (;;) {
    int status = 0;
    user_regs_struct registers{};
    if (ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0 ||
        waitpid(thread, &status, __WALL) != thread ||
        ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0)
      return false;
    const auto call = static_cast<long>(registers.orig_rax);
    for (const long sleep : {SYS_epoll_wait, SYS_epoll_pwait, SYS_futex, SYS_futex_waitv}) {
      if (call == sleep) return true;
    }
    if (ptrace(PTRACE_CONT, thread, nullptr, nullptr) != 0) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// What the one thread of the child executes. Its service threads, which would look in every few milliseconds,
// and at single steps that is often, are held where they sleep.
bool count_instructions(Does what, Executed* out_executed) {
  Child child("single_thread", std::string(1, static_cast<char>(what)));
  if (child.line() != "ready") return false;
  const std::vector<pid_t> threads = threads_of(child.pid());
  int status = 0;
  for (const pid_t thread : threads) {
    if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) return false;
    if (thread == child.pid()) continue;
    if (!stop_asleep(thread)) return false;
  }
  child.say('.');
  // To its first breakpoint, and from there to the second.
  const bool counted = waitpid(child.pid(), &status, __WALL) == child.pid() && WIFSTOPPED(status) &&
                       run_to_breakpoint(child.pid(), out_executed);
  // The one that ends the process last: who ends while we still trace it can be reaped by nobody.
  for (const pid_t thread : threads) {
    if (thread != child.pid()) ptrace(PTRACE_DETACH, thread, nullptr, nullptr);
  }
  ptrace(PTRACE_DETACH, child.pid(), nullptr, nullptr);
  EXPECT_EQ(child.wait(), 0);
  return counted;
}

// Which makes it faster than a list under a lock or a local socket: see `threads` of tests/bench.
// rows: K13 K14 K51
TEST(InProcess, CostsAThreadAtHomeNoLockedInstructionAndNoSystemCall) {
  Executed free;
  if (!count_instructions(Does::free, &free))
    GTEST_SKIP() << "this machine lets nobody step through a process";
  EXPECT_GE(free.locked, 2 * kMessages) << "without a home thread: the pump and the landing side are taken";
  EXPECT_LE(free.locked, 2 * kMessages + 8);
  EXPECT_EQ(free.calls_of_kernel, 0);
  Executed home;
  ASSERT_TRUE(count_instructions(Does::at_home, &home));
  EXPECT_GT(home.all, 100 * kMessages) << "it did something";
  EXPECT_EQ(home.locked, 0);
  EXPECT_EQ(home.calls_of_kernel, 0);
  RecordProperty("instructions_per_message", home.all / kMessages);
}

// Of a receiver at home: a locked instruction waits for the store before it, whose line the sender looks at.
TEST(BetweenProcesses, AHandOverCostsAThreadAtHomeNoLockedInstructionAndNoSystemCall) {
  Executed home;
  if (!count_instructions(Does::hands_over, &home))
    GTEST_SKIP() << "this machine lets nobody step through a process";
  EXPECT_GT(home.all, 100 * kMessages) << "it did something";
  EXPECT_LE(home.locked, 8);
  EXPECT_EQ(home.calls_of_kernel, 0);
  EXPECT_LT(home.all, 1500 * kMessages) << "some six hundred instructions when this was written";
}

// To look at all of a buffer of 4 MiB would take hundreds of thousands.
// rows: L30
TEST(BetweenProcesses, ALoneMessageCostsAsManyInstructionsInALargeBufferAsInASmallOne) {
  Executed small, large;
  if (!count_instructions(Does::small, &small))
    GTEST_SKIP() << "this machine lets nobody step through a process";
  ASSERT_TRUE(count_instructions(Does::large, &large));
  EXPECT_GT(small.all, 100 * kMessages) << "it did something";
  EXPECT_LT(large.all, 2 * small.all);
}

#endif

}  // namespace
}  // namespace lwmq::conformance
