#include "stream/bounds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/checked.h"

namespace lwmq::stream {
namespace {

// Behind a batch, at the next multiple of kBoundAlign: a Bound for each column, then a Tail.
struct Bound {
  std::uint32_t column;
  std::uint32_t holds;  // kValues | kNulls
  std::uint64_t least;  // ranks
  std::uint64_t greatest;
};
static_assert(sizeof(Bound) == 24);
struct Tail {
  std::uint32_t count;   // of Bounds
  std::uint32_t unused;  // bytes between the batch and the first Bound
};
constexpr std::uint64_t kBoundAlign = 8;
constexpr std::uint32_t kValues = 1, kNulls = 2;

constexpr std::string_view kKey = "lwmq.bounds";
constexpr std::uint64_t kNan = std::numeric_limits<std::uint64_t>::max();
constexpr std::int64_t kMicroseconds = 1'000'000;
constexpr std::int64_t kMillisecondsPerDay = 86'400'000;
constexpr std::int64_t kWholeMax = std::int64_t{1} << 53;  // up to it every integer is a double

std::uint64_t rank_of(std::int64_t value) noexcept {
  return static_cast<std::uint64_t>(value) ^ std::uint64_t{1} << 63;
}

std::uint64_t rank_of(double value) noexcept {
  if (std::isnan(value)) return kNan;
  const auto bits = std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value);
  return bits >> 63 != 0 ? ~bits : bits | std::uint64_t{1} << 63;
}

std::uint64_t rank_of(const std::uint8_t* text, std::uint64_t bytes) noexcept {
  std::uint64_t rank = 0;
  std::memcpy(&rank, text, std::min<std::uint64_t>(bytes, kRankBytes));
  return __builtin_bswap64(rank);
}

// Of a unit of time, which the schema of a peer may lie about.
std::int64_t ticks_per_second(std::int16_t unit) noexcept {
  constexpr std::int64_t kTicks[] = {1, 1000, kMicroseconds, 1'000'000'000};
  return kTicks[unit & 3];
}

Ranking ranking_of(Flatbuffer& in, const SchemaField& field) noexcept {
  if (field.is_encoded) return {};
  const std::uint64_t table = field.type_table;
  switch (field.type) {
    case kInt: {
      const auto bits = in.number<std::int32_t>(in.field(table, 0));
      const bool is_signed = in.number<std::uint8_t>(in.field(table, 1)) != 0;
      if (bits != 8 && bits != 16 && bits != 32 && bits != 64) return {};
      return {is_signed ? Ranking::kSigned : Ranking::kUnsigned, static_cast<std::uint8_t>(bits / 8)};
    }
    case kFloatingPoint: {
      const auto precision = in.number<std::int16_t>(in.field(table, 0));
      if (precision != 1 && precision != 2) return {};
      return {Ranking::kFloat, static_cast<std::uint8_t>(4 * precision)};
    }
    case kDate: {  // in days or, where the unit is left out, in milliseconds
      const std::uint64_t unit = in.field(table, 0);
      const bool is_days = unit != 0 && in.number<std::int16_t>(unit) == 0;
      if (is_days) return {Ranking::kSigned, 4, Ranking::kDate, 1};
      return {Ranking::kSigned, 8, Ranking::kDate, kMillisecondsPerDay};
    }
    case kTime: {  // of 32 bits where the width is left out
      const std::uint64_t bits = in.field(table, 1);
      return {Ranking::kSigned,
              static_cast<std::uint8_t>(bits != 0 && in.number<std::int32_t>(bits) == 64 ? 8 : 4)};
    }
    case kTimestamp:
      return {Ranking::kSigned, 8, Ranking::kTimestamp,
              ticks_per_second(in.number<std::int16_t>(in.field(table, 0)))};
    case kDuration:
      return {Ranking::kSigned, 8};
    case kBinary:
    case kUtf8:
      return {Ranking::kText, 4};
    case kLargeBinary:
    case kLargeUtf8:
      return {Ranking::kText, 8};
    default:
      return {};
  }
}

// A column of a batch: all of it was checked to lie inside.
struct Values {
  std::uint64_t rows;
  const std::uint8_t* validity;  // null: all rows have values
  const std::uint8_t* data;      // offsets, where they are texts
  const std::uint8_t* texts;
  std::uint64_t text_bytes;
};

// Calls `add` with the number of each row that has a value.
template <typename Add>
void each_value(const Values& values, Add&& add) {
  for (std::uint64_t i = 0; i < values.rows; ++i) {
    if (values.validity == nullptr || (values.validity[i / 8] >> (i % 8) & 1) != 0) add(i);
  }
}

template <typename T>
T load(const std::uint8_t* data, std::uint64_t index) noexcept {
  T value;
  std::memcpy(&value, data + index * sizeof value, sizeof value);
  return value;
}

template <typename T>
void find_bound(const Values& values, Bound* bound) {
  T least = std::numeric_limits<T>::max(), greatest = std::numeric_limits<T>::lowest();
  if constexpr (std::is_floating_point_v<T>) {
    least = std::numeric_limits<T>::infinity(), greatest = -least;
  }
  bool has_nan = false;
  each_value(values, [&](std::uint64_t i) {
    const T value = load<T>(values.data, i);
    least = value < least ? value : least;
    greatest = value > greatest ? value : greatest;
    if constexpr (std::is_floating_point_v<T>) has_nan = has_nan || std::isnan(value);
  });
  if constexpr (std::is_floating_point_v<T>) {
    bound->least = least > greatest ? kNan : rank_of(static_cast<double>(least));
    bound->greatest = has_nan ? kNan : rank_of(static_cast<double>(greatest));
  } else if constexpr (std::is_signed_v<T>) {
    bound->least = rank_of(static_cast<std::int64_t>(least));
    bound->greatest = rank_of(static_cast<std::int64_t>(greatest));
  } else {
    bound->least = least;
    bound->greatest = greatest;
  }
}

// False: an offset leads outside of the texts.
template <typename T>
bool find_bound_of_texts(const Values& values, Bound* bound) {
  bool is_sound = true;
  bound->least = kNan, bound->greatest = 0;
  each_value(values, [&](std::uint64_t i) {
    const auto from = static_cast<std::uint64_t>(load<T>(values.data, i));
    const auto to = static_cast<std::uint64_t>(load<T>(values.data, i + 1));
    is_sound = is_sound && from <= to && to <= values.text_bytes;
    if (!is_sound) return;
    const std::uint64_t rank = rank_of(values.texts + from, to - from);
    bound->least = std::min(bound->least, rank);
    bound->greatest = std::max(bound->greatest, rank);
  });
  return is_sound;
}

// Of the type among `Types` that has so many bytes. False: none has.
template <typename... Types>
bool find_bound_of_width(std::uint8_t width, const Values& values, Bound* bound) {
  return ((sizeof(Types) == width && (find_bound<Types>(values, bound), true)) || ...);
}

bool find_bound(const Ranking& ranking, const Values& values, Bound* bound) {
  switch (ranking.kind) {
    case Ranking::kSigned:
      return find_bound_of_width<std::int8_t, std::int16_t, std::int32_t, std::int64_t>(ranking.width, values,
                                                                                        bound);
    case Ranking::kUnsigned:
      return find_bound_of_width<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>(ranking.width,
                                                                                            values, bound);
    case Ranking::kFloat:
      return find_bound_of_width<float, double>(ranking.width, values, bound);
    case Ranking::kText:
      return ranking.width == 4 ? find_bound_of_texts<std::int32_t>(values, bound)
                                : find_bound_of_texts<std::int64_t>(values, bound);
    case Ranking::kNone:
      break;
  }
  return false;
}

// The record batch in a block, and its body.
bool find_record_batch(const std::uint8_t* block, std::uint64_t bytes, std::string* out_metadata,
                       const std::uint8_t** out_body, std::uint64_t* out_body_bytes) {
  for (std::uint64_t at = 0;;) {
    if (!copy_metadata(block, bytes, at, out_metadata)) return false;
    Flatbuffer in(*out_metadata);
    const std::uint64_t message = in.root();
    const auto type = in.number<std::uint8_t>(in.field(message, kMessageType));
    const auto body_bytes = in.number<std::uint64_t>(in.field(message, kMessageBodyBytes));
    at += kPrefixBytes + out_metadata->size();
    if (!in.is_sound() || !fits(at, body_bytes, bytes)) return false;
    if (type == kRecordBatch) {
      *out_body = block + at;
      *out_body_bytes = body_bytes;
      return true;
    }
    at += body_bytes;
  }
}

// A column of the record batch whose node and first buffer have these numbers. False: it is not what the
// schema says.
bool find_values(Flatbuffer& in, std::uint64_t node, std::uint64_t first_buffer, const Ranking& ranking,
                 const std::uint8_t* body, std::uint64_t body_bytes, Values* out_values,
                 std::uint64_t* out_nulls) {
  const std::uint64_t batch = in.table(in.root(), kMessageHeader);
  const std::uint64_t nodes = in.table(batch, kBatchNodes), buffers = in.table(batch, kBatchBuffers);
  const std::uint64_t needed = ranking.kind == Ranking::kText ? 3 : 2;
  if (in.field(batch, kBatchCompression) != 0 || node >= in.number<std::uint32_t>(nodes) ||
      !fits(first_buffer, needed, in.number<std::uint32_t>(buffers)))
    return false;
  const auto rows = in.number<std::uint64_t>(nodes + 4 + 16 * node);
  *out_nulls = in.number<std::uint64_t>(nodes + 4 + 16 * node + 8);
  const std::uint8_t* data[3] = {};
  std::uint64_t data_bytes[3] = {};
  for (std::uint64_t i = 0; i < needed; ++i) {
    const std::uint64_t place = buffers + 4 + 16 * (first_buffer + i);
    const auto offset = in.number<std::uint64_t>(place);
    data_bytes[i] = in.number<std::uint64_t>(place + 8);
    if (!in.is_sound() || !fits(offset, data_bytes[i], body_bytes)) return false;
    data[i] = body + offset;
  }
  if (!in.is_sound() || rows > data_bytes[1] || *out_nulls > rows) return false;
  const std::uint64_t numbers = ranking.kind == Ranking::kText && rows > 0 ? rows + 1 : rows;
  if (numbers > data_bytes[1] / ranking.width) return false;
  if (*out_nulls > 0 && data_bytes[0] < (rows + 7) / 8) return false;
  *out_values = {rows, *out_nulls > 0 ? data[0] : nullptr, data[1], data[2], data_bytes[2]};
  return true;
}

Status no_such_column(const std::string& address, std::string_view name, const char* why) {
  return fail(LWMQ_E_SCHEMA, "%s: column \"%.*s\" %s", address.c_str(),
              static_cast<int>(std::min<std::size_t>(name.size(), kNameBytesMax)), name.data(), why);
}

// The number of the one column of this name among the top-level fields, and its field.
Status find_column(const std::vector<SchemaField>& fields, std::string_view name, const std::string& address,
                   std::uint32_t* out_number, const SchemaField** out_field) {
  *out_field = nullptr;
  std::uint32_t number = 0;
  for (const SchemaField& field : fields) {
    if (field.depth > 0) continue;
    if (field.name == name) {
      if (*out_field != nullptr) return no_such_column(address, name, "is there more than once");
      *out_field = &field;
      *out_number = number;
    }
    ++number;
  }
  return *out_field != nullptr ? LWMQ_OK : no_such_column(address, name, "is not one of the stream's");
}

// The value of a key in the metadata of the schema; empty where there is none.
std::string_view value_of(Flatbuffer& in, std::string_view key) noexcept {
  const std::uint64_t pairs = in.table(in.table(in.root(), kMessageHeader), kSchemaPairs);
  const auto count = in.number<std::uint32_t>(pairs);
  for (std::uint32_t i = 0; i < count && in.is_sound(); ++i) {
    const std::uint64_t pair = in.follow(pairs + 4 + 4 * std::uint64_t{i});
    if (in.text(in.table(pair, kPairKey)) == key) return in.text(in.table(pair, kPairValue));
  }
  return {};
}

bool copy_schema(std::string_view schema, std::string* out) {
  return copy_metadata(reinterpret_cast<const std::uint8_t*>(schema.data()), schema.size(), 0, out);
}

// The ticks of a timestamp, rounded down. False: there are more than 64 bits hold.
bool to_ticks(std::int64_t microseconds, std::int64_t ticks_per_second, std::int64_t* out_ticks,
              bool* out_is_exact) noexcept {
  if (ticks_per_second > kMicroseconds)
    return !__builtin_mul_overflow(microseconds, ticks_per_second / kMicroseconds, out_ticks);
  const std::int64_t per_tick = kMicroseconds / ticks_per_second;
  const std::int64_t rest = microseconds % per_tick;
  *out_is_exact = rest == 0;
  *out_ticks = microseconds / per_tick - (rest < 0 ? 1 : 0);
  return true;
}

enum class Found : std::uint8_t { kRank, kNothing, kOther };  // nothing: it excludes no batch

// The rank of a filter's value among those of a column. kOther: the column holds other values.
Found rank_of(const wire::FilterField& filter, const Ranking& ranking, std::uint64_t* out_rank,
              bool* out_is_exact) {
  const auto number = static_cast<std::int64_t>(filter.number);
  *out_is_exact = ranking.kind != Ranking::kText;
  if (ranking.kind == Ranking::kNone) return Found::kNothing;  // of a column without bounds
  switch (static_cast<lwmq_literal_kind>(filter.literal_kind)) {
    case LWMQ_LITERAL_INTEGER:
      if (ranking.meaning != Ranking::kNumber) return Found::kOther;
      if (ranking.kind == Ranking::kSigned) {
        *out_rank = rank_of(number);
      } else if (ranking.kind == Ranking::kUnsigned) {
        *out_is_exact = number >= 0;
        *out_rank = static_cast<std::uint64_t>(std::max<std::int64_t>(number, 0));
      } else if (ranking.kind == Ranking::kFloat) {
        if (number > kWholeMax || number < -kWholeMax) return Found::kNothing;
        *out_rank = rank_of(static_cast<double>(number));
      } else {
        return Found::kOther;
      }
      return Found::kRank;
    case LWMQ_LITERAL_REAL:
      if (ranking.kind != Ranking::kFloat) return Found::kOther;
      *out_rank = rank_of(std::bit_cast<double>(filter.number));
      return Found::kRank;
    case LWMQ_LITERAL_BYTES:
      if (ranking.kind != Ranking::kText) return Found::kOther;
      *out_rank = rank_of(reinterpret_cast<const std::uint8_t*>(filter.text.data()), filter.text.size());
      return Found::kRank;
    case LWMQ_LITERAL_DAYS:
    case LWMQ_LITERAL_MICROSECONDS: {
      const bool is_days = filter.literal_kind == LWMQ_LITERAL_DAYS;
      if (ranking.meaning != (is_days ? Ranking::kDate : Ranking::kTimestamp)) return Found::kOther;
      std::int64_t ticks = 0;
      const bool fits_in = is_days ? !__builtin_mul_overflow(number, ranking.ticks, &ticks)
                                   : to_ticks(number, ranking.ticks, &ticks, out_is_exact);
      if (!fits_in) return Found::kNothing;
      *out_rank = rank_of(ticks);
      return Found::kRank;
    }
    case LWMQ_LITERAL_NONE:
      break;
  }
  return Found::kOther;
}

bool excludes(std::uint32_t comparison, std::uint64_t rank, bool is_exact, const Bound& bound) noexcept {
  if (comparison == LWMQ_IS_NULL) return (bound.holds & kNulls) == 0;
  if ((bound.holds & kValues) == 0) return true;  // a null matches no other filter
  switch (static_cast<lwmq_comparison>(comparison)) {
    case LWMQ_EQUAL:
      return rank < bound.least || rank > bound.greatest;
    case LWMQ_LESS:
      return is_exact ? bound.least >= rank : bound.least > rank;
    case LWMQ_LESS_OR_EQUAL:
      return bound.least > rank;
    case LWMQ_GREATER:
      return is_exact ? bound.greatest <= rank : bound.greatest < rank;
    case LWMQ_GREATER_OR_EQUAL:
      return bound.greatest < rank;
    case LWMQ_IS_NOT_NULL:
    case LWMQ_IS_NULL:
      break;
  }
  return false;
}

// False: there are none.
bool find_bounds(const std::uint8_t* batch, std::uint64_t bytes, std::uint32_t flags, Tail* out_tail,
                 std::uint64_t* out_at) noexcept {
  if ((flags & wire::kBatchBounds) == 0 || bytes < sizeof(Tail)) return false;
  std::memcpy(out_tail, batch + bytes - sizeof(Tail), sizeof(Tail));
  const std::uint64_t all = std::uint64_t{out_tail->count} * sizeof(Bound) + sizeof(Tail);
  if (out_tail->unused >= kBoundAlign || all > bytes || out_tail->unused > bytes - all) return false;
  *out_at = bytes - all;
  return true;
}

}  // namespace

// ---- Writing -----------------------------------------------------------------------------------------

Status BoundsWriter::declare(std::string_view schema, const std::string& address) {
  fields_.clear();
  columns_.clear();
  if (!copy_schema(schema, &metadata_)) return LWMQ_OK;  // the library does not judge schemas
  Flatbuffer in(metadata_);
  std::string_view names = value_of(in, kKey);
  if (names.empty() || !read_fields(metadata_, &fields_)) return LWMQ_OK;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find('\n'));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    std::uint32_t number = 0;
    const SchemaField* field = nullptr;
    if (const Status status = find_column(fields_, name, address, &number, &field); status != LWMQ_OK)
      return status;
    const Ranking ranking = ranking_of(in, *field);
    if (ranking.kind == Ranking::kNone)
      return no_such_column(
          address, name,
          "can have no bounds: they are for numbers of up to 64 bits, dates, times, texts and binaries");
    columns_.push_back({number, ranking});
  }
  std::ranges::sort(columns_, {}, &Column::number);
  const auto twice = std::ranges::unique(columns_, {}, &Column::number);
  columns_.erase(twice.begin(), twice.end());
  for (SchemaField& field : fields_) field.name = {};  // metadata_ is used again
  return LWMQ_OK;
}

