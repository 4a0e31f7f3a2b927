// A window with one 32-bit lap for each slot of a writer's pool. The endpoint has one for each pool (the
// ledger), and each reader has one for each pool that it reads from (its lease page).
#pragma once

#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <utility>

#include "base/limits.h"
#include "base/status.h"
#include "stream/kept_windows.h"
#include "stream/window.h"

namespace lwmq::stream {

inline constexpr std::uint64_t kLapPageBytes = std::uint64_t{kWindowSlotsMax} * 4;
// The last slot of a lease page is 1 once its reader has let go of everything.
inline constexpr std::uint32_t kFinishedSlot = kWindowSlotsMax - 1;

class LapPage {
 public:
  static Status create(const lwmq_tli_provider* provider, LapPage* out_page) {
    return create_window(provider, kLapPageBytes, &out_page->window_);
  }
  // Takes a window of another process. LWMQ_E_CORRUPT: it has another size.
  static Status adopt(Window window, LapPage* out_page) noexcept {
    if (window.bytes() != kLapPageBytes) {
      return fail(LWMQ_E_CORRUPT, "a page of laps has %" PRIu64 " bytes; %" PRIu64 " were expected",
                  window.bytes(), kLapPageBytes);
    }
    out_page->window_ = std::move(window);
    return LWMQ_OK;
  }

  // A further reference.
  [[nodiscard]] LapPage share() const noexcept {
    LapPage page;
    page.window_ = window_.share();
    return page;
  }

  explicit operator bool() const noexcept { return static_cast<bool>(window_); }
  [[nodiscard]] std::atomic<std::uint32_t>& operator[](std::uint32_t slot) const noexcept {
    return reinterpret_cast<std::atomic<std::uint32_t>*>(window_.base())[slot];
  }
  // Of a lease page: whether its reader may still hold something.
  [[nodiscard]] bool is_in_use() const noexcept {
    return (*this)[kFinishedSlot].load(std::memory_order_acquire) == 0 && window_.owner_lives();
  }
  [[nodiscard]] const Window& window() const noexcept { return window_; }

 private:
  Window window_;
};

}  // namespace lwmq::stream
