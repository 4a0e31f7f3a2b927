#include "stream/ipc_metadata.h"

#include <atomic>

namespace lwmq::stream {
namespace {

constexpr std::uint32_t kContinuation = 0xFFFFFFFF;
constexpr std::uint64_t kFieldBytesMin = 16;  // of a field in a schema
constexpr std::uint32_t kDepthMax = 64;       // as deep as Arrow's own readers go

// How many buffers a field has by itself. False: there is no such type.
bool count_buffers(Flatbuffer& in, SchemaField* field) {
  field->buffers = 2;  // validity, and values or offsets
  switch (field->type) {
    case kNull:
    case kRunEndEncoded:
      field->buffers = 0;
      break;
    case kStruct:
    case kFixedSizeList:
      field->buffers = 1;
      break;
    case kUnion:  // sparse: types; dense: also offsets
      field->buffers = in.number<std::int16_t>(in.field(field->type_table, 0)) == 0 ? 1 : 2;
      break;
    case kBinary:
    case kUtf8:
    case kLargeBinary:
    case kLargeUtf8:
    case kListView:
    case kLargeListView:
      field->buffers = 3;
      break;
    case kBinaryView:
    case kUtf8View:
      field->is_view = true;
      break;
    default:
      return field->type != 0 && field->type <= kLargeListView;
  }
  return true;
}

// `seen_max`: a child may be named more than once. The fields of dictionaries are not in a batch, but may
// have dictionaries in their turn.
bool read_fields(Flatbuffer& in, std::uint64_t fields, std::uint32_t depth, bool is_in_batch,
                 std::size_t seen_max, std::vector<SchemaField>* out_fields) {
  const auto count = in.number<std::uint32_t>(fields);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!in.is_sound() || out_fields->size() == seen_max || depth == kDepthMax) return false;
    const std::uint64_t at = in.follow(fields + 4 + 4 * std::uint64_t{i});
    SchemaField field{};
    field.name = in.text(in.table(at, kFieldName));
    field.type_table = in.table(at, kFieldTypeTable);
    field.depth = depth;
    field.type = static_cast<Type>(in.number<std::uint8_t>(in.field(at, kFieldType)));
    field.is_in_batch = is_in_batch;
    if (const std::uint64_t encoding = in.table(at, kFieldDictionary); encoding != 0) {
      field.is_encoded = true;
      field.type = kInt;
      field.dictionary = in.number<std::int64_t>(in.field(encoding, kEncodingId));
    }
    if (!count_buffers(in, &field)) return false;
    out_fields->push_back(field);
    if (!read_fields(in, in.table(at, kFieldChildren), depth + 1, is_in_batch && !field.is_encoded, seen_max,
                     out_fields))
      return false;
  }
  return in.is_sound();
}

}  // namespace

bool copy_metadata(const std::uint8_t* data, std::uint64_t bytes, std::uint64_t at, std::string* out) {
  if (!fits(at, kPrefixBytes, bytes)) return false;
  std::uint32_t prefix[2];
  std::memcpy(prefix, data + at, sizeof prefix);
  // Checked, so it must not be loaded again: the writer may change it now.
  std::atomic_signal_fence(std::memory_order_acq_rel);
  if (prefix[0] != kContinuation || !fits(at + kPrefixBytes, prefix[1], bytes)) return false;
  out->assign(reinterpret_cast<const char*>(data + at + kPrefixBytes), prefix[1]);
  return true;
}

bool read_fields(std::string_view metadata, std::vector<SchemaField>* out_fields) {
  Flatbuffer in(metadata);
  out_fields->clear();
  const std::uint64_t message = in.root();
  return in.number<std::uint8_t>(in.field(message, kMessageType)) == kSchema &&
         read_fields(in, in.table(in.table(message, kMessageHeader), kSchemaFields), 0, true,
                     metadata.size() / kFieldBytesMin, out_fields);
}

}  // namespace lwmq::stream
