// Processors with an instruction for it need three cycles for eight bytes, and can begin with the next ones
// in each cycle. So three neighbouring blocks are summed at once, and their sums put together: that of the
// first block is multiplied by x to the number of bits behind it, and so is that of the second one. See Gopal
// et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction" (Intel, 2011).
#include "base/crc32c.h"

#include <array>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace lwmq {
namespace {

// Polynomials over two elements, the highest power in the lowest bit.
constexpr std::uint32_t kPolynomial = 0x82f63b78;
constexpr std::uint32_t kOne = 0x80000000;

constexpr std::uint32_t times_x(std::uint32_t value) noexcept {
  return (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
}

constexpr std::array<std::uint32_t, 256> make_table() noexcept {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = times_x(table[i]);
  }
  return table;
}

std::uint32_t by_table(std::uint32_t state, const std::uint8_t* data, std::size_t bytes) noexcept {
  static constexpr auto kTable = make_table();
  for (std::size_t i = 0; i < bytes; ++i) state = kTable[(state ^ data[i]) & 0xff] ^ (state >> 8);
  return state;
}

#ifdef __x86_64__
constexpr std::size_t kBlockBytes = 512;

// What `behind` multiplies with to append `bytes` zero bytes. The product of two reflected numbers and the
// instruction together multiply by x to the 33 besides.
constexpr std::uint32_t factor(std::size_t bytes) noexcept {
  std::uint32_t value = kOne;
  for (std::size_t i = 0; i < 8 * bytes - 33; ++i) value = times_x(value);
  return value;
}

std::uint64_t load(const std::uint8_t* data) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, data, sizeof word);
  return word;
}

[[gnu::target("sse4.2,pclmul")]] std::uint32_t behind(std::uint64_t state, std::uint32_t factor) noexcept {
  const __m128i product =
      _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<std::int64_t>(state)), _mm_cvtsi64_si128(factor), 0);
  return static_cast<std::uint32_t>(_mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(product))));
}

[[gnu::target("sse4.2,pclmul")]] std::uint32_t by_instruction(std::uint32_t state, const std::uint8_t* data,
                                                              std::size_t bytes) noexcept {
  static constexpr std::uint32_t kOneBlock = factor(kBlockBytes), kTwoBlocks = factor(2 * kBlockBytes);
  std::uint64_t first = state;
  for (; bytes >= 3 * kBlockBytes; bytes -= 3 * kBlockBytes, data += 3 * kBlockBytes) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kBlockBytes; i += 8) {
      first = _mm_crc32_u64(first, load(data + i));
      second = _mm_crc32_u64(second, load(data + kBlockBytes + i));
      third = _mm_crc32_u64(third, load(data + 2 * kBlockBytes + i));
    }
    first = behind(first, kTwoBlocks) ^ behind(second, kOneBlock) ^ third;
  }
  for (; bytes >= 8; bytes -= 8, data += 8) first = _mm_crc32_u64(first, load(data));
  auto last = static_cast<std::uint32_t>(first);
  for (; bytes > 0; --bytes, ++data) last = _mm_crc32_u8(last, *data);
  return last;
}

bool has_instruction() noexcept {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0 && __builtin_cpu_supports("pclmul") != 0;
  return has;
}
#endif

}  // namespace

std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t bytes) noexcept {
  const auto* at = static_cast<const std::uint8_t*>(data);
#ifdef __x86_64__
  if (has_instruction()) return ~by_instruction(~crc, at, bytes);
#endif
  return ~by_table(~crc, at, bytes);
}

}  // namespace lwmq
