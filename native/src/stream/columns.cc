#include "stream/columns.h"

#include <algorithm>

#include "base/checked.h"
#include "base/limits.h"
#include "lwmq/lwmq.h"
#include "stream/ipc_metadata.h"

namespace lwmq::stream {
namespace {

// Ranges that lie so close cross as one, because each range has a head of its own on the wire.
constexpr std::uint64_t kGapBytes = 256;

constexpr std::size_t kListedBytesMax = 200;  // of the names in an error

}  // namespace

Columns::Columns(std::vector<std::string> names, std::size_t ranges_max)
    : names_(std::move(names)), are_all_(false), ranges_max_(ranges_max) {
  std::ranges::sort(names_);
}

// Reads all fields of the schema in `metadata`, and the names of its columns.
bool Columns::read_schema(std::string_view metadata, Schema* out_schema,
                          std::vector<std::string_view>* out_names) const {
  std::vector<SchemaField> fields;
  if (!read_fields(metadata, &fields)) return false;
  *out_schema = {};
  bool is_wanted = false;
  for (const SchemaField& field : fields) {
    if (field.depth == 0) {
      is_wanted = std::ranges::binary_search(names_, field.name);
      out_names->push_back(field.name);
    }
    if (field.is_encoded && is_wanted) out_schema->dictionaries.push_back(field.dictionary);
    if (field.is_in_batch) out_schema->fields.push_back({field.buffers, field.is_view, is_wanted});
  }
  std::ranges::sort(out_schema->dictionaries);
  return true;
}

Status Columns::declare(std::string_view schema, const std::string& address) {
  if (are_all_) return LWMQ_OK;
  std::vector<std::string_view> there;
  is_declared_ =
      copy_metadata(reinterpret_cast<const std::uint8_t*>(schema.data()), schema.size(), 0, &metadata_) &&
      read_schema(metadata_, &declared_, &there);
  if (!is_declared_) return LWMQ_OK;
  std::vector<std::string_view> sorted = there;
  std::ranges::sort(sorted);
  for (const std::string& name : names_) {
    const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), std::string_view(name));
    if (last - first == 1) continue;
    std::string all;
    for (const std::string_view column : there) {
      if (all.size() + column.size() > kListedBytesMax) break;
      all.append(all.empty() ? "" : ", ").append(column);
    }
    return fail(LWMQ_E_SCHEMA, "%s: the stream has %s column \"%.*s\"; its %zu columns are %s",
                address.c_str(), first == last ? "no" : "more than one", static_cast<int>(kNameBytesMax),
                name.c_str(), there.size(), all.c_str());
  }
  return LWMQ_OK;
}

const std::vector<ByteRange>& Columns::find(const std::uint8_t* batch, std::uint64_t bytes,
                                            std::uint32_t flags) {
  ranges_.clear();
  if (are_all_ || !find_ranges(batch, bytes, flags)) ranges_.assign(1, {0, bytes});
  return ranges_;
}

// A batch is one message, or a stream of a schema, dictionaries and one batch.
bool Columns::find_ranges(const std::uint8_t* batch, std::uint64_t bytes, std::uint32_t flags) {
  const bool is_stream = (flags & LWMQ_BATCH_IPC_STREAM) != 0;
  if (!is_stream && !is_declared_) return false;
  Schema own;
  for (std::uint64_t at = 0;;) {
    if (!copy_metadata(batch, bytes, at, &metadata_)) return false;
    Flatbuffer in(metadata_);
    const std::uint64_t message = in.root();
    const auto type = in.number<std::uint8_t>(in.field(message, kMessageType));
    const auto body_bytes = in.number<std::uint64_t>(in.field(message, kMessageBodyBytes));
    const std::uint64_t body = at + kPrefixBytes + metadata_.size();
    if (!in.is_sound() || !fits(body, body_bytes, bytes)) return false;
    ranges_.push_back({at, body - at});
    at = body + body_bytes;
    if (type == kRecordBatch) {
      if (!add_buffers(metadata_, is_stream ? own.fields : declared_.fields, body, body_bytes)) return false;
      if (at < bytes) ranges_.push_back({at, bytes - at});
      merge_ranges();
      return true;
    }
    std::vector<std::string_view> names;
    if (!is_stream || (type != kSchema && type != kDictionaryBatch)) return false;
    if (type == kSchema && !read_schema(metadata_, &own, &names)) return false;
    if (type == kSchema || is_needed(metadata_, own)) ranges_.push_back({body, body_bytes});
  }
}

// Whether a reader of these columns looks at the bytes of a dictionary. It takes in the metadata of each, and
// would unpack one that is compressed, or add one that is a delta to the one before.
bool Columns::is_needed(std::string_view metadata, const Schema& schema) {
  Flatbuffer in(metadata);
  const std::uint64_t dictionary = in.table(in.root(), kMessageHeader);
  const auto id = in.number<std::int64_t>(in.field(dictionary, kDictionaryId));
  const bool is_delta = in.number<std::uint8_t>(in.field(dictionary, kDictionaryIsDelta)) != 0;
  const bool is_packed = in.field(in.table(dictionary, kDictionaryBatchTable), kBatchCompression) != 0;
  return !in.is_sound() || is_delta || is_packed || std::ranges::binary_search(schema.dictionaries, id);
}

// Adds the ranges of the buffers that are wanted. False: the batch has other buffers than the fields need.
bool Columns::add_buffers(std::string_view metadata, const std::vector<Field>& fields, std::uint64_t body,
                          std::uint64_t body_bytes) {
  Flatbuffer in(metadata);
  const std::uint64_t batch = in.table(in.root(), kMessageHeader);
  const std::uint64_t buffers = in.table(batch, kBatchBuffers);
  const std::uint64_t view_counts = in.table(batch, kBatchViewCounts);
  const auto count = in.number<std::uint32_t>(buffers);
  const auto view_count = in.number<std::uint32_t>(view_counts);
  std::uint64_t next = 0, next_view = 0;
  for (const Field& field : fields) {
    std::uint64_t more = field.buffers;
    if (field.is_view) {
      if (next_view == view_count) return false;
      more += in.number<std::uint64_t>(view_counts + 4 + 8 * next_view++);
    }
    if (more > count - next) return false;
    for (; more > 0; --more, ++next) {
      if (!field.is_wanted) continue;
      const std::uint64_t place = buffers + 4 + 16 * next;
      const auto offset = in.number<std::uint64_t>(place);
      const auto bytes = in.number<std::uint64_t>(place + 8);
      if (!in.is_sound() || !fits(offset, bytes, body_bytes)) return false;
      if (bytes > 0) ranges_.push_back({body + offset, bytes});
    }
  }
  return in.is_sound() && next == count;
}

void Columns::merge_ranges() {
  std::ranges::sort(ranges_, {}, &ByteRange::offset);
  std::uint64_t gap = kGapBytes;
  do {
    std::size_t last = 0;
    for (std::size_t i = 1; i < ranges_.size(); ++i) {
      const std::uint64_t end = ranges_[last].offset + ranges_[last].bytes;
      if (ranges_[i].offset <= end + gap)
        ranges_[last].bytes = std::max(end, ranges_[i].offset + ranges_[i].bytes) - ranges_[last].offset;
      else
        ranges_[++last] = ranges_[i];
    }
    ranges_.resize(last + 1);
    gap *= 2;
  } while (ranges_.size() > ranges_max_);
}

}  // namespace lwmq::stream
