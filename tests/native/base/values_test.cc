// Values as users write them. Python and Java assert the same over their own faces.
// links: base
#include "base/values.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace lwmq {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kRefused = UINT64_MAX - 1;

std::uint64_t value_of(std::uint32_t kind, const char* text, const char* words = nullptr) {
  std::uint64_t value = 0;
  return read_value(kind, words, text, &value) == LWMQ_OK ? value : kRefused;
}

std::string refusal_of(std::uint32_t kind, const char* text, const char* words = nullptr) {
  std::uint64_t value = 0;
  return read_value(kind, words, text, &value) == LWMQ_E_INVALID ? last_error() : "";
}

TEST(Values, OfSizesHaveUnitsInAnyCase) {
  for (const auto& [text, bytes] : {std::pair{"512", 512ULL},
                                    {"512B", 512ULL},
                                    {"64k", 65536ULL},
                                    {"64KiB", 65536ULL},
                                    {"64KB", 64000ULL},
                                    {"4mb", 4000000ULL},
                                    {"4MiB", 4ULL << 20},
                                    {" 1.5 MiB ", 3ULL << 19},
                                    {"1.5kB", 1500ULL},
                                    {"0.0009765625GiB", 1ULL << 20},
                                    {"2TiB", 2ULL << 40},
                                    {"9223372036854775807", 9223372036854775807ULL}}) {
    EXPECT_EQ(value_of(LWMQ_VALUE_BYTES, text), bytes) << text;
  }
}

TEST(Values, ThatAreNoSizesAreRefusedWithWhatIsOne) {
  for (const char* text : {"", "MiB", "many", "4XiB", "4 MiBs", "nan", "1e3", "0x10", "1.", ".5"})
    EXPECT_NE(refusal_of(LWMQ_VALUE_BYTES, text).find("is not a size: write 512, 64KiB"), std::string::npos)
        << text;
  for (const char* text : {"1.5", "0.3B", "8388608TiB", "99999999999999999999"})
    EXPECT_NE(refusal_of(LWMQ_VALUE_BYTES, text), "") << text;
  EXPECT_EQ(refusal_of(LWMQ_VALUE_BYTES, "1.5"),
            "'1.5' is not a whole number of bytes, at most 9223372036854775807");
  EXPECT_EQ(refusal_of(LWMQ_VALUE_BYTES, "-3"), "'-3' is not a size: it is negative");
}

TEST(Values, OfDurationsAreSecondsWithoutAUnit) {
  for (const auto& [text, ns] : {std::pair{"250ms", 250 * kMs},
                                 {"0.25", 250 * kMs},
                                 {"100us", kMs / 10},
                                 {"5s", 5000 * kMs},
                                 {"5 sec", 5000 * kMs},
                                 {"2m", 120'000 * kMs},
                                 {"2min", 120'000 * kMs},
                                 {"1h", 3'600'000 * kMs},
                                 {"Forever", UINT64_MAX},
                                 {"999999999h", UINT64_MAX}}) {
    EXPECT_EQ(value_of(LWMQ_VALUE_DURATION, text), ns) << text;
  }
  EXPECT_NE(refusal_of(LWMQ_VALUE_DURATION, "5 parsecs").find("write 100ms, 5s"), std::string::npos);
  EXPECT_EQ(refusal_of(LWMQ_VALUE_DURATION, "-1s"), "'-1s' is not a duration: it is negative");
}

TEST(Values, OfCountsAndFlags) {
  EXPECT_EQ(value_of(LWMQ_VALUE_COUNT, "16"), 16u);
  for (const char* text : {"", "x", "-1", "1.5", "1k", "99999999999999999999"})
    EXPECT_NE(refusal_of(LWMQ_VALUE_COUNT, text).find("is not a count"), std::string::npos) << text;
  for (const char* text : {"true", "Yes", "1"}) EXPECT_EQ(value_of(LWMQ_VALUE_FLAG, text), 1u) << text;
  for (const char* text : {"FALSE", "no", "0"}) EXPECT_EQ(value_of(LWMQ_VALUE_FLAG, text), 0u) << text;
  EXPECT_EQ(refusal_of(LWMQ_VALUE_FLAG, "maybe"), "'maybe' is neither true nor false");
}

TEST(Values, ThatAreWordsAreTakenInAnyCaseAndASlipIsTold) {
  constexpr const char* kWords = "until_acked, all, none";
  EXPECT_EQ(value_of(LWMQ_VALUE_WORD, "ALL", kWords), 1u);
  EXPECT_EQ(refusal_of(LWMQ_VALUE_WORD, "some", kWords), "'some' is none of until_acked, all, none");
  EXPECT_EQ(refusal_of(LWMQ_VALUE_WORD, "untilAcked", kWords),
            "'untilAcked' is none of until_acked, all, none: did you mean 'until_acked'?");
}

TEST(Slips, AreWrongMissingNeedlessOrExchangedLetters) {
  constexpr std::string_view kNames = "uri, retain, window_bytes, failOnDataLoss, timeout";
  for (const auto& [slip, meant] : {std::pair{"retian", "retain"},
                                    {"windowBytes", "window_bytes"},
                                    {"windwbytes", "window_bytes"},
                                    {"failOnDatLos", "failOnDataLoss"},
                                    {"time", "timeout"},
                                    {"URL", "uri"},
                                    {"colour", ""},
                                    {"mergeSchema", ""},
                                    {"x", ""},
                                    {"", ""}}) {
    EXPECT_EQ(nearest_word(slip, kNames), meant) << slip;
  }
}

}  // namespace
}  // namespace lwmq