std::uint64_t BoundsWriter::room() const noexcept {
  return columns_.empty() ? 0 : kBoundAlign + columns_.size() * sizeof(Bound) + sizeof(Tail);
}

std::uint64_t BoundsWriter::append(std::uint8_t* block, std::uint64_t bytes, std::uint64_t limit,
                                   std::uint32_t* flags) {
  const std::uint8_t* body = nullptr;
  std::uint64_t body_bytes = 0;
  *flags &= ~wire::kBatchBounds;
  std::uint64_t at = align_up(bytes, kBoundAlign);
  if (columns_.empty() || !fits(bytes, room(), limit) ||
      !find_record_batch(block, bytes, &metadata_, &body, &body_bytes))
    return bytes;
  Flatbuffer in(metadata_);
  const std::uint64_t view_counts = in.table(in.table(in.root(), kMessageHeader), kBatchViewCounts);
  std::uint64_t node = 0, buffer = 0, view = 0;
  std::uint32_t columns = 0;
  Tail tail{0, static_cast<std::uint32_t>(at - bytes)};
  auto next = columns_.begin();
  for (const SchemaField& field : fields_) {
    if (!field.is_in_batch) continue;
    if (field.depth == 0) ++columns;
    if (field.depth == 0 && next != columns_.end() && next->number + 1 == columns) {
      Values values{};
      std::uint64_t nulls = 0;
      Bound bound{next->number, 0, 0, 0};
      if (find_values(in, node, buffer, next->ranking, body, body_bytes, &values, &nulls) &&
          find_bound(next->ranking, values, &bound)) {
        bound.holds = (values.rows > nulls ? kValues : 0) | (nulls > 0 ? kNulls : 0);
        std::memcpy(block + at, &bound, sizeof bound);
        at += sizeof bound;
        ++tail.count;
      }
      ++next;
    }
    ++node;
    buffer += field.buffers;
    if (field.is_view) buffer += in.number<std::uint64_t>(view_counts + 4 + 8 * view++);
  }
  if (tail.count == 0) return bytes;
  std::memcpy(block + at, &tail, sizeof tail);
  *flags |= wire::kBatchBounds;
  return at + sizeof tail;
}

