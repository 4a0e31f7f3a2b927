#include "message/block_pool.h"

#include <pthread.h>

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <type_traits>
#include <utility>

#include "base/checked.h"
#include "message/slabs.h"

namespace lwmq::message {
namespace {

// Spare blocks are linked through their first word.
struct Spare {
  Spare* next;
};

// Of one that another thread has filled, each link lies on a line that is in the other core's cache, and
// tells where the next one is only when it has come. Blocks that were taken in order lie side by side, in one
// direction or the other: kAhead before a block is taken its first lines are asked for.
struct Magazine {
  static constexpr std::uint32_t kAhead = 4;

  Spare* first = nullptr;
  std::uint32_t count = 0;
  std::int32_t step = 0;  // from one to the next, where another thread has filled it; else 0

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
    if (step != 0) [[unlikely]]
      bring_near(spare);
    return spare;
  }
  // Of blocks of `bytes`: another thread's.
  void come_from_afar(std::size_t bytes) noexcept {
    const auto apart = reinterpret_cast<std::intptr_t>(first->next) - reinterpret_cast<std::intptr_t>(first);
    const auto one = static_cast<std::intptr_t>(bytes);
    step = apart == one || apart == -one ? static_cast<std::int32_t>(apart) : 0;
  }

 private:
  [[gnu::noinline]] void bring_near(const Spare* taken) const noexcept {
    asm volatile("");  // else a compiler finds no effect in here, and leaves the call out
    if (count < kAhead) return;
    const auto at = reinterpret_cast<std::intptr_t>(taken) + std::intptr_t{kAhead} * step;
    __builtin_prefetch(reinterpret_cast<void*>(at), 1);
    __builtin_prefetch(reinterpret_cast<void*>(at + static_cast<std::intptr_t>(kCacheLine)), 1);
  }
};

constexpr std::size_t kSizes = std::size(kBlockSizes);

// The smallest size with room for `bytes`; kSizes where there is none.
constexpr std::size_t size_for(std::size_t bytes) noexcept {
  std::size_t size = 0;
  while (size < kSizes && kBlockSizes[size].bytes < bytes) ++size;
  return size;
}

// Full magazines of one size, of all threads, the oldest first.
class Depot {
 public:
  // Where the depot is full, the oldest is the caller's then, else an empty one: of a burst, whose blocks
  // come back in the order in which they were taken, those that stay lie side by side, and pin few slabs.
  [[nodiscard]] Magazine put(const Magazine& magazine, std::size_t most) noexcept {
    const std::lock_guard lock(mutex_);
    Magazine oldest;
    if (count_ == most) oldest = pop();
    magazines_[(first_ + count_++) % std::size(magazines_)] = magazine;
    return oldest;
  }
  // False when it has no more than it keeps.
  bool take(Magazine* out_magazine, std::size_t kept) noexcept {
    const std::lock_guard lock(mutex_);
    if (count_ <= kept) return false;
    *out_magazine = pop();
    return true;
  }

  // Around a fork.
  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }

 private:
  Magazine pop() noexcept {
    const Magazine oldest = magazines_[first_];
    first_ = (first_ + 1) % std::size(magazines_);
    --count_;
    return oldest;
  }

  std::mutex mutex_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  Magazine magazines_[kBlockSizes[0].depot_magazines];  // the most of all
};

// Constant-initialised and never destroyed: threads give blocks back while the process exits.
Depot& depot(std::size_t size) noexcept {
  static constinit Depot instances[kSizes];
  static_assert(std::is_trivially_destructible_v<Depot>);
  return instances[size];
}

// Likewise.
template <std::size_t... Size>
Slabs& slabs_of(std::size_t size, std::index_sequence<Size...>) noexcept {
  static constinit Slabs instances[] = {Slabs(kBlockSizes[Size].bytes)...};
  return instances[size];
}
Slabs& slabs(std::size_t size) noexcept { return slabs_of(size, std::make_index_sequence<kSizes>()); }

// A child that is forked while another thread is in here would wait for it for ever.
void lock_all() noexcept {
  for (std::size_t size = 0; size < kSizes; ++size) {
    depot(size).lock();
    slabs(size).lock();
  }
}
void unlock_all() noexcept {
  for (std::size_t size = 0; size < kSizes; ++size) {
    slabs(size).unlock();
    depot(size).unlock();
  }
}
[[maybe_unused]] const int at_fork = pthread_atfork(lock_all, unlock_all, unlock_all);

