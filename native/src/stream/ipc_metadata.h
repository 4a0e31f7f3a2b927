// The metadata of Arrow IPC messages: flatbuffers, as Message.fbs and Schema.fbs of the Arrow format describe
// them. All bytes come from somebody else, and each step through them is checked.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"

namespace lwmq::stream {

// In front of the metadata of each message: a mark, and how many bytes there are.
inline constexpr std::uint64_t kPrefixBytes = 8;

enum Header : std::uint8_t { kSchema = 1, kDictionaryBatch = 2, kRecordBatch = 3 };
enum Type : std::uint8_t {
  kNull = 1,
  kInt = 2,
  kFloatingPoint = 3,
  kBinary = 4,
  kUtf8 = 5,
  kDate = 8,
  kTime = 9,
  kTimestamp = 10,
  kStruct = 13,
  kUnion = 14,
  kFixedSizeList = 16,
  kDuration = 18,
  kLargeBinary = 19,
  kLargeUtf8 = 20,
  kRunEndEncoded = 22,
  kBinaryView = 23,
  kUtf8View = 24,
  kListView = 25,
  kLargeListView = 26,  // the last one
};

// The fields of a table: message, pair, schema, field, dictionary encoding, record batch, dictionary batch.
inline constexpr std::uint32_t kMessageType = 1, kMessageHeader = 2, kMessageBodyBytes = 3;
inline constexpr std::uint32_t kPairKey = 0, kPairValue = 1;
inline constexpr std::uint32_t kSchemaFields = 1, kSchemaPairs = 2;
inline constexpr std::uint32_t kFieldName = 0, kFieldType = 2, kFieldTypeTable = 3, kFieldDictionary = 4,
                               kFieldChildren = 5;
inline constexpr std::uint32_t kEncodingId = 0;
inline constexpr std::uint32_t kBatchNodes = 1, kBatchBuffers = 2, kBatchCompression = 3,
                               kBatchViewCounts = 4;
inline constexpr std::uint32_t kDictionaryId = 0, kDictionaryBatchTable = 1, kDictionaryIsDelta = 2;

// A flatbuffer. Each step is checked to stay inside; a step that does not yields 0, and is_sound() says so
// from then on. The place 0 stands for a field that is not there, and leads nowhere but to 0.
class Flatbuffer {
 public:
  explicit Flatbuffer(std::string_view bytes) noexcept : bytes_(bytes) {}

  [[nodiscard]] bool is_sound() const noexcept { return is_sound_; }

  template <typename T>
  T number(std::uint64_t at) noexcept {
    T value{};
    if (at == 0) return value;
    if (fits(at, sizeof value, bytes_.size()))
      std::memcpy(&value, bytes_.data() + at, sizeof value);
    else
      is_sound_ = false;
    return value;
  }
  std::uint64_t root() noexcept {
    std::uint32_t at = 0;
    if (bytes_.size() < sizeof at)
      is_sound_ = false;
    else
      std::memcpy(&at, bytes_.data(), sizeof at);
    return at;
  }
  // Where field `index` of `table` lies.
  std::uint64_t field(std::uint64_t table, std::uint32_t index) noexcept {
    if (table == 0) return 0;
    const std::int64_t vtable = static_cast<std::int64_t>(table) - number<std::int32_t>(table);
    if (vtable <= 0) {
      is_sound_ = false;
      return 0;
    }
    const auto at = static_cast<std::uint64_t>(vtable);
    const std::uint64_t entry = 4 + 2 * std::uint64_t{index};
    if (entry + 2 > number<std::uint16_t>(at)) return 0;
    const auto offset = number<std::uint16_t>(at + entry);
    return offset == 0 ? 0 : table + offset;
  }
  // The table, text or vector to which the offset at `at` leads.
  std::uint64_t follow(std::uint64_t at) noexcept { return at == 0 ? 0 : at + number<std::uint32_t>(at); }
  std::uint64_t table(std::uint64_t parent, std::uint32_t index) noexcept {
    return follow(field(parent, index));
  }
  std::string_view text(std::uint64_t at) noexcept {
    const auto bytes = number<std::uint32_t>(at);
    if (at == 0 || !fits(at + 4, bytes, bytes_.size())) return {};
    return bytes_.substr(at + 4, bytes);
  }

 private:
  std::string_view bytes_;
  bool is_sound_ = true;
};

// Copies the metadata of the message at `at`. False: no message lies there.
bool copy_metadata(const std::uint8_t* data, std::uint64_t bytes, std::uint64_t at, std::string* out);

// One field of a schema.
struct SchemaField {
  std::string_view name;  // lent by the metadata
  std::uint64_t type_table;
  std::int64_t dictionary;  // where is_encoded
  std::uint32_t depth;      // 0: a column
  Type type;                // kInt where is_encoded: of the indices
  std::uint8_t buffers;     // that it has by itself
  bool is_view;             // more buffers follow, and each batch says how many
  bool is_encoded;
  bool is_in_batch;  // not within a dictionary
};

// All fields of the schema message, in pre-order, as the buffers of a batch come. False: it is no schema, or
// not sound.
bool read_fields(std::string_view metadata, std::vector<SchemaField>* out_fields);

}  // namespace lwmq::stream
