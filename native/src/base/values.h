// What users write, as numbers: sizes, durations, counts, flags and words. Every face of the library reads
// them here, so the same text means the same in an address, an argument, a file and an option.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace lwmq {

// Reads `text` as a value of `kind` (LWMQ_VALUE_*); `words` are those of LWMQ_VALUE_WORD, with ", " between.
// LWMQ_E_INVALID: the text says what is wrong with the value and what is allowed, and not where the value
// stands.
Status read_value(std::uint32_t kind, const char* words, std::string_view text,
                  std::uint64_t* out_value) noexcept;

// A duration in nanoseconds, where a number without a unit counts `bare_ns` each. False: it is none.
bool read_duration(std::string_view text, std::uint64_t bare_ns, std::uint64_t* out_ns) noexcept;

// False: no size, or no whole number of bytes, or beyond 63 bits, which is what Java can count.
bool read_bytes(std::string_view text, std::uint64_t* out_bytes) noexcept;

// The place of `word` among `words`, in any case; -1: it is none of them.
std::int64_t find_word(std::string_view word, std::string_view words) noexcept;

// The one of `words` for which `word` may be a slip; empty: none is near.
std::string_view nearest_word(std::string_view word, std::string_view words) noexcept;

}  // namespace lwmq
