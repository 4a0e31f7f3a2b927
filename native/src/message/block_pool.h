// Blocks of one size, for message handles and what they own: recycled, so that a small message
// costs no malloc.
//
// Each thread keeps some blocks at hand. A thread that gives back more than it takes (the one that ships)
// hands whole magazines over to a common depot, where a thread that takes more (the one that posts) finds
// them: one lock for each kMagazineBlocks blocks, none for a thread that does both. Above kDepotMagazinesMax
// the heap gets them back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cache_line.h"

namespace lwmq::message {

inline constexpr std::size_t kBlockBytes = 3 * kCacheLine;
inline constexpr std::size_t kMagazineBlocks = 64;
inline constexpr std::size_t kDepotMagazinesMax = 512;  // 6 MiB

// A block of kBlockBytes at a cache line, not initialised. Null when memory is short.
[[nodiscard]] void* take_block() noexcept;

// Takes a block that take_block gave, on any thread. NULL is not allowed.
void give_block(void* block) noexcept;

}  // namespace lwmq::message
