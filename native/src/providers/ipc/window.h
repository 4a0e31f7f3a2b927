// Windows: memory of ours that peers read where it lies, and theirs.
//
// A window is one sealed segment without a header; its id, size and owner travel beside the descriptor. Each
// is mapped once per process, whoever showed it: a process-wide table by id says so, and for our own it leads
// back to the writable mapping. The descriptor stays open as long as the window, so that it can be shown on
// to third processes, and so that it survives its owner.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "os/segment.h"
#include "providers/ipc/layout.h"
#include "providers/ipc/process.h"

namespace lwmq::ipc {

class Window {
 public:
  Window(const lwmq_tli_window_info& info, os::UniqueFd fd, os::Mapping memory,
         std::shared_ptr<PeerProcess> owner) noexcept
      : info_(info), fd_(std::move(fd)), memory_(std::move(memory)), owner_(std::move(owner)) {}

  [[nodiscard]] const lwmq_tli_window_info& info() const noexcept { return info_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] int owner_page_fd() const noexcept {
    return owner_ == nullptr ? own_page_fd() : owner_->fd();
  }
  [[nodiscard]] bool owner_alive() const noexcept;

  void keep() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] bool is_kept() const noexcept { return references_.load(std::memory_order_relaxed) != 0; }
  // Keeps it unless the last reference is gone already.
  [[nodiscard]] bool try_keep() noexcept;
  // The last one unmaps and destroys. Any thread.
  void release() noexcept;

 private:
  ~Window() = default;

  const lwmq_tli_window_info info_;
  const os::UniqueFd fd_;
  const os::Mapping memory_;
  const std::shared_ptr<PeerProcess> owner_;  // null: we are
  std::atomic<std::uint32_t> references_{1};
};

// A window of our own: zeroed, untouched. LWMQ_E_INVALID, LWMQ_E_NO_MEMORY.
Status create_window(std::uint64_t bytes, Window** out_window);

// One that a peer has shown and nobody here has mapped for it yet.
struct ShownWindow {
  WindowNotice notice;
  os::UniqueFd fd;
  std::shared_ptr<PeerProcess> owner;
};

// The window with this id if it is mapped here; keeps it.
Status find_mapped_window(const std::uint8_t id[16], Window** out_window);

// Whether find_mapped_window would find it now.
bool is_window_mapped(const std::uint8_t id[16]);

// Maps what was shown, or keeps the mapping that exists. Takes `shown`.
Status map_window(ShownWindow shown, Window** out_window);

}  // namespace lwmq::ipc
