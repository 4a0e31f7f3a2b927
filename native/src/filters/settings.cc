#include "filters/settings.h"

#include <charconv>
#include <string_view>

#include "base/values.h"

namespace lwmq::filters {
namespace {

constexpr std::uint64_t kLargest = 9'000'000'000'000'000;  // bytes, nanoseconds: a hundred days
constexpr std::uint64_t kMillisecondNs = 1'000'000;

std::string decode_percent(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2 && code != 0) {
      plain += static_cast<char>(code);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

Settings::Settings(const char* filter, const char* text, const char* first) : filter_(filter) {
  std::string_view rest(text);
  while (!rest.empty()) {
    const std::size_t end = rest.find(',');
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      pairs_.push_back({first, decode_percent(pair)});
    } else {
      pairs_.push_back({std::string(pair.substr(0, equals)), decode_percent(pair.substr(equals + 1))});
    }
  }
}

bool Settings::find(const char* key, std::string* out_value) {
  bool found = false;
  for (auto pair = pairs_.begin(); pair != pairs_.end();) {
    if (pair->key != key) {
      ++pair;
      continue;
    }
    if (found && failure_.empty()) failure_ = std::string(key) + " is given twice";
    *out_value = pair->value;
    found = true;
    pair = pairs_.erase(pair);
  }
  return found;
}

void Settings::refuse(const char* key, const std::string& value, const char* wanted) {
  if (failure_.empty()) failure_ = std::string(key) + "=" + value + ": " + wanted;
}

void Settings::miss(const char* key, const char* wanted) {
  if (failure_.empty() && pairs_.empty()) failure_ = std::string(key) + " is missing: " + wanted;
}

void Settings::take(const char* key, std::string* out) { find(key, out); }

void Settings::take(const char* key, std::uint64_t* out) {
  std::string text;
  std::uint64_t number = 0;
  if (!find(key, &text)) return;
  if (!read_bytes(text, &number) || number > kLargest)
    return refuse(key, text, "a number is wanted, or bytes as in 4MiB");
  *out = number;
}

void Settings::take_time(const char* key, std::uint64_t* out) {
  std::string text;
  std::uint64_t ns = 0;
  if (!find(key, &text)) return;
  if (!read_duration(text, kMillisecondNs, &ns) || ns > kLargest)
    return refuse(key, text, "a time is wanted, as in 5ms, 20us or 1s");
  *out = ns;
}

void Settings::take_share(const char* key, double* out) {
  std::string text;
  double number = 0;
  if (!find(key, &text)) return;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc{} || at != end || !(number >= 0 && number <= 1))
    return refuse(key, text, "a share of 0 to 1 is wanted");
  *out = number;
}

Status Settings::done() {
  if (failure_.empty() && !pairs_.empty())
    failure_ = "there is no setting '" + pairs_.front().key + "' (of value '" + pairs_.front().value + "')";
  return failure_.empty() ? LWMQ_OK : fail(LWMQ_E_INVALID, "filter %s: %s", filter_, failure_.c_str());
}

}  // namespace lwmq::filters
