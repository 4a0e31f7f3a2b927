// What this process holds open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iterator>

namespace lwmq {

// With the one that counts them, so only differences mean something.
inline std::uint64_t open_descriptors() {
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return static_cast<std::uint64_t>(std::distance(begin(descriptors), end(descriptors)));
}

}  // namespace lwmq
