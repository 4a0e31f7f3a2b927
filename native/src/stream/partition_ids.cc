#include "stream/partition_ids.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/limits.h"

namespace lwmq::stream {

namespace {

// ---- Murmur3 for 32 bits, as Spark has it -----------------------------------------------------------

constexpr std::uint32_t kSeed = 42;
constexpr int kLongDigits = 18;  // of a decimal that Spark keeps in a long

std::uint32_t mix(std::uint32_t hash, std::uint32_t word) noexcept {
  word = std::rotl(word * 0xcc9e2d51, 15) * 0x1b873593;
  return std::rotl(hash ^ word, 13) * 5 + 0xe6546b64;
}

std::uint32_t finish(std::uint32_t hash, std::uint32_t bytes) noexcept {
  hash ^= bytes;
  hash = (hash ^ hash >> 16) * 0x85ebca6b;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35;
  return hash ^ hash >> 16;
}

std::uint32_t hash_of(std::int32_t value, std::uint32_t hash) noexcept {
  return finish(mix(hash, static_cast<std::uint32_t>(value)), 4);
}

std::uint32_t hash_of(std::int64_t value, std::uint32_t hash) noexcept {
  const auto bits = static_cast<std::uint64_t>(value);
  hash = mix(hash, static_cast<std::uint32_t>(bits));
  return finish(mix(hash, static_cast<std::uint32_t>(bits >> 32)), 8);
}

// Every NaN counts as the same value, and -0.0 as 0.0.
std::uint32_t hash_of(float value, std::uint32_t hash) noexcept {
  const float canonical = std::isnan(value) ? std::bit_cast<float>(0x7fc00000U) : value == 0 ? 0 : value;
  return hash_of(std::bit_cast<std::int32_t>(canonical), hash);
}

std::uint32_t hash_of(double value, std::uint32_t hash) noexcept {
  const double canonical = std::isnan(value) ? std::bit_cast<double>(0x7ff8000000000000U)
                           : value == 0      ? 0
                                             : value;
  return hash_of(std::bit_cast<std::int64_t>(canonical), hash);
}

// The bytes after the last whole word are mixed one by one, each as a signed number. Murmur3 proper would mix
// them as one word.
std::uint32_t hash_of(std::string_view bytes, std::uint32_t hash) noexcept {
  std::size_t at = 0;
  for (; at + 4 <= bytes.size(); at += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    hash = mix(hash, word);
  }
  for (; at < bytes.size(); ++at) {
    hash = mix(hash, static_cast<std::uint32_t>(std::int32_t{static_cast<signed char>(bytes[at])}));
  }
  return finish(hash, static_cast<std::uint32_t>(bytes.size()));
}

// A decimal of more than 18 digits is hashed as the bytes of a Java BigInteger: the highest byte comes first,
// and leading bytes that only repeat the sign are left out.
std::uint32_t hash_of(__int128 value, std::uint32_t hash) noexcept {
  char bytes[sizeof value];
  for (std::size_t i = 0; i < sizeof value; ++i) bytes[i] = static_cast<char>(value >> (120 - 8 * i));
  std::size_t first = 0;
  const char sign = value < 0 ? -1 : 0;
  while (first + 1 < sizeof value && bytes[first] == sign && (bytes[first + 1] ^ sign) >= 0) ++first;
  return hash_of(std::string_view(bytes + first, sizeof value - first), hash);
}

// ---- Columns ----------------------------------------------------------------------------------------

bool bit_at(const void* bits, std::int64_t index) noexcept {
  return (static_cast<const std::uint8_t*>(bits)[index / 8] >> index % 8 & 1) != 0;
}

struct Column {
  const ArrowArray& array;
  std::int64_t first, rows;
  std::uint32_t* hashes;

  // Chains the hash of `value_at(index)` into the hash of each row. A null leaves it as it is.
  template <typename ValueAt>
  void chain(ValueAt value_at) const noexcept {
    const void* valid = array.null_count == 0 ? nullptr : array.buffers[0];
    if (valid == nullptr) {
      for (std::int64_t row = 0; row < rows; ++row) hashes[row] = hash_of(value_at(first + row), hashes[row]);
      return;
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      if (bit_at(valid, first + row)) hashes[row] = hash_of(value_at(first + row), hashes[row]);
    }
  }

