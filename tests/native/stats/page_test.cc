// links: base os stats
// The page that a process shows to tools, and what an observer makes of it.
#include "stats/page.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "golden.h"
#include "os/clock.h"
#include "os/segment.h"
#include "stats/observer.h"

namespace lwmq::stats {
namespace {

using testing_support::read_golden;

const auto& golden() {
  static const auto cases = read_golden(LWMQ_SOURCE_ROOT "/tests/wire/statistics.hex");
  return cases;
}

// At the edges of steps: two in the second, one in the last that has an end, one beyond.
constexpr std::uint64_t kTimes[] = {64, 65, 128, std::uint64_t{1} << 36, (std::uint64_t{1} << 36) + 1};

const SeenProcess* find(const Observer& observer, std::uint32_t pid) {
  for (const auto& process : observer.processes()) {
    if (process.view.pid == pid) return &process;
  }
  return nullptr;
}

const lwmq_entry_view* find_entry(const SeenProcess* process, const std::string& address) {
  if (process == nullptr) return nullptr;
  for (const auto& entry : process->entries) {
    if (entry.address == address) return &entry;
  }
  return nullptr;
}

TEST(StatisticsPage, LiesInTheGoldenBytes) {
  static PageHead head{};  // zeroed, the pad too
  head.magic = kPageMagic;
  head.version = kPageVersion;
  head.page_bytes = kPageBytes, head.head_bytes = sizeof head, head.entry_bytes = sizeof(Entry);
  head.pid = 7, head.uid = 1000;
  for (std::uint8_t i = 0; i < 16; ++i) head.instance[i] = i;
  std::strcpy(head.library, "0.1.0");
  head.entries_used = 2, head.unlisted = 3;
  std::uint64_t number = 10;
#define COUNT(name, ...) head.process.name = number++;
  LWMQ_PROCESS_COUNTERS(COUNT)
#undef COUNT
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(&head), sizeof head), golden().at("head").bytes);

  static Entry entry{};
  entry.lap = 1;
  entry.kind = static_cast<std::uint32_t>(EntryKind::kEndpoint);
  entry.opened_ns = 123456789;
  std::strcpy(entry.address, "ipc://flights");
  std::strcpy(entry.name, "query");
  entry.flags = 20, entry.waiting_since_ns = 21, entry.moved_ns = 22;
  number = 23;
#define COUNT(name, ...) entry.name = number++;
  LWMQ_ENTRY_COUNTERS(COUNT)
#undef COUNT
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(&entry), sizeof entry), golden().at("entry").bytes);

  static Entry times{};
  times.lap = 1;
  times.kind = static_cast<std::uint32_t>(EntryKind::kLatency);
  times.opened_ns = 123456789;
  std::strcpy(times.address, "latency+ipc://orders");
  std::strcpy(times.name, "latency=100");
  for (const std::uint64_t ns : kTimes) add_latency(times, ns);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(&times), sizeof times), golden().at("latency").bytes);
}

// rows: C40
TEST(StatisticsPage, ShowsTimesByPowersOfTwo) {
  const auto times = open_entry(EntryKind::kLatency, "latency+ipc://timed", "latency");
  for (const std::uint64_t ns : kTimes) add_latency(*times, ns);
  Observer observer;
  ASSERT_EQ(observer.look(), LWMQ_OK);
  const auto* seen = find_entry(find(observer, static_cast<std::uint32_t>(getpid())), "latency+ipc://timed");
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(seen->kind, static_cast<std::uint32_t>(LWMQ_ENTRY_LATENCY));
  std::vector<std::uint64_t> counts(std::size(seen->took));
  counts[0] = 1, counts[1] = 2, counts[30] = 1, counts[31] = 1;
  EXPECT_EQ(std::vector<std::uint64_t>(std::begin(seen->took), std::end(seen->took)), counts);
  EXPECT_EQ(seen->took_ns, 64 + 65 + 128 + (std::uint64_t{1} << 37) + 1);
  EXPECT_EQ(seen->rows, 0u);
  EXPECT_EQ(seen->messages_sent, 0u);
}

