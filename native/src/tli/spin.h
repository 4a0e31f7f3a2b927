// How long a thread looks before it sleeps.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lwmq::tli {

// A glance costs some 15 ns with its pause: together about 45 µs, what a sleep and a wake-up cost on a
// virtual core (FLOORS.md, finding 4). Longer would take the core from the peer where there are only two.
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
  template <typename Ready>
  bool spin_until(Ready&& ready) noexcept {
    if (!tli::spin_until(ready, glances_)) return false;
    glances_ = std::min(kSpinGlances, glances_ * 2);
    return true;
  }
  void slept(std::int64_t ns) noexcept {
    glances_ = ns < kShortSleepNs ? kSpinGlances : std::max(kGlancesMin, glances_ / 2);
  }

 private:
  // Two wake-ups: while both sides sleep between their messages, each sees the other's as well as its own.
  static constexpr std::int64_t kShortSleepNs = 120'000;
  static constexpr std::uint32_t kGlancesMin = kSpinGlances / 32;

  std::uint32_t glances_ = kSpinGlances;
};

}  // namespace lwmq::tli
