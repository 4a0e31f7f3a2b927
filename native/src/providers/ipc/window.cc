#include "providers/ipc/window.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>

#include "os/identity.h"
#include "os/memory_budget.h"
#include "stats/process_counters.h"

namespace lwmq::ipc {
namespace {

// Never destroyed: threads may outlive main.
struct Table {
  std::mutex mutex;
  std::map<std::string, Window*>
      by_id;  // under the mutex; entries whose last reference is gone are on their way out
};

Table& table() noexcept {
  static auto* instance = new Table;
  return *instance;
}

std::string key_of(const std::uint8_t id[16]) { return {reinterpret_cast<const char*>(id), 16}; }

}  // namespace

bool Window::owner_alive() const noexcept {
  if (os::forked()) return false;
  return owner_ == nullptr || owner_->alive();
}

bool Window::try_keep() noexcept {
  std::uint32_t seen = references_.load(std::memory_order_relaxed);
  while (seen != 0) {
    if (references_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return true;
  }
  return false;
}

void Window::release() noexcept {
  if (os::forked())
    return;  // a copy of the parent's handle; the table's lock may be held by a thread that is not here
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  {
    const std::lock_guard lock(table().mutex);
    const auto found = table().by_id.find(key_of(info_.id));
    if (found != table().by_id.end() && found->second == this) table().by_id.erase(found);
  }
  if (info_.owned != 0) {
    os::give_back_window_memory(info_.bytes);
    stats::subtract(stats::process().window_bytes, info_.bytes);
  } else {
    stats::subtract(stats::process().mapped_bytes, info_.bytes);
  }
  delete this;
}

Status create_window(std::uint64_t bytes, Window** out_window) {
  if (bytes == 0 || bytes > kBufferBytesMax) {
    return fail(LWMQ_E_INVALID, "a window of %" PRIu64 " bytes; possible are 1 to %" PRIu64, bytes,
                kBufferBytesMax);
  }
  if (const Status status = wait_until_held(); status != LWMQ_OK) return status;
  if (const Status status = os::reserve_window_memory(bytes); status != LWMQ_OK) return status;
  os::Segment segment;
  if (const Status status = os::create_segment("lwmq-window", bytes, &segment); status != LWMQ_OK) {
    os::give_back_window_memory(bytes);
    return status;
  }
  lwmq_tli_window_info info{};
  os::random_bytes(info.id, sizeof info.id);
  info.base = segment.memory.data();
  info.bytes = bytes;
  info.owned = 1;
  info.owner_pid = os::identity().pid;
  std::memcpy(info.owner, os::identity().instance, sizeof info.owner);
  auto* window = new (std::nothrow) Window(info, std::move(segment.fd), std::move(segment.memory), nullptr);
  if (window == nullptr) {
    os::give_back_window_memory(bytes);
    return fail(LWMQ_E_NO_MEMORY, "no memory for a window's handle");
  }
  stats::add(stats::process().window_bytes, bytes);
  const std::lock_guard lock(table().mutex);
  table().by_id[key_of(info.id)] = window;
  *out_window = window;
  return LWMQ_OK;
}

Status find_mapped_window(const std::uint8_t id[16], Window** out_window) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().by_id.find(key_of(id));
  if (found == table().by_id.end() || !found->second->try_keep()) return LWMQ_E_EMPTY;
  *out_window = found->second;
  return LWMQ_OK;
}

bool is_window_mapped(const std::uint8_t id[16]) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().by_id.find(key_of(id));
  return found != table().by_id.end() && found->second->is_kept();
}

Status map_window(ShownWindow shown, Window** out_window) {
  const WindowNotice& notice = shown.notice;
  if (find_mapped_window(notice.id, out_window) == LWMQ_OK) return LWMQ_OK;
  os::Mapping memory;
  // Not populated: faults on first use map 16 pages each and cost half of what MADV_POPULATE_READ does.
  if (const Status status = os::map_foreign_segment(shown.fd.get(), notice.bytes, os::Populate::kNo, &memory);
      status != LWMQ_OK) {
    return status;
  }
  lwmq_tli_window_info info{};
  std::memcpy(info.id, notice.id, sizeof info.id);
  std::memcpy(info.owner, notice.owner, sizeof info.owner);
  info.base = memory.data();
  info.bytes = notice.bytes;
  info.owner_pid = notice.owner_pid;
  auto* window =
      new (std::nothrow) Window(info, std::move(shown.fd), std::move(memory), std::move(shown.owner));
  if (window == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for a window's handle");
  stats::add(stats::process().mapped_bytes, info.bytes);
  Window* existing = nullptr;
  {
    const std::lock_guard lock(table().mutex);
    Window*& slot = table().by_id[key_of(info.id)];
    if (slot != nullptr && slot->try_keep()) {
      existing = slot;  // another thread was faster
    } else {
      slot = window;
    }
  }
  if (existing != nullptr) window->release();
  *out_window = existing != nullptr ? existing : window;
  return LWMQ_OK;
}

}  // namespace lwmq::ipc
