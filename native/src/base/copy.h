// A copy of few bytes without a call: for the small messages, where a call and its way through the sizes cost
// as much as the bytes.
#pragma once

#include <cstdint>
#include <cstring>

namespace lwmq {

// Where a call is no more than the bytes.
inline constexpr std::uint64_t kCopyInlineMax = 128;

namespace internal {

// From the front and from the back, which may overlap: any number of bytes from kHalf to 2 * kHalf. Nothing
// of them stays on the stack: they may be a secret.
template <std::uint64_t kHalf>
[[gnu::always_inline]] inline void copy_two(std::uint8_t* to, const std::uint8_t* from,
                                            std::uint64_t bytes) noexcept {
  std::memcpy(to, from, kHalf);
  std::memcpy(to + bytes - kHalf, from + bytes - kHalf, kHalf);
}

}  // namespace internal

// As memcpy, but that nothing may be at NULL.
[[gnu::always_inline]] inline void copy_bytes(std::uint8_t* to, const void* data,
                                              std::uint64_t bytes) noexcept {
  const auto* from = static_cast<const std::uint8_t*>(data);
  if (bytes > kCopyInlineMax) {
    std::memcpy(to, from, bytes);
  } else if (bytes > 64) {
    internal::copy_two<64>(to, from, bytes);
  } else if (bytes > 32) {
    internal::copy_two<32>(to, from, bytes);
  } else if (bytes >= 16) {
    internal::copy_two<16>(to, from, bytes);
  } else if (bytes >= 8) {
    internal::copy_two<8>(to, from, bytes);
  } else if (bytes >= 4) {
    internal::copy_two<4>(to, from, bytes);
  } else {
    for (std::uint64_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

// The same of bytes that are read next: a read that spans several stores waits until they have left for the
// cache, and none is wider than those of libc.
[[gnu::always_inline]] inline void copy_bytes_to_read(std::uint8_t* to, const void* data,
                                                      std::uint64_t bytes) noexcept {
  if (bytes >= 64) {
    std::memcpy(to, data, bytes);
  } else {
    copy_bytes(to, data, bytes);
  }
}

}  // namespace lwmq
