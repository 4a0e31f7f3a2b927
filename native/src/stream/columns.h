// The columns that a reader has asked for, and where they lie in a batch.
//
// A batch crosses a network in *ranges*: its metadata, and the buffers of the columns that were asked for. To
// find them the carrier reads the schema of the stream and the metadata of each batch, which are flatbuffers
// of Arrow IPC. All these bytes come from a peer. A batch or a schema that cannot be taken apart is no error:
// such a batch crosses whole, and the reader judges it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lwmq::stream {

struct ByteRange {
  std::uint64_t offset, bytes;
};

class Columns {
 public:
  Columns() = default;  // all
  // `ranges_max`: of one batch. To stay below it, bytes are added that nobody needs.
  explicit Columns(std::vector<std::string> names, std::size_t ranges_max = 1);

  [[nodiscard]] bool are_all() const noexcept { return are_all_; }

  // Finds the names among the top-level fields of `schema`, an encapsulated schema message.
  // LWMQ_E_SCHEMA: a column is missing, or several have its name.
  Status declare(std::string_view schema, const std::string& address);

  // Which ranges of the batch a reader of these columns needs, in ascending order. `flags`: LWMQ_BATCH_*.
  // The result is lent until the next call.
  const std::vector<ByteRange>& find(const std::uint8_t* batch, std::uint64_t bytes, std::uint32_t flags);

 private:
  // How many buffers a field has by itself. The fields of a schema come in pre-order, as in a batch.
  struct Field {
    std::uint8_t buffers;
    bool is_view;    // more buffers follow, and each batch says how many
    bool is_wanted;  // it belongs to a column that was asked for
  };
  struct Schema {
    std::vector<Field> fields;
    std::vector<std::int64_t> dictionaries;  // ids of those that belong to wanted columns, sorted
  };

  bool read_schema(std::string_view metadata, Schema* out_schema,
                   std::vector<std::string_view>* out_names) const;
  bool find_ranges(const std::uint8_t* batch, std::uint64_t bytes, std::uint32_t flags);
  static bool is_needed(std::string_view metadata, const Schema& schema);
  bool add_buffers(std::string_view metadata, const std::vector<Field>& fields, std::uint64_t body,
                   std::uint64_t body_bytes);
  void merge_ranges();

  std::vector<std::string> names_;  // sorted
  bool are_all_ = true;
  std::size_t ranges_max_ = 1;
  Schema declared_;
  bool is_declared_ = false;
  std::string metadata_;  // a private copy of what is being read
  std::vector<ByteRange> ranges_;
};

}  // namespace lwmq::stream
