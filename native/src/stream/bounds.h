// The least and the greatest value of columns in each batch, and filters that pass over batches by them.
//
// The schema of a stream names the columns that have bounds: in its metadata, each on a line of
// `lwmq.bounds`. A writer puts the bounds of a batch behind it. A reader with filters moves past each batch
// in which no row can match; over a network the carrier then pushes nothing of it but the bounds. A batch
// without bounds, and one that cannot be taken apart, may match.
//
// Bounds compare as *ranks*, numbers of 64 bits in the order of the values. Integers, dates and times have
// one for each value. So has floating point: NaN is above everything, and -0.0 is 0.0. The rank of texts and
// binaries is their first eight bytes, so others of the same rank may lie on either side of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "lwmq/lwmq.h"
#include "stream/ipc_metadata.h"
#include "wire/stream_messages.h"

namespace lwmq::stream {

// How the values of a column become ranks.
struct Ranking {
  enum Kind : std::uint8_t { kNone, kSigned, kUnsigned, kFloat, kText };
  enum Meaning : std::uint8_t { kNumber, kDate, kTimestamp };
  Kind kind = kNone;
  std::uint8_t width = 0;  // bytes of a value; of an offset, where it is a text
  Meaning meaning = kNumber;
  std::int64_t ticks = 1;  // of a date: in a day; of a timestamp: in a second
};

class BoundsWriter {
 public:
  // LWMQ_E_SCHEMA: the metadata names a column that is missing, or whose values have no order here.
  Status declare(std::string_view schema, const std::string& address);
  // Of a block, beyond those of its batch.
  [[nodiscard]] std::uint64_t room() const noexcept;
  // Puts the bounds behind the batch in `block`, where they fit in front of `limit`, and notes that in
  // `flags`. How many bytes there are now.
  std::uint64_t append(std::uint8_t* block, std::uint64_t bytes, std::uint64_t limit, std::uint32_t* flags);

 private:
  struct Column {
    std::uint32_t number;
    Ranking ranking;
  };
  std::vector<SchemaField> fields_;  // without their names
  std::vector<Column> columns_;      // that have bounds, in ascending order
  std::string metadata_;             // a private copy of what is being read
};

class Filters {
 public:
  // Those of a reader; none: everything matches. False: one of them has no meaning.
  bool take(const std::vector<wire::FilterField>& filters);
  // LWMQ_E_SCHEMA: a column is missing, or holds no such values.
  Status declare(std::string_view schema, const std::string& address);
  // No row of the batch matches all filters.
  [[nodiscard]] bool exclude(const std::uint8_t* batch, std::uint64_t bytes,
                             std::uint32_t flags) const noexcept;

 private:
  struct Test {
    std::uint32_t column;
    std::uint32_t comparison;  // lwmq_comparison
    bool is_exact;             // else other values have the same rank
    std::uint64_t rank;
  };
  std::vector<wire::FilterField> filters_;
  std::vector<Test> tests_;
};

// How many of the bytes are the batch itself.
std::uint64_t bytes_before_bounds(const std::uint8_t* batch, std::uint64_t bytes,
                                  std::uint32_t flags) noexcept;

}  // namespace lwmq::stream
