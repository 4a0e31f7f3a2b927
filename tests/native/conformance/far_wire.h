// What the ends of a far:// transport say before their ranges (lane/mirror.h): hello, hello, met.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lwmq::far {

inline constexpr std::uint32_t kMagic = 0x52414671;  // "qFAR"
inline constexpr std::uint32_t kMet = 0x4d455421;
inline constexpr std::size_t kNameBytesMax = 80;

// The listener's may be a refusal: then it says which and why, and the socket closes.
struct Hello {
  std::uint32_t magic;
  std::uint32_t version;
  std::int32_t refusal;  // LWMQ_E_*
  std::uint32_t purpose;
  std::uint64_t buffer_bytes;
  std::uint32_t buffers;
  std::uint32_t channel;
  std::uint8_t instance[16];
  char label[32];  // what the peer calls us in its texts, ends in 0
  char why[176];
};
static_assert(sizeof(Hello) == 256);

}  // namespace lwmq::far
