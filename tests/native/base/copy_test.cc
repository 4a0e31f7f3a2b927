#include "base/copy.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace lwmq {
namespace {

TEST(CopyBytes, CopiesThatManyAndNoMore) {
  constexpr std::uint64_t kMost = 2 * kCopyInlineMax + 1;
  constexpr std::uint8_t kUntouched = 0xee;
  std::array<std::uint8_t, kMost + 8> from{};
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 37 + 1);
  for (std::uint64_t bytes = 0; bytes <= kMost; ++bytes) {
    for (std::uint64_t start = 0; start < 8; ++start) {
      std::array<std::uint8_t, kMost + 16> to{};
      to.fill(kUntouched);
      copy_bytes(to.data() + start, from.data() + 7 - start, bytes);
      for (std::uint64_t i = 0; i < to.size(); ++i) {
        const bool inside = i >= start && i < start + bytes;
        ASSERT_EQ(to[i], inside ? from[7 - start + i - start] : kUntouched) << bytes << " bytes, at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace lwmq
