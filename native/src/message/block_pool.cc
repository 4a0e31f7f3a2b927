#include "message/block_pool.h"

#include <cstdlib>
#include <mutex>

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

// Full magazines, of all threads.
class Depot {
 public:
  // False when the depot is full: the magazine is still the caller's.
  bool put(const Magazine& magazine) noexcept {
    const std::lock_guard lock(mutex_);
    if (count_ == kDepotMagazinesMax) return false;
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
  std::mutex mutex_;
  std::size_t count_ = 0;
  Magazine magazines_[kDepotMagazinesMax];
};

// Never destroyed: threads give blocks back while the process exits.
Depot& depot() noexcept {
  static auto* instance = new Depot;
  return *instance;
}

enum class Phase : std::uint8_t { kFresh, kRegistered, kOver };

// Of one thread. Two magazines, so that taking and giving at the border of one does not go to the
// depot each time.
struct Cache {
  Magazine active;
  Magazine full;
  Phase phase = Phase::kFresh;
};

// In the static block: a look costs one instruction instead of a call. A few words of it are free for
// libraries that are loaded late.
[[gnu::tls_model("initial-exec")]] constinit thread_local Cache t_cache;

// Empties the cache of a thread that ends.
struct Cleaner {
  Cleaner() noexcept { t_cache.phase = Phase::kRegistered; }
  ~Cleaner() {
    t_cache.phase = Phase::kOver;
    free_all(t_cache.active);
    free_all(t_cache.full);
    t_cache.active = {};
    t_cache.full = {};
  }
};

[[gnu::noinline]] void register_thread() noexcept {
  static thread_local Cleaner cleaner;
  (void)&cleaner;
}

[[gnu::noinline]] void* take_slowly(Cache& cache) noexcept {
  if (cache.phase == Phase::kFresh) register_thread();
  if (cache.full.count > 0) {
    cache.active = cache.full;
    cache.full = {};
    return cache.active.pop();
  }
  if (cache.phase == Phase::kRegistered && depot().take(&cache.active)) return cache.active.pop();
  return std::aligned_alloc(kCacheLine, kBlockBytes);
}

[[gnu::noinline]] void give_slowly(Cache& cache, void* block) noexcept {
  if (cache.phase == Phase::kFresh) register_thread();
  if (cache.phase == Phase::kOver) return std::free(block);
  if (cache.active.count == kMagazineBlocks) {
    if (cache.full.count > 0 && !depot().put(cache.full)) free_all(cache.full);
    cache.full = cache.active;
    cache.active = {};
  }
  cache.active.push(block);
}

}  // namespace

void* take_block() noexcept {
  Cache& cache = t_cache;
  if (cache.active.count > 0) [[likely]]
    return cache.active.pop();
  return take_slowly(cache);
}

void give_block(void* block) noexcept {
  Cache& cache = t_cache;
  if (cache.phase == Phase::kRegistered && cache.active.count < kMagazineBlocks) [[likely]] {
    return cache.active.push(block);
  }
  give_slowly(cache, block);
}

}  // namespace lwmq::message
