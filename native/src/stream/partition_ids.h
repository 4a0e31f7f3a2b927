// The partition of each row, as Spark's hash partitioning chooses it: the hash of the key columns modulo the
// number of partitions. Equal keys of equal types meet in the same partition as in `repartition(n, key)`.
#pragma once

#include "base/status.h"
#include "stream/c_data.h"

namespace lwmq::stream {

// `keys`: a struct of the key columns, which `schema` describes. `out_ids`: one for each row.
// LWMQ_E_UNSUPPORTED names the first column whose type cannot be a key.
Status partition_ids(const ArrowSchema& schema, const ArrowArray& keys, std::uint32_t partitions,
                     std::uint32_t* out_ids) noexcept;

}  // namespace lwmq::stream