void give_back(std::size_t size, const Magazine& magazine) noexcept {
  if (magazine.count > 0) slabs(size).give(magazine.first, magazine.count);
}

enum class Phase : std::uint8_t { kFresh, kRegistered, kOver };

// Of one thread and size. Two magazines, so that taking and giving at the border of one does not go to the
// depot each time.
struct Cache {
  Magazine active;
  Magazine full;
};

constexpr std::size_t kSmallSizes = 4;

struct Caches {
  Cache of[kSmallSizes];
  Phase phase = Phase::kFresh;
};

// In the static block: a look costs one instruction instead of a call. A few words of it are free for
// libraries that are loaded late; what is copied into large blocks costs more than a call.
[[gnu::tls_model("initial-exec")]] constinit thread_local Caches t_caches;
constinit thread_local Cache t_large[kSizes - kSmallSizes];

inline Cache& cache_of(std::size_t size) noexcept {
  return size < kSmallSizes ? t_caches.of[size] : t_large[size - kSmallSizes];
}

// Empties the caches of a thread that ends.
struct Cleaner {
  Cleaner() noexcept { t_caches.phase = Phase::kRegistered; }
  ~Cleaner() {
    t_caches.phase = Phase::kOver;
    for (std::size_t size = 0; size < kSizes; ++size) {
      Cache& cache = cache_of(size);
      give_back(size, cache.active);
      give_back(size, cache.full);
      cache = {};
    }
  }
};

[[gnu::noinline]] void register_thread() noexcept {
  static thread_local Cleaner cleaner;
  (void)&cleaner;
}

[[gnu::noinline]] void* take_slowly(std::size_t size) noexcept {
  Cache& cache = cache_of(size);
  if (t_caches.phase == Phase::kFresh) register_thread();
  if (cache.full.count > 0) {
    cache.active = cache.full;
    cache.full = {};
    return cache.active.pop();
  }
  const bool registered = t_caches.phase == Phase::kRegistered;
  const auto take_others = [&](std::size_t kept) {
    if (!registered || !depot(size).take(&cache.active, kept)) return false;
    cache.active.come_from_afar(kBlockSizes[size].bytes);
    return true;
  };
  if (take_others(kBlockSizes[size].depot_kept)) return cache.active.pop();
  void* made = slabs(size).take();
  return made == nullptr && take_others(0) ? cache.active.pop() : made;
}

[[gnu::noinline]] void give_slowly(std::size_t size, void* block) noexcept {
  Cache& cache = cache_of(size);
  if (t_caches.phase == Phase::kFresh) register_thread();
  if (t_caches.phase == Phase::kOver) {
    Magazine single;
    single.push(block);
    return give_back(size, single);
  }
  if (cache.active.count == kBlockSizes[size].magazine_blocks) {
    const bool keeps_one = kBlockSizes[size].magazine_blocks == 1;  // and no second magazine
    Magazine& handed = keeps_one ? cache.active : cache.full;
    if (handed.count > 0) give_back(size, depot(size).put(handed, kBlockSizes[size].depot_magazines));
    if (!keeps_one) {
      cache.full = cache.active;
      cache.full.step = 0;  // it was this thread, in the end
    }
    cache.active = {};
  }
  cache.active.push(block);
}

inline void* take(std::size_t size) noexcept {
  Magazine& active = cache_of(size).active;
  if (active.count > 0) [[likely]]
    return active.pop();
  return take_slowly(size);
}

inline void give(std::size_t size, void* block) noexcept {
  Magazine& active = cache_of(size).active;
  if (t_caches.phase == Phase::kRegistered && active.count < kBlockSizes[size].magazine_blocks) [[likely]] {
    return active.push(block);
  }
  give_slowly(size, block);
}

}  // namespace

void* take_block() noexcept { return take(0); }
void give_block(void* block) noexcept { give(0, block); }

void* take_memory(std::size_t bytes) noexcept {
  const std::size_t size = size_for(bytes);
  return size < kSizes ? take(size) : std::aligned_alloc(kCacheLine, align_up(bytes, kCacheLine));
}

void give_memory(void* memory, std::size_t bytes) noexcept {
  const std::size_t size = size_for(bytes);
  if (size == kSizes) return std::free(memory);
  give(size, memory);
}

}  // namespace lwmq::message
