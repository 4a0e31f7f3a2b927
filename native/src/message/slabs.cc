#include "message/slabs.h"

#include <sys/mman.h>

#include <cstdlib>

namespace lwmq::message {

#if defined(__SANITIZE_ADDRESS__)

// Each block by itself, so that the sanitizer sees who uses one that is gone, and what is never given back.
void* Slabs::take() noexcept { return std::aligned_alloc(kCacheLine, block_bytes_); }
void Slabs::give(void* first, std::size_t count) noexcept {
  for (; count > 0; --count) {
    void* next = *static_cast<void**>(first);
    std::free(first);
    first = next;
  }
}

#else

void* Slabs::take() noexcept {
  const std::lock_guard lock(mutex_);
  if (open_ == nullptr) {
    auto* made = static_cast<Slab*>(map());
    if (made == nullptr) return nullptr;
    *made = {};
    link(made);
    empty_bytes_ += slab_bytes_;
  }
  Slab* slab = open_;
  if (slab->taken == 0) empty_bytes_ -= slab_bytes_;
  void* block = slab->spare;
  if (block != nullptr) {
    slab->spare = *static_cast<void**>(block);
  } else {
    block = reinterpret_cast<char*>(slab) + kCacheLine + slab->cut++ * block_bytes_;
  }
  if (++slab->taken == blocks()) unlink(slab);
  return block;
}

void Slabs::give(void* first, std::size_t count) noexcept {
  Slab* unneeded = nullptr;  // unmapped without the lock
  {
    const std::lock_guard lock(mutex_);
    for (; count > 0; --count) {
      void* block = first;
      first = *static_cast<void**>(block);
      Slab* slab = slab_of(block);
      *static_cast<void**>(block) = slab->spare;
      slab->spare = block;
      if (slab->taken-- == blocks()) link(slab);
      if (slab->taken > 0) continue;
      if (empty_bytes_ + slab_bytes_ <= kEmptyBytesKept) {
        empty_bytes_ += slab_bytes_;
      } else {
        unlink(slab);
        slab->next = unneeded;
        unneeded = slab;
      }
    }
  }
  while (unneeded != nullptr) {
    Slab* slab = unneeded;
    unneeded = slab->next;
    munmap(slab, slab_bytes_);
  }
}

// As many bytes as a slab has, at a multiple of that.
void* Slabs::map() const noexcept {
  void* mapped = mmap(nullptr, 2 * slab_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
  const std::size_t before = -begin & (slab_bytes_ - 1);
  if (before > 0) munmap(mapped, before);
  munmap(static_cast<char*>(mapped) + before + slab_bytes_, slab_bytes_ - before);
  return static_cast<char*>(mapped) + before;
}

void Slabs::link(Slab* slab) noexcept {
  slab->before = nullptr;
  slab->next = open_;
  if (open_ != nullptr) open_->before = slab;
  open_ = slab;
}

void Slabs::unlink(Slab* slab) noexcept {
  (slab->before != nullptr ? slab->before->next : open_) = slab->next;
  if (slab->next != nullptr) slab->next->before = slab->before;
}

Slabs::Slab* Slabs::slab_of(void* block) const noexcept {
  return reinterpret_cast<Slab*>(reinterpret_cast<std::uintptr_t>(block) & ~(slab_bytes_ - 1));
}

#endif

}  // namespace lwmq::message
