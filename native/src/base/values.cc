#include "base/values.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/limits.h"

namespace lwmq {
namespace {

__extension__ using Wide = unsigned __int128;

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};
constexpr std::uint64_t kKilo = 1000;
constexpr Unit kByteUnits[] = {{"", 1},
                               {"b", 1},
                               {"k", kKiB},
                               {"m", kMiB},
                               {"g", kGiB},
                               {"t", kKiB* kGiB},
                               {"kib", kKiB},
                               {"mib", kMiB},
                               {"gib", kGiB},
                               {"tib", kKiB* kGiB},
                               {"kb", kKilo},
                               {"mb", kKilo* kKilo},
                               {"gb", kKilo* kKilo* kKilo},
                               {"tb", kKilo* kKilo* kKilo* kKilo}};
constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr Unit kTimeUnits[] = {
    {"ns", 1},          {"us", 1'000},         {"ms", 1'000'000},       {"s", kSecondNs},
    {"sec", kSecondNs}, {"m", 60 * kSecondNs}, {"min", 60 * kSecondNs}, {"h", 3600 * kSecondNs}};

constexpr std::string_view kFlags = "false, true, no, yes, 0, 1";
constexpr std::string_view kBetween = ", ";
constexpr int kFractionDigits = 18;  // more are no size, and no time that anybody can wait

char lower(char letter) noexcept {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

bool same(std::string_view one, std::string_view other) noexcept {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr const char* kBlanks = " \t\n\r\f\v";
  const std::size_t first = text.find_first_not_of(kBlanks);
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Takes the next word off `*words`.
std::string_view next_word(std::string_view* words) noexcept {
  const std::size_t end = words->find(kBetween);
  const std::string_view word = words->substr(0, end);
  words->remove_prefix(end == std::string_view::npos ? words->size() : end + kBetween.size());
  return word;
}

// A decimal number and what stands behind it.
struct Amount {
  std::uint64_t whole = 0;
  std::uint64_t fraction = 0;  // of 1 / scale
  std::uint64_t scale = 1;
  std::string_view unit;
  bool is_beyond = false;  // 64 bits

  // In units of `factor`, cut; *out_whole: nothing was cut.
  [[nodiscard]] Wide times(std::uint64_t factor, bool* out_whole) const noexcept {
    const Wide parts = static_cast<Wide>(fraction) * factor;
    *out_whole = parts % scale == 0;
    if (is_beyond) return ~Wide{0};
    return static_cast<Wide>(whole) * factor + parts / scale;
  }
};

// False: `text` does not begin with digits.
bool read_amount(std::string_view text, Amount* out) noexcept {
  text = trimmed(text);
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, out->whole);
  if (error == std::errc::invalid_argument) return false;
  out->is_beyond = error != std::errc{};
  if (end - at > 1 && *at == '.' && at[1] >= '0' && at[1] <= '9') {
    int digits = 0;
    for (++at; at != end && *at >= '0' && *at <= '9'; ++at) {
      if (++digits > kFractionDigits) continue;
      out->fraction = out->fraction * 10 + static_cast<std::uint64_t>(*at - '0');
      out->scale *= 10;
    }
  }
  out->unit = trimmed({at, static_cast<std::size_t>(end - at)});
  return true;
}

template <std::size_t kCount>
std::uint64_t factor_of(std::string_view unit, const Unit (&units)[kCount]) noexcept {
  const Unit* found = std::find_if(std::begin(units), std::end(units),
                                   [&](const Unit& known) { return same(known.name, unit); });
  return found == std::end(units) ? 0 : found->factor;
}

// ---- Slips ------------------------------------------------------------------------------------------

constexpr std::size_t kLettersMax = 48;
constexpr std::size_t kSlipsMax = 3;
constexpr std::size_t kBeginning = 4;  // so many letters of a longer word may stand for it

// Small letters, without what only separates.
struct Letters {
  explicit Letters(std::string_view word) noexcept {
    for (const char letter : word) {
      if (letter != '_' && letter != '-' && count < kLettersMax) text[count++] = lower(letter);
    }
  }
  char text[kLettersMax] = {};
  std::size_t count = 0;
};

// How many letters are wrong, missing, too much, or changed with the next one.
std::size_t slips_between(const Letters& one, const Letters& other) noexcept {
  std::size_t rows[3][kLettersMax + 1];
  std::size_t *before = rows[0], *above = rows[1], *row = rows[2];
  for (std::size_t j = 0; j <= other.count; ++j) above[j] = j;
  for (std::size_t i = 1; i <= one.count; ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= other.count; ++j) {
      const bool equal = one.text[i - 1] == other.text[j - 1];
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (equal ? 0 : 1)});
      if (i > 1 && j > 1 && one.text[i - 1] == other.text[j - 2] && one.text[i - 2] == other.text[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::size_t* free_row = before;
    before = above;
    above = row;
    row = free_row;
  }
  return above[other.count];
}

Status no_value(std::string_view text, const char* what) noexcept {
  return fail(LWMQ_E_INVALID, "'%.*s' is %s", static_cast<int>(std::min<std::size_t>(text.size(), 120)),
              text.data(), what);
}

Status read_size(std::string_view text, std::uint64_t* out_value) noexcept {
  Amount amount;
  if (trimmed(text).starts_with('-')) return no_value(text, "not a size: it is negative");
  if (read_bytes(text, out_value)) return LWMQ_OK;
  if (read_amount(text, &amount) && factor_of(amount.unit, kByteUnits) != 0)
    return no_value(text, "not a whole number of bytes, at most 9223372036854775807");
  return no_value(text, "not a size: write 512, 64KiB, 4MiB, 1GiB, 64KB, 4MB or 1GB");
}

Status read_time(std::string_view text, std::uint64_t* out_value) noexcept {
  if (read_duration(text, kSecondNs, out_value)) return LWMQ_OK;
  return no_value(text, trimmed(text).starts_with('-')
                            ? "not a duration: it is negative"
                            : "not a duration: write 100ms, 5s, 2m, 1h, a number of seconds or 'forever'");
}

Status read_word(const char* words, std::string_view text, std::uint64_t* out_value) noexcept {
  const std::int64_t place = find_word(trimmed(text), words);
  if (place >= 0) {
    *out_value = static_cast<std::uint64_t>(place);
    return LWMQ_OK;
  }
  const std::string_view meant = nearest_word(text, words);
  return fail(LWMQ_E_INVALID, "'%.*s' is none of %.600s%s%.*s%s",
              static_cast<int>(std::min<std::size_t>(text.size(), 120)), text.data(), words,
              meant.empty() ? "" : ": did you mean '", static_cast<int>(meant.size()), meant.data(),
              meant.empty() ? "" : "'?");
}

}  // namespace

bool read_bytes(std::string_view text, std::uint64_t* out_bytes) noexcept {
  Amount amount;
  bool is_whole = false;
  if (!read_amount(text, &amount)) return false;
  const std::uint64_t factor = factor_of(amount.unit, kByteUnits);
  const Wide bytes = amount.times(factor, &is_whole);
  *out_bytes = static_cast<std::uint64_t>(bytes);
  return factor != 0 && is_whole && bytes <= INT64_MAX;
}

bool read_duration(std::string_view text, std::uint64_t bare_ns, std::uint64_t* out_ns) noexcept {
  *out_ns = UINT64_MAX;
  if (same(trimmed(text), "forever")) return true;
  Amount amount;
  bool is_whole = false;
  if (!read_amount(text, &amount)) return false;
  const std::uint64_t factor = amount.unit.empty() ? bare_ns : factor_of(amount.unit, kTimeUnits);
  *out_ns = static_cast<std::uint64_t>(std::min<Wide>(amount.times(factor, &is_whole), UINT64_MAX));
  return factor != 0;
}

std::int64_t find_word(std::string_view word, std::string_view words) noexcept {
  for (std::int64_t place = 0; !words.empty(); ++place) {
    if (same(word, next_word(&words))) return place;
  }
  return -1;
}

std::string_view nearest_word(std::string_view word, std::string_view words) noexcept {
  const Letters written(word);
  const std::size_t most = std::clamp<std::size_t>(written.count / 3, 1, kSlipsMax);
  std::string_view nearest;
  std::size_t least = std::min(most + 1, std::max<std::size_t>(written.count, 1));
  while (!words.empty()) {
    const std::string_view known = next_word(&words);
    const Letters meant(known);
    std::size_t slips = slips_between(written, meant);
    if (written.count >= kBeginning && std::memcmp(written.text, meant.text, written.count) == 0)
      slips = std::min(slips, most);
    if (slips >= least) continue;
    least = slips;
    nearest = known;
  }
  return nearest;
}

Status read_value(std::uint32_t kind, const char* words, std::string_view text,
                  std::uint64_t* out_value) noexcept {
  Amount amount;
  std::int64_t place = 0;
  switch (kind) {
    case LWMQ_VALUE_BYTES:
      return read_size(text, out_value);
    case LWMQ_VALUE_DURATION:
      return read_time(text, out_value);
    case LWMQ_VALUE_COUNT:
      if (!read_amount(text, &amount) || !amount.unit.empty() || amount.scale != 1 || amount.is_beyond ||
          amount.whole > INT64_MAX)
        return no_value(text, "not a count: a whole number from 0");
      *out_value = amount.whole;
      return LWMQ_OK;
    case LWMQ_VALUE_FLAG:
      place = find_word(trimmed(text), kFlags);
      if (place < 0) return no_value(text, "neither true nor false");
      *out_value = static_cast<std::uint64_t>(place % 2);
      return LWMQ_OK;
    case LWMQ_VALUE_WORD:
      if (words != nullptr) return read_word(words, text, out_value);
      break;
    case LWMQ_VALUE_NAME:
      *out_value = text.size();
      if (!text.empty() && text.size() <= kNameBytesMax) return LWMQ_OK;
      return fail(LWMQ_E_INVALID, "the name has %zu bytes in UTF-8: 1 to %u are possible", text.size(),
                  kNameBytesMax);
    case LWMQ_VALUE_TEXT:
      *out_value = text.size();
      if (!text.empty() && text.size() <= kTextBytesMax) return LWMQ_OK;
      return fail(LWMQ_E_INVALID, "a text of %zu bytes: 1 to %u are possible", text.size(), kTextBytesMax);
    default:
      break;
  }
  return fail(LWMQ_E_INVALID, "there is no kind %u of value, or a word of no list", kind);
}

}  // namespace lwmq
