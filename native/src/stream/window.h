// A reference to a window: memory that its owner writes and other processes map read-only.
//
// The provider's calls for windows are used here and in link.cc, and nowhere else in this folder.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::stream {

class Window {
 public:
  Window() noexcept = default;
  // Takes one reference to `window`.
  Window(const lwmq_tli_provider* provider, lwmq_tli_window* window) noexcept
      : provider_(provider), window_(window) {
    provider->memory->info(window, &info_);
  }
  Window(Window&& other) noexcept
      : provider_(other.provider_), window_(std::exchange(other.window_, nullptr)), info_(other.info_) {}
  Window& operator=(Window&& other) noexcept {
    std::swap(provider_, other.provider_);
    std::swap(window_, other.window_);
    std::swap(info_, other.info_);
    return *this;
  }
  ~Window() {
    if (window_ != nullptr) provider_->memory->release(window_);
  }

  // Makes a window of this process, zeroed. LWMQ_E_NO_MEMORY with the numbers of the limit.
  static Status create(const lwmq_tli_provider* provider, std::uint64_t bytes, Window* out_window) {
    lwmq_tli_window* made = nullptr;
    const Status status = provider->memory->create(bytes, &made);
    if (status == LWMQ_OK) *out_window = Window(provider, made);
    return status;
  }
  // A further reference.
  [[nodiscard]] Window share() const noexcept {
    provider_->memory->keep(window_);
    return {provider_, window_};
  }

  explicit operator bool() const noexcept { return window_ != nullptr; }
  [[nodiscard]] lwmq_tli_window* get() const noexcept { return window_; }
  [[nodiscard]] std::uint8_t* base() const noexcept { return info_.base; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return window_ == nullptr ? 0 : info_.bytes; }
  [[nodiscard]] std::uint32_t owner_pid() const noexcept { return info_.owner_pid; }
  [[nodiscard]] bool is_own() const noexcept { return info_.owned != 0; }
  [[nodiscard]] bool owner_lives() const noexcept { return provider_->memory->owner_alive(window_) != 0; }
  // Whether both are references to one window.
  [[nodiscard]] bool is(const Window& other) const noexcept {
    return std::memcmp(info_.id, other.info_.id, sizeof info_.id) == 0;
  }
  // By which a message names the window.
  void copy_id(std::uint8_t out_id[16]) const noexcept { std::memcpy(out_id, info_.id, sizeof info_.id); }

 private:
  const lwmq_tli_provider* provider_ = nullptr;
  lwmq_tli_window* window_ = nullptr;
  lwmq_tli_window_info info_{};
};

}  // namespace lwmq::stream
