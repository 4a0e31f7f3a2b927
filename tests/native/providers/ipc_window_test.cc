// links: base os stats tli address filters lane modules store providers
// Windows of ipc: one process writes, others read the same pages, whoever showed them and whoever has died
// since.
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <thread>

#include "child.h"
#include "eventually.h"
#include "ipc_fixture.h"
#include "os/memory_budget.h"
#include "stats/process_counters.h"

namespace lwmq::testing {
namespace {

lwmq_tli_window_info info_of(const lwmq_tli_window* window) {
  lwmq_tli_window_info info{};
  ipc().memory->info(window, &info);
  return info;
}

lwmq_tli_window* create_window(std::uint64_t bytes) {
  lwmq_tli_window* window = nullptr;
  EXPECT_EQ(ipc().memory->create(bytes, &window), LWMQ_OK) << last_error();
  return window;
}

std::string id_of(const lwmq_tli_window* window) {
  const lwmq_tli_window_info info = info_of(window);
  return {reinterpret_cast<const char*>(info.id), sizeof info.id};
}

Status find(lwmq_tli_transport* transport, const std::string& id, lwmq_tli_window** out_window) {
  return ipc().memory->find(transport, reinterpret_cast<const std::uint8_t*>(id.data()), 60000, out_window);
}

// Makes a window with a text, shows it over its transport, and stays.
LWMQ_CHILD_ROLE(ShowsAWindow) {
  lwmq_tli_transport* transport = connect(Child::argument());
  lwmq_tli_window* window = create_window(std::uint64_t{1} << 20);
  std::strcpy(reinterpret_cast<char*>(info_of(window).base) + 64, "written by the owner");
  EXPECT_EQ(ipc().memory->export_to(transport, window), LWMQ_OK) << last_error();
  EXPECT_EQ(ipc().memory->export_to(transport, window), LWMQ_OK) << "twice is harmless";
  EXPECT_EQ(send(transport, id_of(window)), LWMQ_OK);
  Child::report("shown");
  Child::hear();
  std::strcpy(reinterpret_cast<char*>(info_of(window).base) + 64, "written anew");
  Child::report("written");
  Child::hear();
}

// Finds a window shown to it by somebody who does not own it.
LWMQ_CHILD_ROLE(FindsAWindow) {
  lwmq_tli_transport* transport = connect(Child::argument());
  std::string id;
  ASSERT_EQ(receive(transport, &id), LWMQ_OK);
  lwmq_tli_window* window = nullptr;
  ASSERT_EQ(find(transport, id, &window), LWMQ_OK) << last_error();
  Child::report(std::string(reinterpret_cast<const char*>(info_of(window).base) + 64) +
                (ipc().memory->owner_alive(window) != 0 ? " (alive)" : " (dead)"));
  ipc().memory->release(window);
  Child::hear();
}

// rows: L01
TEST(IpcWindow, IsReadWhereItsOwnerWritesAndShownOnToThirdsAlsoAfterTheOwnersDeath) {
  const std::string address = fresh_address();
  lwmq_tli_listener* listener = listen(address);
  Child owner("ShowsAWindow", address);
  lwmq_tli_transport* from_owner = accept(listener);
  std::string id;
  ASSERT_EQ(receive(from_owner, &id), LWMQ_OK);
  lwmq_tli_window* window = nullptr;
  ASSERT_EQ(find(from_owner, id, &window), LWMQ_OK) << last_error();
  const lwmq_tli_window_info info = info_of(window);
  const char* text = reinterpret_cast<const char*>(info.base) + 64;
  EXPECT_STREQ(text, "written by the owner");
  EXPECT_EQ(info.owned, 0U);
  EXPECT_EQ(info.owner_pid, static_cast<std::uint32_t>(owner.pid()));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(info.base) % 64, 0U);
  ASSERT_EQ(owner.line(), "shown");
  owner.say('w');
  ASSERT_EQ(owner.line(), "written");
  EXPECT_STREQ(text, "written anew") << "the same pages, no copy";

  const auto show_to_reader = [&](const char* expected) {
    Child reader("FindsAWindow", address);
    lwmq_tli_transport* to_reader = accept(listener);
    ASSERT_EQ(ipc().memory->export_to(to_reader, window), LWMQ_OK) << last_error();
    ASSERT_EQ(send(to_reader, id), LWMQ_OK);
    EXPECT_EQ(reader.line(), expected);
    ipc().transport->close(to_reader, 0, 0);
  };
  show_to_reader("written anew (alive)");
  EXPECT_EQ(ipc().memory->owner_alive(window), 1);
  owner.kill();
  EXPECT_EQ(ipc().memory->owner_alive(window), 0);
  EXPECT_STREQ(text, "written anew") << "a window outlives its writer";
  show_to_reader("written anew (dead)");

