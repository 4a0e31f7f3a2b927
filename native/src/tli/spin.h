// How long a thread looks before it sleeps.
#pragma once

#include <cstdint>

namespace lwmq::tli {

// A glance costs some 15 ns with its pause: together about 30 µs, what a sleep and a wake-up cost on a
// virtual core (FLOORS.md, finding 4). Longer would take the core from the peer where there are only two.
inline constexpr std::uint32_t kSpinGlances = 2000;

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

}  // namespace lwmq::tli
