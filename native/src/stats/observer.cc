#include "stats/observer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "os/clock.h"
#include "os/unique_fd.h"

namespace lwmq::stats {
namespace {

constexpr std::uint64_t kForeignPageBytesMax = 64 * kMiB;  // of other versions
constexpr int kCopyAttempts = 4;

using Path = char[64];

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

// The number that a name in /proc is; -1 where it is none.
int number_of(const char* name) noexcept {
  char* end = nullptr;
  const long number = std::strtol(name, &end, 10);
  return end == name || *end != '\0' || number < 0 || number > INT32_MAX ? -1 : static_cast<int>(number);
}

// Control characters, which a terminal would obey, become question marks.
void copy_text(const char* from, char* to, std::size_t room) noexcept {
  const std::size_t length = strnlen(from, room - 1);
  for (std::size_t i = 0; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(from[i]);
    to[i] = byte < 0x20 || byte == 0x7f ? '?' : from[i];
  }
  to[length] = '\0';
}

std::uint64_t since(std::uint64_t then_ns, std::int64_t now_ns) noexcept {
  const auto now = static_cast<std::uint64_t>(now_ns);
  return then_ns == 0 ? 0 : std::max<std::uint64_t>(now > then_ns ? now - then_ns : 0, 1);
}

// The file behind a descriptor of another process; 0 where we may not know, or it is none of ours.
std::uint64_t page_inode(std::uint32_t pid, int fd) noexcept {
  Path path;
  char target[64];
  std::snprintf(path, sizeof path, "/proc/%u/fd/%d", pid, fd);
  const ssize_t length = readlink(path, target, sizeof target);
  constexpr std::string_view kPrefix = "/memfd:lwmq-stats";
  if (length < static_cast<ssize_t>(kPrefix.size()) || std::string_view(target, kPrefix.size()) != kPrefix)
    return 0;
  struct stat status {};
  return stat(path, &status) == 0 ? status.st_ino : 0;
}

bool map_page(std::uint32_t pid, int fd, SeenProcess* out_process) noexcept {
  Path path;
  std::snprintf(path, sizeof path, "/proc/%u/fd/%d", pid, fd);
  const os::UniqueFd page(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!page || fstat(page.get(), &status) != 0) return false;
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes < kHeadBytesMin || bytes > kForeignPageBytesMax) return false;
  if (os::map_foreign_segment(page.get(), bytes, os::Populate::kNo, &out_process->page) != LWMQ_OK)
    return false;
  out_process->fd = fd;
  out_process->inode = status.st_ino;
  return true;
}

// The process's page, if it has one that we may see.
bool find_page(std::uint32_t pid, SeenProcess* out_process) noexcept {
  Path path;
  std::snprintf(path, sizeof path, "/proc/%u/fd", pid);
  const Directory directory(opendir(path));
  while (directory) {
    const dirent* at = readdir(directory.get());
    if (at == nullptr) break;
    const int fd = number_of(at->d_name);
    if (fd >= 0 && page_inode(pid, fd) != 0 && map_page(pid, fd, out_process)) return true;
  }
  return false;
}

const PageHead& head_of(const SeenProcess& process) noexcept {
  return *reinterpret_cast<const PageHead*>(process.page.data());
}

// A field of another process's memory, loaded exactly once.
template <typename T>
T load_once(const T& field) noexcept {
  return __atomic_load_n(&field, __ATOMIC_RELAXED);
}

// Whether the page has a layout that this library reads; notes its sizes.
bool check_head(const PageHead& head, SeenProcess& process) noexcept {
  const std::uint64_t bytes = process.page.bytes();
  process.head_bytes = load_once(head.head_bytes);
  process.entry_bytes = load_once(head.entry_bytes);
  const bool sizes_fit = process.head_bytes >= kHeadBytesMin && process.head_bytes <= bytes &&
                         process.entry_bytes >= kEntryBytesMin && process.head_bytes % alignof(Entry) == 0 &&
                         process.entry_bytes % alignof(Entry) == 0;
  return sizes_fit && load_once(head.magic) == kPageMagic && process.view.page_version == kPageVersion &&
         load_once(head.page_bytes) == bytes;
}

// Copies those counters of `source`, a head or an entry of `source_bytes` bytes, that its version has.
#define LWMQ_COPY_COUNTER(name, ...) \
  if (offsetof(Source, name) + sizeof(Counter) <= source_bytes) view.name = get(source.name);

void read_process_counters(const ProcessCounters& source, std::size_t source_bytes,
                           lwmq_process_view& view) noexcept {
  using Source = ProcessCounters;
  LWMQ_PROCESS_COUNTERS(LWMQ_COPY_COUNTER)
}

void read_entry_counters(const Entry& source, std::size_t source_bytes, lwmq_entry_view& view) noexcept {
  using Source = Entry;
  LWMQ_ENTRY_COUNTERS(LWMQ_COPY_COUNTER)
}

void read_head(SeenProcess& process) noexcept {
  const PageHead& head = head_of(process);
  lwmq_process_view& view = process.view;
  view.page_version = load_once(head.version);
  view.known = check_head(head, process);
  if (view.known == 0) return;
  copy_text(head.library, view.library, sizeof view.library);
  view.unlisted = get(head.unlisted);
  read_process_counters(head.process, process.head_bytes - offsetof(PageHead, process), view);
}

void read_entries(SeenProcess& process, std::int64_t now_ns) {
  process.entries.clear();
  if (process.view.known == 0) return;
  const std::uint8_t* entries = process.page.data() + process.head_bytes;
  const std::uint64_t room = (process.page.bytes() - process.head_bytes) / process.entry_bytes;
  const std::uint64_t used = std::min(get(head_of(process).entries_used), room);
  for (std::uint64_t i = 0; i < used; ++i) {
    const auto* entry = reinterpret_cast<const Entry*>(entries + i * process.entry_bytes);
    lwmq_entry_view view{};
    if (copy_entry(*entry, process.entry_bytes, now_ns, &view)) process.entries.push_back(view);
  }
  process.view.entry_count = process.entries.size();
}

void copy_latencies(const Latencies& latencies, lwmq_entry_view& view) noexcept {
  static_assert(sizeof view.took == sizeof latencies.counts);
  view.took_ns = get(latencies.sum_ns);
  for (std::size_t i = 0; i < kLatencySteps; ++i) view.took[i] = get(latencies.counts[i]);
}

}  // namespace

