// Where blocks of one size come from, and go back to: mappings of our own, each cut into blocks, and unmapped
// when all of its blocks are back. A heap would keep what a burst has taken: one block at its end is enough.
//
// Some empty slabs stay, so that a queue which is now longer, now shorter costs no page faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/cache_line.h"

namespace lwmq::message {

class Slabs {
 public:
  // Blocks of `block_bytes`, a multiple of a cache line. Constant-initialised: threads take blocks early.
  explicit constexpr Slabs(std::size_t block_bytes) noexcept
      : block_bytes_(block_bytes), slab_bytes_(slab_for(block_bytes)) {}

  // At a cache line, not initialised. Null when memory is short. Any thread.
  [[nodiscard]] void* take() noexcept;
  // Blocks that are linked through their first word. Any thread.
  void give(void* first, std::size_t count) noexcept;

  // Around a fork, so that the child finds nothing half done.
  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }

 private:
  struct Slab {
    Slab* before;  // in the list of those that have a block to give
    Slab* next;
    void* spare;          // linked through their first words
    std::uint32_t taken;  // blocks that are out
    std::uint32_t cut;    // blocks that were ever out: those behind them were never touched
  };
  static constexpr std::size_t kSlabBytes = std::size_t{1} << 20;
  static constexpr std::size_t kBlocksMin = 7;
  static constexpr std::size_t kEmptyBytesKept = std::size_t{8} << 20;

  static constexpr std::size_t slab_for(std::size_t block_bytes) noexcept {
    std::size_t bytes = kSlabBytes;
    while (bytes < kCacheLine + kBlocksMin * block_bytes) bytes *= 2;
    return bytes;
  }
  [[nodiscard]] std::size_t blocks() const noexcept { return (slab_bytes_ - kCacheLine) / block_bytes_; }
  [[nodiscard]] void* map() const noexcept;
  void link(Slab* slab) noexcept;
  void unlink(Slab* slab) noexcept;
  [[nodiscard]] Slab* slab_of(void* block) const noexcept;

  const std::size_t block_bytes_;
  const std::size_t slab_bytes_;  // a power of two, and where a slab begins is a multiple of it
  std::mutex mutex_;              // guards what follows
  Slab* open_ = nullptr;          // those that have a block to give
  std::size_t empty_bytes_ = 0;   // of slabs among them that have all
};

}  // namespace lwmq::message