// ---- Reading -----------------------------------------------------------------------------------------

bool Filters::take(const std::vector<wire::FilterField>& filters) {
  filters_ = filters;
  return std::ranges::all_of(filters, [](const wire::FilterField& filter) {
    const bool has_value =
        filter.literal_kind >= LWMQ_LITERAL_INTEGER && filter.literal_kind <= LWMQ_LITERAL_MICROSECONDS;
    const bool tests_null = filter.comparison == LWMQ_IS_NULL || filter.comparison == LWMQ_IS_NOT_NULL;
    return tests_null
               ? filter.literal_kind == LWMQ_LITERAL_NONE
               : has_value && filter.comparison >= LWMQ_EQUAL && filter.comparison <= LWMQ_GREATER_OR_EQUAL;
  });
}

Status Filters::declare(std::string_view schema, const std::string& address) {
  tests_.clear();
  std::string metadata;
  std::vector<SchemaField> fields;
  if (filters_.empty() || !copy_schema(schema, &metadata) || !read_fields(metadata, &fields)) return LWMQ_OK;
  Flatbuffer in(metadata);
  for (const wire::FilterField& filter : filters_) {
    Test test{0, filter.comparison, true, 0};
    const SchemaField* field = nullptr;
    if (const Status status = find_column(fields, filter.column, address, &test.column, &field);
        status != LWMQ_OK)
      return status;
    if (filter.literal_kind == LWMQ_LITERAL_NONE) {
      tests_.push_back(test);
      continue;
    }
    const Found found = rank_of(filter, ranking_of(in, *field), &test.rank, &test.is_exact);
    if (found == Found::kOther)
      return no_such_column(address, filter.column,
                            "holds no values that compare with the one of its filter");
    if (found == Found::kRank) tests_.push_back(test);
  }
  return LWMQ_OK;
}

bool Filters::exclude(const std::uint8_t* batch, std::uint64_t bytes, std::uint32_t flags) const noexcept {
  Tail tail{};
  std::uint64_t at = 0;
  if (tests_.empty() || !find_bounds(batch, bytes, flags, &tail, &at)) return false;
  for (std::uint32_t i = 0; i < tail.count; ++i, at += sizeof(Bound)) {
    Bound bound;
    std::memcpy(&bound, batch + at, sizeof bound);
    for (const Test& test : tests_) {
      if (test.column == bound.column && excludes(test.comparison, test.rank, test.is_exact, bound))
        return true;
    }
  }
  return false;
}

std::uint64_t bytes_before_bounds(const std::uint8_t* batch, std::uint64_t bytes,
                                  std::uint32_t flags) noexcept {
  Tail tail{};
  std::uint64_t at = 0;
  return find_bounds(batch, bytes, flags, &tail, &at) ? at - tail.unused : bytes;
}

}  // namespace lwmq::stream
