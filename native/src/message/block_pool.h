// Blocks of a few sizes, for message handles and what they own: recycled, so that messages cost no malloc
// once some have gone, up to frames of 1 MiB.
//
// Each thread keeps some blocks of each size at hand, from 64 KiB on one. A thread that gives back more than
// it takes (the one that ships) hands whole magazines over to a common depot, where a thread that takes more
// (the one that posts) finds them: one lock for each magazine, none for a thread that does both. What the
// depot has no room for goes back to the slabs (slabs.h), and a burst's memory to the system.
//
// The depot lends what has lain there longest, and of large blocks none before it has 4 MiB of them: in one
// that was given back a moment ago each line has to come from the other thread's cache before it is written
// again (64 KiB from thread to thread: 7 GB/s, and 33 so).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/cache_line.h"

namespace lwmq::message {

inline constexpr std::size_t kBlockBytes = 3 * kCacheLine;
struct BlockSize {
  std::size_t bytes;
  std::size_t magazine_blocks;
  std::size_t depot_magazines;  // at most
  std::size_t depot_kept = 0;   // of these, before one is lent
};
// Handles; copied frames of up to so many bytes, with the line that counts them.
inline constexpr BlockSize kBlockSizes[] = {
    {kBlockBytes, 64, 512},                // 6 MiB at most in the depot
    {320 + kCacheLine, 64, 128},           // 3 MiB
    {1024 + kCacheLine, 32, 96},           // 3.2 MiB
    {4096 + kCacheLine, 16, 96, 64},       // 6 MiB, and so on
    {(16 << 10) + kCacheLine, 4, 96, 64},  //
    {(64 << 10) + kCacheLine, 1, 96, 64},  //
    {(256 << 10) + kCacheLine, 1, 24, 16},
    {(1 << 20) + kCacheLine, 1, 6, 4},
};

// A block of kBlockBytes at a cache line, not initialised. Null when memory is short.
[[nodiscard]] void* take_block() noexcept;

// Takes a block that take_block gave, on any thread. NULL is not allowed.
void give_block(void* block) noexcept;

// The same for any number of bytes, from the heap where they are too many for a block. Who gives them back
// says the number again.
[[nodiscard]] void* take_memory(std::size_t bytes) noexcept;
void give_memory(void* memory, std::size_t bytes) noexcept;

}  // namespace lwmq::message
