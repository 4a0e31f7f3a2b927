// How long a thread looks before it sleeps.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lwmq::os {

// A glance costs some 15 ns with its pause: together about 45 µs, what a sleep and a wake-up cost on a
// virtual core. Longer would take the core from the peer where there are only two.
inline constexpr std::uint32_t kSpinGlances = 3000;

inline void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// True as soon as `ready` answers so; false when it was asked often enough.
template <typename Ready>
bool spin_until(Ready&& ready, std::uint32_t glances = kSpinGlances) noexcept {
  for (std::uint32_t i = 0; i < glances; ++i) {
    if (ready()) return true;
    pause();
  }
  return false;
}

// One thread's looks before its sleeps. They pay while the peer answers within the time of a wake-up; where
// it does not, less and less of them.
class Glances {
 public:
  // For buffers of `bytes` bytes, which the peer writes or reads whole before we hear of it: that takes
  // longer than a wake-up where they are large, and whoever slept meanwhile would begin it with a cold core.
  void expect_buffers(std::uint64_t bytes) noexcept {
    const std::uint64_t whole = std::min(bytes, kBytesExpectedMax);
    most_ = glances_ = kSpinGlances + static_cast<std::uint32_t>(whole / kBytesPerGlance);
    short_sleep_ns_ = kShortSleepNs + static_cast<std::int64_t>(whole / kBytesPerNs);
  }

  template <typename Ready>
  bool spin_until(Ready&& ready) noexcept {
    if (!os::spin_until(ready, glances_)) return false;
    glances_ = std::min(most_, glances_ * 2);
    return true;
  }
  void slept(std::int64_t ns) noexcept {
    glances_ = ns < short_sleep_ns_ ? most_ : std::max(kGlancesMin, glances_ / 2);
  }

  // How many it has at the next wait, for tests.
  [[nodiscard]] std::uint32_t glances() const noexcept { return glances_; }

 private:
  // Two wake-ups: while both sides sleep between their messages, each sees the other's as well as its own.
  static constexpr std::int64_t kShortSleepNs = 120'000;
  static constexpr std::uint32_t kGlancesMin = kSpinGlances / 32;
  // One core writes or reads some 8 GB/s of what another one has had; a slower peer is not waited for so.
  static constexpr std::uint64_t kBytesPerGlance = 128;
  static constexpr std::uint64_t kBytesPerNs = 8;
  static constexpr std::uint64_t kBytesExpectedMax = std::uint64_t{16} << 20;

  std::uint32_t most_ = kSpinGlances;
  std::uint32_t glances_ = kSpinGlances;
  std::int64_t short_sleep_ns_ = kShortSleepNs;
};

}  // namespace lwmq::os
