#include "message/block_pool.h"

#include <cstdlib>
#include <iterator>
#include <mutex>

#include "base/checked.h"

namespace lwmq::message {
namespace {

// Spare blocks are linked through their first word.
struct Spare {
  Spare* next;
};

struct Magazine {
  Spare* first = nullptr;
  std::size_t count = 0;

  void push(void* block) noexcept {
    auto* spare = static_cast<Spare*>(block);
    spare->next = first;
    first = spare;
    ++count;
  }
  void* pop() noexcept {
    Spare* spare = first;
    first = spare->next;
    --count;
    return spare;
  }
};

void free_all(Magazine magazine) noexcept {
  while (magazine.count > 0) std::free(magazine.pop());
}

constexpr std::size_t kSizes = std::size(kBlockSizes);

// The smallest size with room for `bytes`; kSizes where there is none.
constexpr std::size_t size_for(std::size_t bytes) noexcept {
  std::size_t size = 0;
  while (size < kSizes && kBlockSizes[size].bytes < bytes) ++size;
  return size;
}

// Full magazines of one size, of all threads.
template <std::size_t kSize>
class Depot {
 public:
  // Never destroyed: threads give blocks back while the process exits.
  static Depot& only() noexcept {
    static auto* instance = new Depot;
    return *instance;
  }
  // False when the depot is full: the magazine is still the caller's.
  bool put(const Magazine& magazine) noexcept {
    const std::lock_guard lock(mutex_);
    if (count_ == kMost) return false;
    magazines_[count_++] = magazine;
    return true;
  }
  bool take(Magazine* out_magazine) noexcept {
    const std::lock_guard lock(mutex_);
    if (count_ == 0) return false;
    *out_magazine = magazines_[--count_];
    return true;
  }

 private:
  static constexpr std::size_t kMost = kBlockSizes[kSize].depot_magazines;
  std::mutex mutex_;
  std::size_t count_ = 0;
  Magazine magazines_[kMost];
};

enum class Phase : std::uint8_t { kFresh, kRegistered, kOver };

// Of one thread and size. Two magazines, so that taking and giving at the border of one does not go to the
// depot each time.
struct Cache {
  Magazine active;
  Magazine full;
};

struct Caches {
  Cache of[kSizes];
  Phase phase = Phase::kFresh;
};

// In the static block: a look costs one instruction instead of a call. A few words of it are free for
// libraries that are loaded late.
[[gnu::tls_model("initial-exec")]] constinit thread_local Caches t_caches;

// Empties the caches of a thread that ends.
struct Cleaner {
  Cleaner() noexcept { t_caches.phase = Phase::kRegistered; }
  ~Cleaner() {
    t_caches.phase = Phase::kOver;
    for (Cache& cache : t_caches.of) {
      free_all(cache.active);
      free_all(cache.full);
      cache = {};
    }
  }
};

[[gnu::noinline]] void register_thread() noexcept {
  static thread_local Cleaner cleaner;
  (void)&cleaner;
}

template <std::size_t kSize>
[[gnu::noinline]] void* take_slowly(Cache& cache) noexcept {
  if (t_caches.phase == Phase::kFresh) register_thread();
  if (cache.full.count > 0) {
    cache.active = cache.full;
    cache.full = {};
    return cache.active.pop();
  }
  if (t_caches.phase == Phase::kRegistered && Depot<kSize>::only().take(&cache.active))
    return cache.active.pop();
  return std::aligned_alloc(kCacheLine, kBlockSizes[kSize].bytes);
}

template <std::size_t kSize>
[[gnu::noinline]] void give_slowly(Cache& cache, void* block) noexcept {
  if (t_caches.phase == Phase::kFresh) register_thread();
  if (t_caches.phase == Phase::kOver) return std::free(block);
  if (cache.active.count == kBlockSizes[kSize].magazine_blocks) {
    if (cache.full.count > 0 && !Depot<kSize>::only().put(cache.full)) free_all(cache.full);
    cache.full = cache.active;
    cache.active = {};
  }
  cache.active.push(block);
}

template <std::size_t kSize>
void* take() noexcept {
  Cache& cache = t_caches.of[kSize];
  if (cache.active.count > 0) [[likely]]
    return cache.active.pop();
  return take_slowly<kSize>(cache);
}

template <std::size_t kSize>
void give(void* block) noexcept {
  Cache& cache = t_caches.of[kSize];
  if (t_caches.phase == Phase::kRegistered && cache.active.count < kBlockSizes[kSize].magazine_blocks)
      [[likely]] {
    return cache.active.push(block);
  }
  give_slowly<kSize>(cache, block);
}

static_assert(kSizes == 4);  // as many as there are cases below

}  // namespace

void* take_block() noexcept { return take<0>(); }
void give_block(void* block) noexcept { give<0>(block); }

void* take_memory(std::size_t bytes) noexcept {
  switch (size_for(bytes)) {
    case 0:
      return take<0>();
    case 1:
      return take<1>();
    case 2:
      return take<2>();
    case 3:
      return take<3>();
    default:
      return std::aligned_alloc(kCacheLine, align_up(bytes, kCacheLine));
  }
}

void give_memory(void* memory, std::size_t bytes) noexcept {
  switch (size_for(bytes)) {
    case 0:
      return give<0>(memory);
    case 1:
      return give<1>(memory);
    case 2:
      return give<2>(memory);
    case 3:
      return give<3>(memory);
    default:
      std::free(memory);
  }
}

}  // namespace lwmq::message