bool copy_entry(const Entry& entry, std::uint32_t entry_bytes, std::int64_t now_ns,
                lwmq_entry_view* out_view) noexcept {
  for (int attempt = 0; attempt < kCopyAttempts; ++attempt) {
    const std::uint32_t lap = entry.lap.load(std::memory_order_acquire);  // sync: entry-taken
    if (lap % 2 == 0) return false;
    lwmq_entry_view& view = *out_view;
    view = {};
    view.size = sizeof view;
    view.kind = entry.kind;
    view.flags = static_cast<std::uint32_t>(get(entry.flags));
    view.opened_ns = entry.opened_ns;
    copy_text(entry.address, view.address, sizeof view.address);
    copy_text(entry.name, view.name, sizeof view.name);
    if (view.kind == static_cast<std::uint32_t>(EntryKind::kLatency)) {
      copy_latencies(latencies_of(entry), view);
    } else {
      view.waiting_ns = since(get(entry.waiting_since_ns), now_ns);
      view.unmoved_ns = since(get(entry.moved_ns), now_ns);
      read_entry_counters(entry, entry_bytes, view);
    }
    std::atomic_thread_fence(std::memory_order_acquire);                // the copy before the second look
    if (entry.lap.load(std::memory_order_relaxed) == lap) return true;  // sync: entry-taken
  }
  return false;
}

bool counter_at(std::uint32_t index, lwmq_counter* out_counter) noexcept {
  constexpr std::uint32_t FLOW = LWMQ_COUNTER_FLOW, TOTAL = LWMQ_COUNTER_TOTAL, LEVEL = LWMQ_COUNTER_LEVEL,
                          NUMBER = LWMQ_COUNTER_NUMBER;
  constexpr std::uint32_t PROCESS = 1, WRITER = 1 << LWMQ_ENTRY_WRITER, READER = 1 << LWMQ_ENTRY_READER,
                          ENDPOINT = 1 << LWMQ_ENTRY_ENDPOINT, CHANNEL = 1 << LWMQ_ENTRY_CHANNEL,
                          QUEUE = 1 << LWMQ_ENTRY_QUEUE, LISTENER = 1 << LWMQ_ENTRY_LISTENER;
#define LWMQ_DESCRIBE_COUNTER(name, type, owners, help) {sizeof(lwmq_counter), #name, help, type, owners},
  static constexpr lwmq_counter kAll[] = {LWMQ_PROCESS_COUNTERS(LWMQ_DESCRIBE_COUNTER)
                                              LWMQ_ENTRY_COUNTERS(LWMQ_DESCRIBE_COUNTER)};
  if (index >= std::size(kAll)) return false;
  *out_counter = kAll[index];
  return true;
}

Status Observer::look() {
  const Directory proc(opendir("/proc"));
  if (!proc) return fail_errno(LWMQ_E_SYSTEM, errno, "opendir(/proc)");
  std::vector<SeenProcess> now;
  while (const dirent* at = readdir(proc.get())) {
    const int number = number_of(at->d_name);
    if (number <= 0) continue;
    const auto pid = static_cast<std::uint32_t>(number);
    const auto known = std::find_if(processes_.begin(), processes_.end(),
                                    [pid](const SeenProcess& process) { return process.view.pid == pid; });
    SeenProcess process;
    if (known != processes_.end() && page_inode(pid, known->fd) == known->inode) {
      process = std::move(*known);
    } else if (!find_page(pid, &process)) {
      continue;
    }
    process.view.size = sizeof process.view;
    process.view.pid = pid;
    Path path;
    std::snprintf(path, sizeof path, "/proc/%u", pid);
    struct stat status {};
    if (stat(path, &status) == 0) process.view.uid = status.st_uid;
    read_head(process);
    read_entries(process, os::now_ns());
    now.push_back(std::move(process));
  }
  std::sort(now.begin(), now.end(),
            [](const SeenProcess& a, const SeenProcess& b) { return a.view.pid < b.view.pid; });
  processes_ = std::move(now);
  return LWMQ_OK;
}

}  // namespace lwmq::stats