  ipc().memory->release(window);
  ipc().transport->close(from_owner, 0, 0);
  ipc().listener->close(listener);
}

TEST(IpcWindow, FoundTwiceIsMappedOnceAndOurOwnLeadsBackToTheWritableMapping) {
  Pair pair;
  lwmq_tli_window* own = create_window(8192);
  ASSERT_EQ(ipc().memory->export_to(pair.client, own), LWMQ_OK);
  lwmq_tli_window* again = nullptr;
  ASSERT_EQ(find(pair.server, id_of(own), &again), LWMQ_OK);
  EXPECT_EQ(again, own);
  EXPECT_EQ(info_of(again).owned, 1U);
  info_of(again).base[0] = 1;
  ipc().memory->release(again);
  ipc().memory->release(own);
}

TEST(IpcWindow, ThatNobodyShowedIsWaitedForAndThenNotFound) {
  Pair pair;
  const std::string id(16, 'x');
  lwmq_tli_window* window = nullptr;
  EXPECT_EQ(ipc().memory->find(pair.server, reinterpret_cast<const std::uint8_t*>(id.data()), 30, &window),
            LWMQ_E_TIMED_OUT);
}

TEST(IpcWindow, IsFoundOnlyWhereItWasShown) {
  Pair shown;
  Pair other;
  lwmq_tli_window* own = create_window(4096);
  const std::string id = id_of(own);
  ASSERT_EQ(ipc().memory->export_to(shown.client, own), LWMQ_OK);
  lwmq_tli_window* found = nullptr;
  ASSERT_EQ(find(shown.server, id, &found), LWMQ_OK);
  ipc().memory->release(found);
  ASSERT_EQ(find(shown.server, id, &found), LWMQ_OK) << "again, while somebody keeps it";
  ipc().memory->release(found);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(id.data());
  EXPECT_EQ(ipc().memory->find(other.server, bytes, 10, &found), LWMQ_E_TIMED_OUT);
  ipc().memory->release(own);
  EXPECT_EQ(ipc().memory->find(shown.server, bytes, 10, &found), LWMQ_E_TIMED_OUT);
}

TEST(IpcWindow, HundredsShownAheadWaitInTheSocketUntilTheyAreLookedFor) {
  constexpr int kWindows = 300;
  Pair pair;
  std::vector<lwmq_tli_window*> windows;
  for (int i = 0; i < kWindows; ++i) windows.push_back(create_window(4096));
  std::atomic<bool> was_full{false};
  std::thread exporter([&] {
    for (auto* window : windows) {
      Status status = LWMQ_E_FULL;
      while ((status = ipc().memory->export_to(pair.client, window)) == LWMQ_E_FULL) was_full = true;
      EXPECT_EQ(status, LWMQ_OK) << last_error();
    }
  });
  EXPECT_TRUE(eventually([&] { return was_full.load(); })) << "an export never waits: the socket holds fewer";
  for (auto* window : windows) {
    lwmq_tli_window* found = nullptr;
    ASSERT_EQ(find(pair.server, id_of(window), &found), LWMQ_OK) << last_error();
    EXPECT_EQ(found, window);
    ipc().memory->release(found);
  }
  exporter.join();
  for (auto* window : windows) ipc().memory->release(window);
}

TEST(IpcWindow, CountsAgainstTheBudgetOfTheProcess) {
  const std::uint64_t before = stats::process().window_bytes.load();
  os::set_window_memory(os::window_memory_held() + 100'000);
  lwmq_tli_window* window = create_window(60'000);
  EXPECT_EQ(stats::process().window_bytes.load(), before + 60'000);
  lwmq_tli_window* too_much = nullptr;
  EXPECT_EQ(ipc().memory->create(60'000, &too_much), LWMQ_E_NO_MEMORY);
  EXPECT_NE(std::string(last_error()).find("60000"), std::string::npos) << last_error();
  EXPECT_NE(std::string(last_error()).find("lwmq_set_window_memory"), std::string::npos) << last_error();
  ipc().memory->release(window);
  EXPECT_EQ(stats::process().window_bytes.load(), before);
  window = create_window(60'000);
  ipc().memory->release(window);
  os::set_window_memory(0);
}

TEST(IpcWindow, LargerThanTheMachineIsAnErrorWithBothNumbers) {
  os::set_window_memory(UINT64_MAX);
  lwmq_tli_window* window = nullptr;
  EXPECT_EQ(ipc().memory->create(std::uint64_t{1} << 60, &window), LWMQ_E_INVALID);
  EXPECT_EQ(ipc().memory->create(std::uint64_t{64} << 30, &window), LWMQ_E_NO_MEMORY);
  EXPECT_NE(std::string(last_error()).find("68719476736 bytes does not fit"), std::string::npos)
      << last_error();
  os::set_window_memory(0);
}

sigjmp_buf fault_exit;
void on_fault(int /*signal*/) { siglongjmp(fault_exit, 1); }

TEST(IpcWindow, CannotBeWrittenByAPeer) {
  const std::string address = fresh_address();
  lwmq_tli_listener* listener = listen(address);
  Child owner("ShowsAWindow", address);
  lwmq_tli_transport* from_owner = accept(listener);
  std::string id;
  ASSERT_EQ(receive(from_owner, &id), LWMQ_OK);
  lwmq_tli_window* window = nullptr;
  ASSERT_EQ(find(from_owner, id, &window), LWMQ_OK) << last_error();
  volatile std::uint8_t* base = info_of(window).base;
  const auto before = signal(SIGSEGV, on_fault);
  volatile bool faulted = false;
  if (sigsetjmp(fault_exit, 1) == 0) {
    base[0] = 1;
  } else {
    faulted = true;
  }
  signal(SIGSEGV, before);
  EXPECT_TRUE(faulted);
  ipc().memory->release(window);
  ipc().transport->close(from_owner, 0, 0);
  ipc().listener->close(listener);
}

}  // namespace
}  // namespace lwmq::testing
