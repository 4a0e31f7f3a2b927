#include "channel/address_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/limits.h"

namespace lwmq::channel {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

// The same words as in Python (options.py) and Java (OptionReader), in any case.
constexpr double kKi = 1024.0;
constexpr Unit kByteUnits[] = {{"", 1},
                               {"b", 1},
                               {"k", kKi},
                               {"m", kKi* kKi},
                               {"g", kKi* kKi* kKi},
                               {"kib", kKi},
                               {"mib", kKi* kKi},
                               {"gib", kKi* kKi* kKi},
                               {"kb", 1e3},
                               {"mb", 1e6},
                               {"gb", 1e9}};
constexpr Unit kTimeUnits[] = {{"", 1000},   {"s", 1000},    {"ms", 1},
                               {"m", 60000}, {"min", 60000}, {"h", 3600000}};
constexpr Unit kCountUnits[] = {{"", 1}};
constexpr double kRoundingError = 1e-12;  // relative, of a decimal fraction times its unit

bool same_but_for_case(std::string_view unit, std::string_view name) noexcept {
  return std::equal(unit.begin(), unit.end(), name.begin(), name.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

template <std::size_t kCount>
bool parse_quantity(std::string_view text, const Unit (&units)[kCount], double limit,
                    std::uint64_t* out) noexcept {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{}) return false;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const Unit& known : units) {
    if (!same_but_for_case(unit, known.name)) continue;
    const double value = number * known.factor;
    if (!(value >= 0 && value <= limit)) return false;
    const double whole = std::round(value);
    *out = static_cast<std::uint64_t>(whole);
    return std::abs(value - whole) <= whole * kRoundingError;
  }
  return false;
}

}  // namespace

Status parse_address_options(const char* address, AddressOptions* out_options) {
  const char* mark = std::strchr(address, '?');
  std::string_view rest = mark == nullptr ? std::string_view{} : std::string_view(mark + 1);
  while (!rest.empty()) {
    const std::size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    const std::size_t equals = pair.find('=');
    const std::string_view key = pair.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1);
    std::uint64_t number = 0;
    bool good = false;
    if (key == "buffer_bytes") {
      good = parse_quantity(value, kByteUnits, static_cast<double>(kBufferBytesMax), &number);
      out_options->buffer_bytes = number;
    } else if (key == "buffers" || key == "buffers_send" || key == "buffers_receive") {
      good = parse_quantity(value, kCountUnits, UINT32_MAX, &number);
      if (key != "buffers_receive") out_options->buffers_send = static_cast<std::uint32_t>(number);
      if (key != "buffers_send") out_options->buffers_receive = static_cast<std::uint32_t>(number);
    } else if (key == "retry") {
      good = parse_quantity(value, kTimeUnits, UINT32_MAX, &number);
      out_options->retry_ms = static_cast<std::uint32_t>(number);
    } else {
      return fail(
          LWMQ_E_ADDRESS,
          "%s: there is no option '%.*s'; known are buffer_bytes, buffers, buffers_send, buffers_receive "
          "and retry",
          address, static_cast<int>(key.size()), key.data());
    }
    if (!good) {
      return fail(LWMQ_E_ADDRESS, "%s: %.*s is no value for %.*s", address, static_cast<int>(value.size()),
                  value.data(), static_cast<int>(key.size()), key.data());
    }
  }
  return LWMQ_OK;
}

}  // namespace lwmq::channel