TEST(StatisticsPage, IsSeenByAnObserver) {
  auto writer = open_entry(EntryKind::kWriter, "ipc://seen", "job 7");
  set(writer->batches, 5);
  set(writer->waiting_since_ns, static_cast<std::uint64_t>(os::now_ns()) - 1'000'000'000);
  Observer observer;
  ASSERT_EQ(observer.look(), LWMQ_OK);
  const auto* seen = find_entry(find(observer, static_cast<std::uint32_t>(getpid())), "ipc://seen");
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(seen->kind, static_cast<std::uint32_t>(LWMQ_ENTRY_WRITER));
  EXPECT_STREQ(seen->name, "job 7");
  EXPECT_EQ(seen->batches, 5u);
  EXPECT_GE(seen->waiting_ns, 1'000'000'000u);
  EXPECT_LT(seen->waiting_ns, 60'000'000'000u);

  writer.reset();
  ASSERT_EQ(observer.look(), LWMQ_OK);
  const auto* us = find(observer, static_cast<std::uint32_t>(getpid()));
  ASSERT_NE(us, nullptr);
  EXPECT_EQ(find_entry(us, "ipc://seen"), nullptr);
}

TEST(StatisticsPage, CutsWhatIsTooLongAndShowsNoControlCharacters) {
  const auto entry = open_entry(EntryKind::kReader, std::string(300, 'a').c_str(), "x\x1b[2Jy");
  Observer observer;
  ASSERT_EQ(observer.look(), LWMQ_OK);
  const auto* seen = find_entry(find(observer, static_cast<std::uint32_t>(getpid())), std::string(159, 'a'));
  ASSERT_NE(seen, nullptr);
  EXPECT_STREQ(seen->name, "x?[2Jy");
}

TEST(StatisticsPage, CountsWhatFindsNoPlaceAndGivesPlacesBack) {
  std::vector<std::shared_ptr<Entry>> entries;
  for (std::size_t i = 0; i < kEntriesMax + 3; ++i) {
    entries.push_back(open_entry(EntryKind::kChannel, "ipc://many"));
    ASSERT_NE(entries.back(), nullptr);
    set(entries.back()->messages_sent, i);
  }
  Observer observer;
  ASSERT_EQ(observer.look(), LWMQ_OK);
  const auto pid = static_cast<std::uint32_t>(getpid());
  EXPECT_EQ(find(observer, pid)->entries.size(), kEntriesMax);
  EXPECT_EQ(find(observer, pid)->view.unlisted, 3u);
  entries.clear();
  const auto again = open_entry(EntryKind::kChannel, "ipc://again");
  ASSERT_EQ(observer.look(), LWMQ_OK);
  ASSERT_EQ(find(observer, pid)->entries.size(), 1u);
  EXPECT_EQ(find(observer, pid)->entries[0].messages_sent, 0u);
}

// An entry that changes hands while it is copied is of its old owner or its new one, never of both.
TEST(StatisticsPage, NeverShowsHalfOfTwoOwners) {
  const auto pid = static_cast<std::uint32_t>(getpid());
  std::atomic<bool> stop{false};
  std::thread owner([&] {
    while (!stop.load()) {
      open_entry(EntryKind::kReader, "ipc://one", "one").reset();
      open_entry(EntryKind::kReader, "ipc://two", "two").reset();
    }
  });
  Observer observer;
  ASSERT_EQ(observer.look(), LWMQ_OK);
  const auto* page = find(observer, pid);
  ASSERT_NE(page, nullptr);
  const auto* entries = reinterpret_cast<const Entry*>(page->page.data() + sizeof(PageHead));
  int seen = 0;  // most looks meet a change, and on a busy machine nearly all
  const std::int64_t deadline = os::now_ns() + 60'000'000'000;
  while (seen < 500 && os::now_ns() < deadline) {
    lwmq_entry_view view{};
    if (!copy_entry(entries[0], sizeof(Entry), os::now_ns(), &view)) continue;
    ++seen;
    EXPECT_EQ(std::string(view.address), std::string("ipc://") + view.name);
  }
  stop = true;
  owner.join();
  EXPECT_GT(seen, 0);
}

TEST(StatisticsPage, OfAForkedChildIsNobodys) {
  const auto entry = open_entry(EntryKind::kWriter, "ipc://parent");
  set(entry->batches, 1);
  add(process().batches_written, 1);
  const std::uint64_t before = process().batches_written;
  int ready[2], go[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) {
    add(process().batches_written, 100);  // what destructors of the parent's objects may do here
    set(entry->batches, 100);
    char byte = 'r';
    if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  Observer observer;
  ASSERT_EQ(observer.look(), LWMQ_OK);
  EXPECT_EQ(find(observer, static_cast<std::uint32_t>(child)), nullptr);
  EXPECT_EQ(process().batches_written, before);
  EXPECT_EQ(entry->batches, 1u);
  ASSERT_EQ(write(go[1], &byte, 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) close(fd);
}

// A page is somebody else's memory. Children, because a process shows its first page only.
class ForeignPage : public ::testing::Test {
 protected:
  // Looks at a child that shows `bytes` bytes of `fill` (after a head that is right, where asked).
  static SeenProcess look_at_child(std::uint64_t bytes, std::uint8_t fill, bool good_head, bool sealed,
                                   std::uint32_t head_bytes = sizeof(PageHead),
                                   std::uint32_t entry_bytes = sizeof(Entry)) {
    int ready[2], go[2];
    EXPECT_EQ(pipe(ready), 0);
    EXPECT_EQ(pipe(go), 0);
    const pid_t child = fork();
    if (child == 0) {
      show(bytes, fill, good_head, sealed, head_bytes, entry_bytes);
      char byte = 'r';
      if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1) _exit(1);
      _exit(0);
    }
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    Observer observer;
    EXPECT_EQ(observer.look(), LWMQ_OK);
    SeenProcess seen;
    if (const auto* found = find(observer, static_cast<std::uint32_t>(child))) {
      seen.view = found->view;
      seen.entries = found->entries;
    }
    EXPECT_EQ(write(go[1], &byte, 1), 1);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    for (const int fd : {ready[0], ready[1], go[0], go[1]}) close(fd);
    return seen;
  }

 private:
  static void show(std::uint64_t bytes, std::uint8_t fill, bool good_head, bool sealed,
                   std::uint32_t head_bytes, std::uint32_t entry_bytes) {
    static os::Segment segment;
    std::uint8_t* data = nullptr;
    if (sealed) {
      if (os::create_segment(kPageLabel, bytes, &segment) != LWMQ_OK) _exit(2);
      data = segment.memory.data();
    } else {
      const int fd = memfd_create(kPageLabel, 0);
      if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) _exit(3);
      data = static_cast<std::uint8_t*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    }
    std::memset(data, fill, bytes);
    if (!good_head) return;
    auto* head = reinterpret_cast<PageHead*>(data);
    head->magic = kPageMagic;
    head->version = kPageVersion;
    head->page_bytes = static_cast<std::uint32_t>(bytes);
    head->head_bytes = head_bytes;
    head->entry_bytes = entry_bytes;
  }
};

TEST_F(ForeignPage, OfAnotherVersionIsShownWithoutFigures) {
  const auto seen = look_at_child(8192, 0x42, false, true);
  EXPECT_NE(seen.view.pid, 0u);
  EXPECT_EQ(seen.view.known, 0u);
  EXPECT_EQ(seen.view.page_version, 0x42424242u);
  EXPECT_TRUE(seen.entries.empty());
}

TEST_F(ForeignPage, ThatSaysNonsenseIsReadWithinItsBounds) {
  // Every field is 0x7f7f..: entries_used too, every lap is odd, no text ends.
  const auto seen = look_at_child(8192, 0x7f, true, true);
  EXPECT_EQ(seen.view.known, 1u);
  ASSERT_EQ(seen.entries.size(), (8192 - sizeof(PageHead)) / sizeof(Entry));
  EXPECT_EQ(std::string(seen.entries[0].address), std::string(159, '?'));
}

// Every number on these pages is 0x7f7f..; a counter that the other version does not have stays 0.
TEST_F(ForeignPage, OfALibraryWithFewerCountersShowsThoseItHas) {
  const auto seen = look_at_child(8192, 0x7f, true, true, 128, sizeof(Entry));
  EXPECT_EQ(seen.view.known, 1u);
  EXPECT_NE(seen.view.window_bytes, 0u);
  EXPECT_NE(seen.view.bytes_read, 0u);
  EXPECT_EQ(seen.view.bytes_copied, 0u);
  EXPECT_EQ(seen.view.peers_lost, 0u);
}

TEST_F(ForeignPage, OfALibraryWithMoreCountersShowsThoseWeKnow) {
  const auto seen = look_at_child(8192, 0x7f, true, true, sizeof(PageHead) + 64, sizeof(Entry) + 128);
  EXPECT_EQ(seen.view.known, 1u);
  EXPECT_NE(seen.view.peers_lost, 0u);
  ASSERT_EQ(seen.entries.size(), (8192 - sizeof(PageHead) - 64) / (sizeof(Entry) + 128));
  EXPECT_EQ(seen.entries[1].clients_refused, 0x7f7f7f7f7f7f7f7fu);
}

TEST_F(ForeignPage, WhoseSizesAreNonsenseIsNotRead) {
  constexpr std::uint32_t kNonsense[][2] = {{0, sizeof(Entry)},
                                            {64, sizeof(Entry)},
                                            {8192 + 64, sizeof(Entry)},
                                            {sizeof(PageHead), 0},
                                            {sizeof(PageHead), 64},
                                            {sizeof(PageHead), sizeof(Entry) + 8},
                                            {sizeof(PageHead) + 8, sizeof(Entry)}};
  for (const auto [head_bytes, entry_bytes] : kNonsense)
    EXPECT_EQ(look_at_child(8192, 0x7f, true, true, head_bytes, entry_bytes).view.known, 0u);
}

TEST(Counters, AreListedWithTheirOwnersAndAHelp) {
  lwmq_counter counter{};
  std::uint32_t count = 0, of_process = 0;
  for (; counter_at(count, &counter); ++count) {
    EXPECT_EQ(counter.help[std::strlen(counter.help) - 1], '.') << counter.name;
    EXPECT_NE(counter.owners, 0u) << counter.name;
    EXPECT_GE(counter.type, static_cast<std::uint32_t>(LWMQ_COUNTER_FLOW)) << counter.name;
    of_process += counter.owners & 1;
  }
  EXPECT_EQ(of_process, (sizeof(lwmq_statistics) - sizeof(std::uint64_t)) / sizeof(std::uint64_t));
  EXPECT_EQ(count - of_process, (sizeof(lwmq_entry_view) - offsetof(lwmq_entry_view, partitions)) / 8);
  ASSERT_TRUE(counter_at(0, &counter));
  EXPECT_STREQ(counter.name, "window_bytes");
}

TEST_F(ForeignPage, ThatCouldShrinkUnderUsIsNotMapped) {
  EXPECT_EQ(look_at_child(8192, 0x7f, true, false).view.pid, 0u);
}

TEST_F(ForeignPage, SmallerThanItsHeadIsNotMapped) {
  EXPECT_EQ(look_at_child(64, 0x7f, false, true).view.pid, 0u);
}

}  // namespace
}  // namespace lwmq::stats
