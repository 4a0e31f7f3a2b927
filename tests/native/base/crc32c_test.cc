#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace lwmq {
namespace {

// One bit at a time, as the polynomial is defined.
std::uint32_t slowly(std::uint32_t crc, const std::uint8_t* data, std::size_t bytes) {
  crc = ~crc;
  for (std::size_t i = 0; i < bytes; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

TEST(Crc32c, IsThatOfRfc3720) {
  EXPECT_EQ(crc32c(0, "", 0), 0u);
  EXPECT_EQ(crc32c(0, "123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c(0, std::string(32, '\0').data(), 32), 0x8a9136aau);
  EXPECT_EQ(crc32c(0, std::string(32, '\xff').data(), 32), 0x62a8ab43u);
}

TEST(Crc32c, IsTheSameForEveryLengthPlaceAndCut) {
  std::mt19937 random(1);
  std::vector<std::uint8_t> data(8192);
  for (auto& byte : data) byte = static_cast<std::uint8_t>(random());
  for (int round = 0; round < 2000; ++round) {
    const std::size_t begin = random() % 64, bytes = random() % (data.size() - begin);
    const std::size_t cut = bytes == 0 ? 0 : random() % bytes;
    const std::uint32_t expected = slowly(7, &data[begin], bytes);
    ASSERT_EQ(crc32c(7, &data[begin], bytes), expected) << bytes << " bytes at " << begin;
    ASSERT_EQ(crc32c(crc32c(7, &data[begin], cut), &data[begin + cut], bytes - cut), expected);
  }
}

}  // namespace
}  // namespace lwmq
