// CRC-32C (Castagnoli), the checksum of iSCSI (RFC 3720, appendix B.4).
#pragma once

#include <cstddef>
#include <cstdint>

namespace lwmq {

// The checksum of what `crc` is the checksum of, followed by `bytes` bytes of `data`. 0 is that of nothing.
[[nodiscard]] std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t bytes) noexcept;

}  // namespace lwmq
