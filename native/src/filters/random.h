// Numbers for filters that leave something to chance: the same for the same seed, on every machine.
#pragma once

#include <cstdint>

namespace lwmq::filters {

// splitmix64.
class Random {
 public:
  // The two ways of a transport differ.
  Random(std::uint64_t seed, std::uint32_t way) noexcept : state_(seed * 2 + way) {}

  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // True in `share` of all cases.
  bool chance(double share) noexcept { return static_cast<double>(next() >> 11) * 0x1p-53 < share; }
  // 0 .. below-1; 0 where below is 0.
  std::uint64_t below(std::uint64_t limit) noexcept { return limit == 0 ? 0 : next() % limit; }

 private:
  std::uint64_t state_;
};

}  // namespace lwmq::filters