  // The column holds `Stored` values, which Spark hashes as `Hashed`.
  template <typename Stored, typename Hashed = Stored>
  void chain_values() const noexcept {
    const auto* values = static_cast<const char*>(array.buffers[1]);
    chain([values](std::int64_t index) {
      Stored value;  // which may not be aligned
      std::memcpy(&value, values + index * static_cast<std::int64_t>(sizeof value), sizeof value);
      return static_cast<Hashed>(value);
    });
  }

  template <typename Offset>
  void chain_texts() const noexcept {
    const auto* offsets = static_cast<const Offset*>(array.buffers[1]);
    const auto* bytes = static_cast<const char*>(array.buffers[2]);
    chain([offsets, bytes](std::int64_t index) {
      return std::string_view(bytes + offsets[index],
                              static_cast<std::size_t>(offsets[index + 1] - offsets[index]));
    });
  }
};

// The precision of a decimal128, whose format is "d:precision,scale". 0: the type is another.
int precision_of(const char* format) noexcept {
  int precision = 0, scale = 0, bits = 128;
  return std::sscanf(format, "d:%d,%d,%d", &precision, &scale, &bits) >= 2 && bits == 128 ? precision : 0;
}

// False: the type cannot be a key.
bool chain_column(const Column& column, const char* format) noexcept {
  const std::string_view type = format;
  const int precision = precision_of(format);
  const void* values = column.array.n_buffers > 1 ? column.array.buffers[1] : nullptr;
  if (type == "b")
    column.chain([values](std::int64_t index) { return std::int32_t{bit_at(values, index)}; });
  else if (type == "c")
    column.chain_values<std::int8_t, std::int32_t>();
  else if (type == "s")
    column.chain_values<std::int16_t, std::int32_t>();
  else if (type == "i" || type == "tdD")
    column.chain_values<std::int32_t>();
  else if (type == "l" || type.starts_with("tsu:"))
    column.chain_values<std::int64_t>();
  else if (type == "f")
    column.chain_values<float>();
  else if (type == "g")
    column.chain_values<double>();
  else if (type == "u" || type == "z")
    column.chain_texts<std::int32_t>();
  else if (type == "U" || type == "Z")
    column.chain_texts<std::int64_t>();
  else if (precision > kLongDigits)
    column.chain_values<__int128>();
  else if (precision > 0)
    column.chain_values<__int128, std::int64_t>();
  else
    return false;
  return true;
}

// Replaces each hash by its remainder, which is never negative. A double holds the quotient of two numbers of
// 32 bits exactly enough, and doubles are divided faster than integers.
void take_remainders(std::uint32_t* hashes, std::int64_t rows, std::uint32_t partitions) noexcept {
  const auto divisor = static_cast<std::int32_t>(partitions);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto hash = static_cast<std::int32_t>(hashes[row]);
    const std::int32_t rest = hash - static_cast<std::int32_t>(hash / double(divisor)) * divisor;
    hashes[row] = static_cast<std::uint32_t>(rest + (rest >> 31 & divisor));
  }
}

}  // namespace

Status partition_ids(const ArrowSchema& schema, const ArrowArray& keys, std::uint32_t partitions,
                     std::uint32_t* out_ids) noexcept {
  if (schema.n_children == 0 || schema.n_children != keys.n_children)
    return fail(LWMQ_E_INVALID, "a key of %" PRId64 " columns", schema.n_children);
  if (partitions == 0 || partitions > kPartitionsMax)
    return fail(LWMQ_E_INVALID, "%u partitions: there are 1 to %u", partitions, kPartitionsMax);
  std::fill_n(out_ids, keys.length, kSeed);
  for (std::int64_t i = 0; i < keys.n_children; ++i) {
    const ArrowArray& array = *keys.children[i];
    const ArrowSchema& field = *schema.children[i];
    if (field.dictionary != nullptr ||
        !chain_column({array, keys.offset + array.offset, keys.length, out_ids}, field.format))
      return fail(LWMQ_E_UNSUPPORTED,
                  "column \"%s\" cannot be a key: its Arrow format is \"%s\"%s. A key is a boolean, a signed "
                  "integer, a float, text, binary, a date32, a timestamp in microseconds, or a decimal128",
                  field.name == nullptr ? "" : field.name, field.format,
                  field.dictionary == nullptr ? "" : " with a dictionary");
  }
  take_remainders(out_ids, keys.length, partitions);
  return LWMQ_OK;
}

}  // namespace lwmq::stream
