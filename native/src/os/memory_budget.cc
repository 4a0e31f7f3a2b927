#include "os/memory_budget.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/limits.h"
#include "os/unique_fd.h"

namespace lwmq::os {
namespace {

constexpr std::uint64_t kNotLookedUp = kMiB;
constexpr std::size_t kPathBytes = 512;
constexpr std::size_t kFileBytes = 8192;
// cgroup v1 says "no limit" by a number close to the largest.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

std::atomic<std::uint64_t> held{0};        // by any thread
std::atomic<std::uint64_t> budget_set{0};  // by set_window_memory; 0: the default

bool read_file(const char* path, char (&out)[kFileBytes]) noexcept {
  UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
  if (!fd) return false;
  std::size_t used = 0;
  while (used < kFileBytes - 1) {
    const ssize_t got = read(fd.get(), out + used, kFileBytes - 1 - used);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    used += static_cast<std::size_t>(got);
  }
  out[used] = '\0';
  return used > 0;
}

// The number behind `key` at the beginning of a line; 0 when there is none.
std::uint64_t number_after(const char* text, const char* key) noexcept {
  const std::size_t length = std::strlen(key);
  for (const char* line = text; line != nullptr && *line != '\0';) {
    if (std::strncmp(line, key, length) == 0) return std::strtoull(line + length, nullptr, 10);
    line = std::strchr(line, '\n');
    if (line != nullptr) ++line;
  }
  return 0;
}

void tighten(MemoryRoom* room, std::uint64_t free_bytes, const char* where) noexcept {
  if (free_bytes >= room->free_bytes) return;
  room->free_bytes = free_bytes;
  std::snprintf(room->where, sizeof room->where, "%s", where);
}

struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* inactive_key;  // in memory.stat: page cache that the kernel gives back before it kills
};
constexpr CgroupFiles kV2{"memory.max", "memory.current", "inactive_file "};
constexpr CgroupFiles kV1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};

void tighten_by_cgroup(MemoryRoom* room, const char* directory, const CgroupFiles& files) noexcept {
  char path[2 * kPathBytes];
  char text[kFileBytes];
  std::snprintf(path, sizeof path, "%s/%s", directory, files.limit);
  if (!read_file(path, text) || std::strncmp(text, "max", 3) == 0) return;
  const std::uint64_t limit = std::strtoull(text, nullptr, 10);
  if (limit >= kNoLimit) return;
  char where[sizeof room->where];
  std::snprintf(where, sizeof where, "%.*s", static_cast<int>(sizeof where - 1), path);
  std::snprintf(path, sizeof path, "%s/%s", directory, files.usage);
  const std::uint64_t usage = read_file(path, text) ? std::strtoull(text, nullptr, 10) : 0;
  std::snprintf(path, sizeof path, "%s/memory.stat", directory);
  const std::uint64_t inactive = read_file(path, text) ? number_after(text, files.inactive_key) : 0;
  const std::uint64_t taken = usage > inactive ? usage - inactive : 0;
  tighten(room, limit > taken ? limit - taken : 0, where);
}

// Every directory from `mount`/`path` up to `mount`. Inside a container the upper ones may be out of sight.
void walk_up(MemoryRoom* room, const char* mount, const char* path, const CgroupFiles& files) noexcept {
  char directory[kPathBytes];
  const int used = std::snprintf(directory, sizeof directory, "%s%s", mount, path);
  if (used < 0 || static_cast<std::size_t>(used) >= sizeof directory) return;
  for (;;) {
    tighten_by_cgroup(room, directory, files);
    char* slash = std::strrchr(directory, '/');
    if (slash == nullptr || static_cast<std::size_t>(slash - directory) < std::strlen(mount)) return;
    *slash = '\0';
  }
}

// One line of /proc/self/cgroup: "0::/path" (v2) or "5:memory:/path" (v1).
void tighten_by_line(MemoryRoom* room, const char* cgroup_root, char* line) noexcept {
  char* controllers = std::strchr(line, ':');
  if (controllers == nullptr) return;
  char* path = std::strchr(controllers + 1, ':');
  if (path == nullptr) return;
  *path++ = '\0';
  ++controllers;
  char mount[kPathBytes];
  if (*controllers == '\0') {
    walk_up(room, cgroup_root, path, kV2);
    std::snprintf(mount, sizeof mount, "%s/unified", cgroup_root);
    walk_up(room, mount, path, kV2);
  } else if (std::strstr(controllers, "memory") != nullptr) {
    std::snprintf(mount, sizeof mount, "%s/memory", cgroup_root);
    walk_up(room, mount, path, kV1);
  }
}

MemoryRoom current_room() noexcept { return read_memory_room("/proc", "/sys/fs/cgroup"); }

}  // namespace

MemoryRoom read_memory_room(const char* proc_root, const char* cgroup_root) noexcept {
  MemoryRoom room;
  char path[kPathBytes];
  char text[kFileBytes];
  std::snprintf(path, sizeof path, "%s/meminfo", proc_root);
  if (read_file(path, text)) tighten(&room, number_after(text, "MemAvailable:") * kKiB, "MemAvailable");
  std::snprintf(path, sizeof path, "%s/self/cgroup", proc_root);
  if (!read_file(path, text)) return room;
  for (char* line = text; line != nullptr && *line != '\0';) {
    char* end = std::strchr(line, '\n');
    if (end != nullptr) *end++ = '\0';
    tighten_by_line(&room, cgroup_root, line);
    line = end;
  }
  return room;
}

Status check_room(std::uint64_t bytes) noexcept {
  if (bytes <= kNotLookedUp) return LWMQ_OK;
  const MemoryRoom room = current_room();
  if (bytes <= room.free_bytes) return LWMQ_OK;
  return fail(LWMQ_E_NO_MEMORY, "a segment of %" PRIu64 " bytes does not fit: %s leaves %" PRIu64 " bytes",
              bytes, room.where, room.free_bytes);
}

Status reserve_window_memory(std::uint64_t bytes) noexcept {
  const std::uint64_t limit = window_memory_budget();
  std::uint64_t now = held.load(std::memory_order_relaxed);
  do {
    if (now > limit || bytes > limit - now) {
      return fail(LWMQ_E_NO_MEMORY,
                  "a window of %" PRIu64 " bytes does not fit: this process holds %" PRIu64 " of the %" PRIu64
                  " bytes that it may hold in windows (half of what was free at its start, or "
                  "lwmq_set_window_memory). Ways "
                  "out: smaller windows, fewer writers, more memory",
                  bytes, now, limit);
    }
  } while (
      !held.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));  // a counter: orders nothing
  return LWMQ_OK;
}

void give_back_window_memory(std::uint64_t bytes) noexcept {
  held.fetch_sub(bytes, std::memory_order_relaxed);
}

std::uint64_t window_memory_held() noexcept { return held.load(std::memory_order_relaxed); }

std::uint64_t window_memory_budget() noexcept {
  const std::uint64_t set = budget_set.load(std::memory_order_relaxed);
  if (set != 0) return set;
  static const std::uint64_t by_default = current_room().free_bytes / 2;
  return by_default;
}

void set_window_memory(std::uint64_t bytes_max) noexcept {
  budget_set.store(bytes_max, std::memory_order_relaxed);
}

}  // namespace lwmq::os
