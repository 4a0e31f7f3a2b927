#include "stats/page.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <new>

#include "os/clock.h"
#include "os/identity.h"
#include "os/segment.h"

namespace lwmq::stats {
namespace {

// The page of this process. It is never destroyed, because counters are written until the process ends.
struct World {
  os::Segment segment;
  PageHead* head = nullptr;
  Entry* entries = nullptr;
  std::size_t entry_count = 0;
  PageHead unseen{};  // takes the place of the head if no page could be made

  std::mutex mutex;
  std::size_t fresh = 0;                                      // this entry and the following were never taken
  std::array<std::uint64_t, (kEntriesMax + 63) / 64> free{};  // a bit for each entry that was given back

  World() noexcept;
};

World* made = nullptr;  // for the fork handler

World& world() noexcept {
  static auto* instance = new World;
  return *instance;
}

// In a forked child the page is the parent's and not mapped, but objects that are destroyed there still write
// to its addresses. Plain memory takes its place.
void after_fork_in_child() noexcept {
  if (made == nullptr) return;
  ::close(made->segment.fd.get());
  mmap(made->segment.memory.data(), kPageBytes, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  made = nullptr;
}

World::World() noexcept {
  head = &unseen;
  if (os::create_segment(kPageLabel, kPageBytes, &segment) != LWMQ_OK) return;
  head = new (segment.memory.data()) PageHead{};
  entries = reinterpret_cast<Entry*>(segment.memory.data() + sizeof(PageHead));
  entry_count = kEntriesMax;
  const lwmq_identity& self = os::identity();
  head->version = kPageVersion;
  head->page_bytes = kPageBytes;
  head->head_bytes = sizeof(PageHead);
  head->entry_bytes = sizeof(Entry);
  head->pid = self.pid;
  head->uid = geteuid();
  std::memcpy(head->instance, self.instance, sizeof head->instance);
  std::strncpy(head->library, kLibraryVersion, sizeof head->library - 1);
  std::atomic_thread_fence(std::memory_order_release);
  head->magic = kPageMagic;
  made = this;
  pthread_atfork(nullptr, nullptr, after_fork_in_child);
}

void copy_cut(const char* from, char* to, std::size_t room) noexcept {
  const std::size_t length = std::min(std::strlen(from), room - 1);
  std::memcpy(to, from, length);
  std::memset(to + length, 0, room - length);
}

// Prepares an entry that is not in use: its lap is even and stays so.
void begin(Entry& entry, EntryKind kind, const char* address, const char* name) noexcept {
  const std::uint32_t lap = entry.lap.load(std::memory_order_relaxed);  // our own
  std::atomic_thread_fence(
      std::memory_order_release);  // sync: entry-taken; the lap is even before what follows
  new (&entry) Entry{};
  entry.lap.store(lap, std::memory_order_relaxed);
  entry.kind = static_cast<std::uint32_t>(kind);
  entry.opened_ns = os::realtime_ns();
  copy_cut(address, entry.address, sizeof entry.address);
  copy_cut(name, entry.name, sizeof entry.name);
}

void give_back(Entry* entry) noexcept {
  if (os::forked()) return;
  World& w = world();
  const std::lock_guard lock(w.mutex);
  entry->lap.fetch_add(1, std::memory_order_release);  // sync: entry-taken; now even
  const auto index = static_cast<std::size_t>(entry - w.entries);
  w.free[index / 64] |= std::uint64_t{1} << index % 64;
}

Entry* take_entry() {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  for (std::size_t i = 0; i < w.free.size(); ++i) {
    std::uint64_t& word = w.free[i];
    if (word == 0) continue;
    const auto bit = static_cast<std::size_t>(std::countr_zero(word));
    word &= word - 1;
    return &w.entries[64 * i + bit];
  }
  if (w.fresh == w.entry_count) {
    add(w.head->unlisted, 1);
    return nullptr;
  }
  Entry* entry = &w.entries[w.fresh++];
  set(w.head->entries_used, w.fresh);
  return entry;
}

}  // namespace

ProcessCounters& process() noexcept { return world().head->process; }

std::shared_ptr<Entry> open_entry(EntryKind kind, const char* address, const char* name) {
  Entry* entry = take_entry();
  if (entry == nullptr) {
    auto unseen = std::make_shared<Entry>();
    begin(*unseen, kind, address, name);
    return unseen;
  }
  begin(*entry, kind, address, name);
  entry->lap.fetch_add(1, std::memory_order_release);  // sync: entry-taken; now odd
  return {entry, give_back};
}

}  // namespace lwmq::stats
